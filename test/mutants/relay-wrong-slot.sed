# The network gets another slot than the engine.
# file: ompi_coll_dma/cluster/relay.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory
s/return r->memory \+ offset\(r, way, slot\)/return r->memory + offset(r, way, slot ^ 1)/
