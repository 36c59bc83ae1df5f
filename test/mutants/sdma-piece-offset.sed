# All pieces of a large copy go to its beginning.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:pieces
s/addrs\[i\] \+ done/addrs[i]/
