# Addresses lose their upper half.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:round_trips
s/addr >> 32/addr >> 63/
