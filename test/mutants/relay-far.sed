# A relay copies rows by 2D copies however far they are apart.
# file: ompi_coll_dma/task/relay.c
# build: plain
# tests: test_device_shape:rows_far_apart_in_a_relay
s/rows > 1 \&\& near/rows > 1/
