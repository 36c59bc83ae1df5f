# Blocks of different sizes on both sides are not noticed.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_errors:ranks_disagree
s/table\[comm->rank\]\.bytes != ours/false/
