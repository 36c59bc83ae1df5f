# Broadcast packets to any address.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant bcst
s/ && !dma_gen_broadcast_unfit\(to->gen, dst0, dst1\)//
