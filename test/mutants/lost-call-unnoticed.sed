# A call that is lost fails nobody.
# file: ompi_coll_dma/core/comm.c
# build: plain
# tests: test_cluster_told:a_call_that_is_lost
/^void dma_comm_lose/,/^}/s/^    unplaced\(comm, status\);$//
