# A copy ends one byte early.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 4 mi300x
s/dma_packet_copy\(p, to->gen, dst \+ at->done, src \+ at->done, n\)/dma_packet_copy(p, to->gen, dst + at->done, src + at->done, n > 1 ? n - 1 : n)/
