# Who has given a queue back counts as its user.
# file: ompi_coll_dma/engine/sdma/queue.c
# build: plain
# tests: test_sdma_queue:least_used
s/queue->users--;//
