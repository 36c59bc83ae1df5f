# Only blocks that are whole lines are exchanged by swap packets.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_lower:exchanges
s/bytes \/ to->gen->swap_align \* to->gen->swap_align/bytes/
