# The last piece, if it is not a full one, is forgotten.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory
s/\(uint32_t\)\(\(op->bytes \+ c->piece - 1\) \/ c->piece\)/(uint32_t)(op->bytes > c->piece ? op->bytes \/ c->piece : 1)/
