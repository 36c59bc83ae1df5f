# An engine with two peers waits for one of them.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:ranks_on_one_gpu
s/m->load\[p->engine\] == 1 && //
