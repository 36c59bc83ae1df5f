# What is under way is lost at the end.
# file: ucx_tl/net.c
# build: plain
# tests: test_ucx_tl_faults:a_sender_leaves_before_it_is_connected
s/is_sending\(net\) \&\& dma_now\(\) < deadline/false/; s/flushing \&\& dma_now\(\) < deadline/false/
