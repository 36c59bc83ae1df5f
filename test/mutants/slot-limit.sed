# The slot limit is off by one.
# file: ompi_coll_dma/plan/host/slot.c
# build: plain
# tests: test_plans:limits
s/req->bytes > cell_bytes\(req, req->geom.slot_bytes\)/req->bytes > cell_bytes(req, req->geom.slot_bytes) + 1/
