# The oldest memory of a peer stays open beside the new one.
# file: ompi_coll_dma/task/device_comm.c
# build: plain
# tests: test_device:slots_in_lock_step
s/dma_share_close\(comm->proc->share, peer->open\[slot\]\);//
