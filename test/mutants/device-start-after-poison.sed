# A rank starts though another has failed, and wakes its engines up.
# file: ompi_coll_dma/device/persistent.c
# build: plain
# tests: test_sdma_engine:started_behind_a_failure
s/if \(poison != DMA_OK\)/if (false)/
