# In an all-to-all two readers share a place.
# file: ompi_coll_dma/plan/host/slot.c
# build: plain
# tests: test_plans:every_variant
s/\(reader - owner - 1 \+ req->nranks\) % req->nranks;/(reader - owner - 1 + req->nranks) % req->nranks \/ 2;/
