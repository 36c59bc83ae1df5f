# Receives from a peer that is gone wait for ever.
# file: ucx_tl/peer.c
# build: plain
# tests: test_ucx_tl_faults:a_peer_is_killed
s/dma_net_table_find\(&net->posted, receive_from, peer\)/NULL/
