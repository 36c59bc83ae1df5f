# The second copy of an exchange does not wait for the first.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_lower:exchanges test_sdma_lower:executed
/queue->temp, a \+ d, n\)/{n;s/p \+= dma_drain\(p, queue\);//}
