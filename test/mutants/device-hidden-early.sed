# What a queue that waits for ever looks at is hidden from it.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_sdma_engine:started_without_a_peer
s/dc->bound && !dc->device->engine->unbind\(dc->bound\)/dc->bound \&\& (dc->device->engine->unbind(dc->bound), false)/
