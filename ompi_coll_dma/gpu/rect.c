/* Copies of rectangles with the runtime's calls. */
#include "gpu/runtime.h"

dma_status_t dma_gpu_copy_rect(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, const dma_rect_t *r)
{
    uint64_t widest = r->dst_pitch > r->src_pitch ? r->dst_pitch : r->src_pitch;
    uint64_t narrowest = r->dst_pitch < r->src_pitch ? r->dst_pitch : r->src_pitch;
    dma_status_t status = DMA_OK;

    if (r->rows > 1 && widest <= DMA_GPU_MAX_PITCH && narrowest >= r->row_bytes) {
        return rt->copy2d_async(stream, r->dst, r->dst_pitch, r->src, r->src_pitch, r->row_bytes, r->rows);
    }
    for (uint64_t row = 0; status == DMA_OK && row < r->rows; row++) {
        status = rt->copy_async(stream, r->dst + row * r->dst_pitch, r->src + row * r->src_pitch, r->row_bytes);
    }
    return status;
}
