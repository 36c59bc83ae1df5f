# A rank that leaves keeps the peers' blocks.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:communicators_come_and_go
s/dma_block_leave\(w->peers\[r\].block\);//
