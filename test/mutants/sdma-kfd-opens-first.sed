# The driver's file is left open when its version is wrong.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:refusals
/^close_file:/,/^free_provider:/s/sys->close\(k->fd\);//
