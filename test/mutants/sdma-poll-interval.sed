# A long interval spills into the retries.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/\(uint32_t\)least\(interval, 0xffff\)/interval/
