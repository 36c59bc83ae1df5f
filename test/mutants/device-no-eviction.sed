# The oldest memory of a peer stays open beside the new one.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device:slots_in_lock_step
s/dma_ipc_close\(comm->proc->ipc, peer->open\[slot\]\);//
