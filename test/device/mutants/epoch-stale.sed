# A completion with the number of the call before.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x
s/dma_packet_fence\(p, to->line, run->epoch\)/dma_packet_fence(p, to->line, run->epoch - 1)/
