# The gfx version decides before the device.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:generations
s/devices\[i\]\.device_id == device_id/devices[i].device_id == device_id \&\& version == 90402/
