# A rank that is late to start an armed run is taken for a broken engine.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_engine:armed_queues_that_stand_still
s/started \? b->unit->stuck_seconds : HUGE_VAL/b->unit->stuck_seconds/
s/b->armed_queues\[i\]->seen_at = 0;//
