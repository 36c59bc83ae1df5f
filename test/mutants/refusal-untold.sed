# A rank that cannot read its peers keeps it to itself.
# file: ompi_coll_dma/task/task.c
# build: plain
# tests: test_reach:refused
/^static void tell_refusal/,/^}/s/p < comm->nranks/false/
