# Prelaunch is chosen where it is not allowed.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:the_cheapest_that_may
s/if \(req->prelaunch\)/if (true)/
