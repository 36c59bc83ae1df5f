# Chunks from a peer are counted as ours.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/DMA_FLAG_PAIR_PRODUCED && signal/DMA_FLAG_PAIR_PRODUCED/
