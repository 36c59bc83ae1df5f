# Blocks are taken out of scratch before they have come.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
/^static void unpack\(/,/^\}/s/f->plan->nops\[DMA_LANE_RECV\]/0/
