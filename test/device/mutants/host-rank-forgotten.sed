# A rank with host memory is taken for one with device memory.
# file: ompi_coll_dma/device/call.c
# run: sweep ranks 3 mi300x
s/\*all = \*all && \(d->sign & DMA_SIGN_DEVICE\)/*all = true/
