# A plan that reads peers' memory does not say so.
# file: ompi_coll_dma/plan/host_cross.c
# build: plain
# tests: test_plans:every_variant
s/plan->streams = true/plan->streams = false/
