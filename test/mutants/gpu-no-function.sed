# Partitions of a device are taken for the first of them.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_engine:collectives
s/ \| unit->pci.function;/;/
