# A slot is read before its owner has entered.
# file: ompi_coll_dma/plan/host/slot.c
# build: plain
# tests: test_plans:every_variant
/dma_build_wait/s/, 1\);/, 0);/
