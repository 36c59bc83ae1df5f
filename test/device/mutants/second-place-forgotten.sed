# A broadcast to the same place twice.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant bcst
s/dst1 \+ d/dst0 + d/
