/* From host memory to device memory, only the data of a datatype: write.c. */
#ifndef DMA_DEVICE_WRITE_H
#define DMA_DEVICE_WRITE_H

#include "device/lease.h"
#include "device/rows.h"

#define DMA_WRITER_RECTS 128 /* most rectangles in the slot whose copies have not been started */

/* Of one call. */
typedef struct dma_writer {
    dma_proc_t *proc;
    const dma_gpu_runtime_t *rt;
    int device;
    dma_lease_t *pin, *room; /* pinned memory, or NULL; device memory, or NULL */
    dma_gpu_stream_t *stream;
    dma_gpu_scope_t scope;
    char *slot;
    uint64_t device_slot; /* 0: no memory for it; then writing many rows is slow */
    uint64_t used, sent;  /* bytes of the slot with rows in it; bytes whose copies have been started */
    unsigned rects;
    dma_rect_t rect[DMA_WRITER_RECTS]; /* copies that have not been started; `src` is an offset in the slot */
} dma_writer_t;

/* Enters the runtime's scope, until dma_writer_end. */
dma_status_t dma_writer_begin(dma_writer_t *writer, dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
/* Waits for all copies. Returns `status` if it is an error, else the status of the copies. */
dma_status_t dma_writer_end(dma_writer_t *writer, dma_status_t status);
dma_status_t dma_writer_put(dma_writer_t *writer, const dma_host_t *host, const dma_place_t *dst,
                            const dma_place_t *src, uint64_t bytes);
/* Writes elements of a side to `at`. In `from` they are packed, or have the same layout as at `at`. */
dma_status_t dma_writer_put_elements(dma_writer_t *writer, const dma_host_t *host, const dma_side_t *side, char *at,
                                     size_t count, const char *from, bool packed);

#endif
