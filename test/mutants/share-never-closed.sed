# What nobody uses any more stays open.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_cost:openings_are_shared
s/rt->ipc_close\(import->base\);//
