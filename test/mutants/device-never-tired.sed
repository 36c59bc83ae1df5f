# Programs wait for ever.
# file: ompi_coll_dma/device/persistent.c
# build: plain
# tests: test_device_persistent:given_up_when_idle
s/dma_now\(\) - dc->armed_at > comm->proc->params\.armed_seconds/false/
