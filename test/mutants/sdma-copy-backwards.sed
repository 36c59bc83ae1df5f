# A copy in the wrong direction.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:round_trips
s/\{src, dst\}/{dst, src}/
