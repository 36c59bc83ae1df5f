# The peer keeps the own block that was echoed through its memory.
# file: ompi_coll_dma/engine/stream/self_copy.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/return status == DMA_OK \? rt->copy_async\(stream, c->dst\[via\], src, room\) : status;/(void)src;\n    return status;/
