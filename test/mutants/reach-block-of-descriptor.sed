# In an all-to-all all read the block that the descriptor names.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_forms:any_form_with_each_variant
s/\(uint64_t\)op->src\.block \* run->send\.bytes/0/
