# A rank whose buffers are device memory keeps a refusal to itself.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device:mixtures_refused
s/ \| dma_comm_sign_flags\(comm\)//
