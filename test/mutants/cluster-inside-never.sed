# Who waits for the ranks of its node alone never looks at the network.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_comm:what_a_wait_costs
s/ \|\| \+\+c->call\.inside % INSIDE_TURNS == 0\) \{/) {/
