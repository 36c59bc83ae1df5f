# Giving up does not reach who waits for a start.
# file: ompi_coll_dma/engine/sdma/arm.c
# run: sweep device 4 mi300x --mca coll_dma_armed_seconds 0.001
s/~UINT32_C\(1\)/UINT32_MAX/
