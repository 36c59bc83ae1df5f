# Staged data are where the first entry said.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_device:every_mixture
s/^        d->addr = \(uint64_t\)\(uintptr_t\)run->send\.addr; .*$//
