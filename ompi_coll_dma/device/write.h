/* From host memory to device memory, only the data of a datatype: write.c. */
#ifndef DMA_DEVICE_WRITE_H
#define DMA_DEVICE_WRITE_H

#include "core/comm.h"
#include "gpu/shape.h"

typedef struct dma_writer dma_writer_t;
/* Enters the runtime's scope, until dma_writer_end. */
dma_status_t dma_writer_begin(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, dma_writer_t **writer);
/* Waits for all copies. Returns `status` if it is an error, else the status of the copies. */
dma_status_t dma_writer_end(dma_proc_t *proc, dma_writer_t *writer, dma_status_t status);
dma_status_t dma_writer_put_shape(dma_writer_t *writer, const dma_location_t *dst, const dma_location_t *src,
                                  uint64_t bytes);
/* Writes elements of a side to `at`. In `from` they are packed, or have the same layout as at `at`. */
dma_status_t dma_writer_put_elements(dma_writer_t *writer, const dma_host_t *host, const dma_side_t *side, char *at,
                                     size_t count, const char *from, bool packed);
void dma_writers_destroy(dma_proc_t *proc);

#endif
