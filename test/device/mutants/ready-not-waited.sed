# A persistent call goes before its peers have started.
# file: ompi_coll_dma/device/persistent.c
# run: sweep device 4 mi300x --mca coll_dma_prelaunch 0
s/return dma_device_not_ready\(comm, task\) < 0 \? DMA_OK : DMA_AGAIN/return DMA_OK/
