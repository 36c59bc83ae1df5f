# What is under way is lost at the end.
# file: ucx_tl/net.c
# build: plain
# tests: test_ucx_tl:ends_in_any_order test_ucx_tl_faults:a_message_outlives_its_sender
s/sending\(net\) \&\& dma_now\(\) < deadline/false/; s/flushing \&\& dma_now\(\) < deadline/false/
