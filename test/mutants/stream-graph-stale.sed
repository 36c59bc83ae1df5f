# A graph of other addresses is launched.
# file: ompi_coll_dma/engine/stream/self_copy.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/oldest->made = false;//
