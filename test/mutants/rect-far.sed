# Rows are copied by 2D copies however far they are apart.
# file: ompi_coll_dma/gpu/rect.c
# build: plain
# tests: test_device_shape:rows_far_apart test_device_shape:rows_far_apart_in_a_relay
s/ \&\& widest <= DMA_GPU_MAX_PITCH//
