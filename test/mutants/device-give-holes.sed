# Rows are written with what lies between them.
# file: ompi_coll_dma/device/write.c
# build: plain
# tests: test_device_holes:staged
s/^(    while \(status == DMA_OK && dma_cut_next\(&cut, &r\)\) \{)$/\1 if (r.rows > 1 \&\& r.src_pitch > 0) { r.row_bytes = r.dst_pitch < r.src_pitch ? r.dst_pitch : r.src_pitch; }/
