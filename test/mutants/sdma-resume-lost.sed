# A program that did not fit begins its operation anew.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_lower:executed
s/^( *)at->done \+= n;/\1at->done = n;/
