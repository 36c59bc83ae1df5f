# A round sends what the one before is to bring.
# file: ompi_coll_dma/plan/cluster/allgather.c
# build: plain
# tests: test_cluster:every_algorithm
s/^        op->need\[DMA_LANE_RECV\] = round;$//
