# A poll gives up.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:round_trips
s/0xfff\) << 16/0xff) << 16/
