# A call that has failed returns while messages have its buffers.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_cluster_comm:an_error_gives_the_buffers_back
s/while \(each_under_way\(c, NULL\)\);/while (each_under_way(c, NULL) \&\& !given_up);/; s/(each_under_way\(c, c->wire->)give_up\);//
