# Blocks with counts of their own go back as if they lay side by side.
# file: ompi_coll_dma/device/bounce.c
# build: plain
# tests: test_device_holes:below
s/int together = side->counts \? 1 : last - first;/int together = last - first;/
