# A peer is told that its block has been read when the first piece has.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
/^static void build_consumer/,/^}/s/DMA_OP_DIRECT \| DMA_OP_LAST/DMA_OP_DIRECT/
