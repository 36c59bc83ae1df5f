# A call that a signal has ended is not repeated.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:interrupted
s/errno == EINTR \|\| errno == EAGAIN/false/
