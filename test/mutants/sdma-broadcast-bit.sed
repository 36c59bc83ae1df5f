# The second destination of a broadcast is never written.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/1\) << 27/1) << 26/
