# Rows are packed by 2D copies however far they are apart.
# file: ompi_coll_dma/task/device_pack.c
# build: plain
# tests: test_device_shape:rows_far_apart
s/ \&\& r->dst_pitch <= DMA_GPU_MOST_PITCH \&\& r->src_pitch <= DMA_GPU_MOST_PITCH//
