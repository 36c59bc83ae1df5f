# A virtual function is taken for a part with all engines.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:generations
s/\{0x74b6, MI308X\}/{0x74b6, GFX942}/
