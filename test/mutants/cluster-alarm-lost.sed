# An alarm that finds no memory is given up.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_told:an_alarm_without_memory
s/status == DMA_ERR_NOMEM && alarm && spare_request/false \&\& spare_request/
