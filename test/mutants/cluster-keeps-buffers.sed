# A call that fails waits for peers that are busy elsewhere, however long.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_cluster_comm:an_error_gives_the_buffers_back
s/each_under_way\(c, c->wire->give_up\);//
