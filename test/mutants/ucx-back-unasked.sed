# A send that is cancelled stays with its peer until that receives it.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:a_send_is_taken_back
s/^        dma_ucx_withdraw_send\(req\);$//
