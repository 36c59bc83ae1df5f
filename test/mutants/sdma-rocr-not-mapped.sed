# Memory that the GPU has no access to is given out.
# file: ompi_coll_dma/engine/sdma/rocr.c
# build: plain
# tests: test_sdma_kfd:kinds
s/rocr->allow_access\(1, &pool->gpu, NULL, memory\) != DMA_ROCR_SUCCESS/false/
