# Any second element goes on where the first ends.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:vectors
s/n && \(uint64_t\)next.stride == .*\) \{/n) {/
