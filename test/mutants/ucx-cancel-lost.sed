# A receive that was taken back stays where messages look for it.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:calls_that_cross
s/dma_ucx_table_remove\(&net->posted, &req->entry\)/true/
