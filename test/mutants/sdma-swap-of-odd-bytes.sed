# Swap packets for what is no multiple of a line.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_lower:exchanges
s/bytes \/ to->gen->swap_align \* to->gen->swap_align/bytes/
