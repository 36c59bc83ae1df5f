# Messages of an introduction are posted with the lock held that progress needs.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_told:introduced_out_of_progress
/p->status = DMA_AGAIN; /,/p->status = status;/{ s/^        pthread_mutex_(un)?lock\(&root->lock\);$//; }
