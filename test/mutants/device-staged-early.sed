# Staged data are announced as if the descriptor were the first.
# file: ompi_coll_dma/device/call.c
# build: thread
# tests: test_device:every_mixture
s/return go_by_host\(comm, task, true\);/return go_by_host(comm, task, false);/
