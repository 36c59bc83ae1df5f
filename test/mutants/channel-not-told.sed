# Who cannot make a channel tells nobody.
# file: ompi_coll_dma/core/channel.c
# build: plain
# tests: test_cluster_told:a_channel_that_one_cannot_make
s/return abandon\(parent, (DMA_ERR_NOMEM|status)\);/return \1;/
