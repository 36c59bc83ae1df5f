# Only the first start of a persistent call is armed.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_device_persistent:armed_for_the_next_start
/^static void finish/,/^}/s/dma_device_arm\(comm\);//
