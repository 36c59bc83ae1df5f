# A record is announced before it is written.
# file: ompi_coll_dma/device/call.c
# build: thread
# tests: test_device:all_device
/&d->seq, \(uint32_t\)task->run\.seq/s/memory_order_release/memory_order_relaxed/
