# Memory for exchanges goes although a queue may still write there.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_bound:late_at_the_end
s/q->temp && !dma_queue_waits\(&unit->queues, q\)/q->temp/
