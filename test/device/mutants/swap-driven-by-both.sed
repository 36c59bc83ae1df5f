# Both ranks of a pair exchange its blocks.
# file: ompi_coll_dma/plan/gpu/swap.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant swap
s/return 2 \* away < n;/return true;/
