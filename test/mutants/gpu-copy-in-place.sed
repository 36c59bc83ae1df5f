# An all-to-all in place is done by copies, over what has not been sent.
# file: ompi_coll_dma/plan/gpu/push.c
# build: plain
# tests: test_gpu_cost:the_cheapest_that_may
s/req->in_place && !dma_coll_gathers\(req->coll\)/false/
