# The two sides of a swap watch a line each.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:counts_of_a_process_per_gpu
s/ - \(shape->family == DMA_GPU_SWAP \? packets : 0\)//
