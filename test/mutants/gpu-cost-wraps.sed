# A count of packets times their cost wraps.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:no_product_wraps
s/\(dma_wide_t\)\(w->chain - 1\) \* p->packet_ps/(w->chain - 1) * p->packet_ps/
