# Programs wait on engines that serve others.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:queues_that_must_not_wait
s/!b->picks\[link\]\.may_wait \|\|//
