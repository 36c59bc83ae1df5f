# The loop counts the chunks of the head too.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/dma_build_loop\(b, tail\)/dma_build_loop(b, dma_len(DMA_LEN_SEND, (uint64_t)p))/
