# Receives from a peer that is gone wait for ever.
# file: ucx_tl/peer.c
# build: plain
# tests: test_ucx_tl_faults:a_peer_is_killed
s/dma_ucx_table_pop_if\(&net->posted, is_receive_from, peer\)/NULL/
