# A started armed run may stand still for ever.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_engine:armed_queues_that_stand_still
s/started \? b->unit->stuck_seconds : HUGE_VAL/HUGE_VAL/
