# Completions go to an address of the CPU.
# file: ompi_coll_dma/device/comm.c
# run: sweep device 4 mi300x
s/job\.lines = at \+ \(uint64_t\)\(lines - arena\)/job.lines = (uint64_t)(uintptr_t)lines/
