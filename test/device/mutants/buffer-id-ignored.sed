# Memory that is allocated again is taken for what was there.
# file: ompi_coll_dma/gpu/share.c
# run: sweep device 4 mi300x --mca coll_dma_gpu_variant pcpy -x EMU_IN_FLIGHT=16
s/e->buffer_id == m->buffer_id/true/
