# Equal blocks are packed one by one.
# file: ompi_coll_dma/core/resolve.c
# build: plain
# tests: test_path:equal_blocks_pack_as_one
s/host && !side->counts && /false \&\& /
