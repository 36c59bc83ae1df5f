# Memory that is allocated again is taken for what was there.
# file: ompi_coll_dma/gpu/share.c
# run: sweep device 4 mi300x
s/e->buffer_id == m->buffer_id/true/
