# Memory that is mapped for another GPU.
# file: ompi_coll_dma/device/resolve.c
# run: sweep any 4 mi300x
s/\(send->device == recv->device \|\|/(true ||/
