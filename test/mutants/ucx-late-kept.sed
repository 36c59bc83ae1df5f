# What comes for a communicator that is over is kept.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:communicators_that_are_over
s/!req && !dma_ucx_table_find\(&net->comms, &comm\)/false/
