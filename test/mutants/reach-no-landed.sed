# A rank leaves while a peer still reads a large block of it.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant test_reach:owner_waits_for_its_reader
/dma_build_wait.*DMA_FLAG_LANDED, p, rank/s/, 1\);/, 0);/
