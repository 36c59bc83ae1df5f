# Nobody compares a peer's number with what is expected.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:unequal_sides
s/dma_build_check\(b, 0, cell\(req, p, rank, 0\), .*\);/dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);/
