# What is armed no more still counts.
# file: ompi_coll_dma/device/persistent.c
# build: plain
# tests: test_device_persistent:several_in_any_order
/^void dma_device_disarm/,/^}/s/atomic_fetch_sub_explicit\(&comm->proc->armed, 1, memory_order_relaxed\);//
