# A peer's address in that process.
# file: ompi_coll_dma/device/comm.c
# run: sweep device 4 mi300x
s/\.addr = dma_import_base\(peer->open\[slot\]\) \+ \(uint64_t\)brief->offset/.addr = (uint64_t)(uintptr_t)task->run.recv.addr/
