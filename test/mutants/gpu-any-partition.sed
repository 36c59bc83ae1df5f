# A partition is guessed where the runtime does not say which it is.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_engine:refusals
s/if \(!unit->pci.has_function &&/if (false \&\&/
