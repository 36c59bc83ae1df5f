# Copies of all programs go through the same memory in between.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_bound:turns_of_two
s/status = get_temp\(b->unit, DMA_SHAPED_TEMP, &to.shaped->temp\);/status = get_temp(b->unit, DMA_SHAPED_TEMP, \&queue->temp), to.shaped->temp = queue->temp;/
s/free_temp\(b->unit, b->shaped\[i\].temp\);/;/
