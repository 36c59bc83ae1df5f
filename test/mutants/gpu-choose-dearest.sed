# The dearest number of queues is chosen.
# file: ompi_coll_dma/plan/gpu/push.c
# build: plain
# tests: test_gpu_cost:the_cheapest_that_may
s/if \(t < best\)/if (t > best || best == UINT64_MAX)/
