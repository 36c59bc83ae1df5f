# Nobody is told what a rank has freed.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_freed:freed_memory_is_given_back
s/\.gone = gone\(comm\),//
