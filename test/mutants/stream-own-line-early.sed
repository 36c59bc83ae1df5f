# The own block is said to be there before it is.
# file: ompi_coll_dma/engine/stream/engine.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/return signal_lines\(b, OWN\);/write_lines(b, OWN);\n    return DMA_OK;/
