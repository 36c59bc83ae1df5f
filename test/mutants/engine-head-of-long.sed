# A long block is copied into a place for short ones.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/op->len\.part == DMA_HEAD && bytes > run->plan->head/op->len.part == DMA_HEAD \&\& 0/
