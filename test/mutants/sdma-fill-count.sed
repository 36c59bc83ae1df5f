# A fill of one byte too many.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:round_trips
s/\(uint32_t\)\(bytes - 1\);/(uint32_t)bytes;/
