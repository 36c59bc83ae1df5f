# Ranks without a call do not listen.
# file: ompi_coll_dma/core/proc.c
# build: plain
# tests: test_cluster_told:through_ranks_without_a_call
s/if \(turn % LISTEN_TURNS \|\| /if (turn || /
