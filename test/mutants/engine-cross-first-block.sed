# A peer's first block is read, whichever is meant.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/\(uint64_t\)op->src.block \* run->send.bytes/(uint64_t)op->src.block * 0/
