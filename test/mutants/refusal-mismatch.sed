# A rank with device memory takes a refusal for another call.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device:mixtures_refused
s/\(DMA_SIGN_DEVICE \| DMA_SIGN_REFUSED\)/DMA_SIGN_DEVICE/
