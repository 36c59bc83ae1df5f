# Swap packets at any address.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant swap
s/ && !dma_gen_swap_unfit\(to->gen, a, b, whole\)//
