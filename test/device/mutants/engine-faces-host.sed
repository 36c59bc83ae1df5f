# Programs for other GPUs on an engine that faces the host.
# file: ompi_coll_dma/engine/sdma/engine.c
# run: sweep device 5 mi300x
s/!is_remote\(b, prog->link\) && i < prog->nops/i > prog->nops/
