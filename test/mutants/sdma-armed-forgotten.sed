# A queue that has not got to what was given up is forgotten.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:given_up_and_late
s/b->ready = NULL; (.. an engine this late)/dma_sdma_arm_release(b); b->ready = NULL; \1/
