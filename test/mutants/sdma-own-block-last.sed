# The own block waits for a peer.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:packets test_sdma_arm:runs_when_all_have_started
s/own == \(pass == 0\)/own == (pass == 1)/
