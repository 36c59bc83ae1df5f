# Engines that cannot are given shapes.
# file: ompi_coll_dma/device/shape.c
# build: plain
# tests: test_device_shape:by_some_engines
s/return !shaped \|\| can;/return true;/
