# Two readers share a place.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/% req->nranks\) \* cell_bytes/% req->nranks \/ 2) * cell_bytes/
