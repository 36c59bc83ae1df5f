# A peer on the same GPU has no link of its own.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:ranks_on_one_gpu
s/if \(m->nodes\[peer\] == m->gpu->node\)/if (false)/
