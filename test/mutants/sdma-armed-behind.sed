# A program is armed behind one that was given up and that its queue has not got to.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:given_up_and_late
s/if \(b->stalled && /if (false \&\& /
