# Swap packets for what is no multiple of a line.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant swap
s/bytes \/ to->gen->swap_align \* to->gen->swap_align/bytes/
s/dma_gen_swap_unfit\(to->gen, a, b, whole\)/dma_gen_swap_unfit(to->gen, a, b, to->gen->swap_align)/
