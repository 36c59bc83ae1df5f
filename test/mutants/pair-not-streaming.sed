# A plan with streams of pairs does not say so.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/plan->streams = true/plan->streams = false/
