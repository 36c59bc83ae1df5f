# Messages leave before they are packed.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
s/bytes\)->need\[DMA_LANE_LOCAL\] = packed;/bytes);/
