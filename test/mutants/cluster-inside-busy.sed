# Who waits for the ranks of its node alone looks at the network in every turn.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_comm:what_a_wait_costs
s/^#define INSIDE_TURNS 8 /#define INSIDE_TURNS 1 /
