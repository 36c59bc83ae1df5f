# A pair's buffer is overwritten one trip before it has been taken.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/1 - \(int32_t\)req->geom.pair_depth/-(int32_t)req->geom.pair_depth/
