# A peer's buffer is taken for its allocation.
# file: ompi_coll_dma/device/comm.c
# run: sweep device 4 mi300x
s/dma_import_base\(peer->open\[slot\]\) \+ \(uint64_t\)brief->offset/dma_import_base(peer->open[slot])/
