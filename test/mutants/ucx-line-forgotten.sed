# What waits for the window is never given to UCX.
# file: ucx_tl/progress.c
# build: plain
# tests: test_ucx_tl:many_more_than_the_window
s/^        dma_net_start_line\(net, peer\);$//
