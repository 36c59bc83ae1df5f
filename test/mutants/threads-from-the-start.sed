# Whether several threads may come is asked when a communicator is made.
# file: ompi_coll_dma/core/comm.c
# tests: test_failures:threads_may_come_later
# build: plain
s/config->threads \? config->threads : &one_thread/\&one_thread/
