# The next exchange may begin before the memory between is free.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_lower:exchanges test_sdma_lower:executed
s/^( *)dma_drain\(p, queue\);/\1for (int i = 0; i < 10; i++) { p[i] = 0; }/
