# A child takes its parent's queues for its own.
# file: ompi_coll_dma/engine/sdma/queue.c
# build: plain
# tests: test_sdma_kfd:child
s/MADV_WIPEONFORK/MADV_NORMAL/
