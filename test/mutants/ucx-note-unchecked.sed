# A message of another operation is taken.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:sizes_and_notes_that_differ
s/return differ & 0xff \? DMA_ERR_MISMATCH : differ \|\|/return/
