# All doorbells are the first.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:kinds
s/args\.doorbell_offset & \(DMA_KFD_DOORBELL_BYTES - 1\)/0 * args.doorbell_offset/
