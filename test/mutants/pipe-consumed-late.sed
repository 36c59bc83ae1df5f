# A producer overwrites a chunk one trip before it has been consumed.
# file: ompi_coll_dma/plan/host/pipe.c
# build: plain
# tests: test_plans:every_variant
s/1 - \(int32_t\)req->geom.chunk_depth/-(int32_t)req->geom.chunk_depth/
