# A rank whose own call has come again takes that for all of them.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device:calls_that_come_again
s/if \(!\(dma_device_brief\(comm, r, task->run\.seq\)->more & DMA_BRIEF_AGAIN\)\)/if (!(dma_device_brief(comm, comm->rank, task->run.seq)->more \& DMA_BRIEF_AGAIN))/
