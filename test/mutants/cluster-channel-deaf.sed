# Who waits in a channel's set-up does not hear that the communicator has failed.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_told:a_channel_that_one_does_not_come_to
s/^    bool joining = .*$/    bool joining = false;/
