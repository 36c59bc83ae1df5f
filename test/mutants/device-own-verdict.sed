# A rank goes by what it has found out itself.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device_errors:one_bind_fails
s/all = all \&\& \(word \& 3\) == ALL_WELL;//
