# The dearest shape is chosen.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:the_cheapest_that_may
s/ps < \*best_ps/ps > *best_ps/
