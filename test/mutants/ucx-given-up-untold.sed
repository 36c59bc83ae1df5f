# A peer that is given up is not told.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl_faults:a_peer_is_given_up
s/^            dma_ucx_peer_send_control\(req->peer, DMA_UCX_ABORT\);$//
