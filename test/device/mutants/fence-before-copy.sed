# FENCE before the exchange that it is to complete.
# file: ompi_coll_dma/plan/gpu/swap.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant swap -x EMU_DELAY_US=2000
/dma_build_swap\(b, dma_at/{h;d}
/DMA_FLAG_QUEUE, rank, index\), 1\);/G
