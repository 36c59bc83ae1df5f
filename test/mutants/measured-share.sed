# Ranks that take turns on cores are taken to find each other's lines in a cache that holds them back.
# file: ompi_coll_dma/core/setup/measure.c
# build: plain
# tests: test_measure:all_adopt_the_means
s/if \(!share\) \{/{/
