# Host memory is hidden from the devices while it is in use.
# file: ompi_coll_dma/gpu/ipc.c
# run: sweep any 4 mi300x
s/&& !--p->uses\)/\&\& (--p->uses, true))/
