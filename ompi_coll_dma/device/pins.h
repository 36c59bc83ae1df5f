/*
 * Copies between device memory and host memory through pinned memory (stage.c, resolve.c, gather.c).
 *
 * They run at the speed of the link and do not stop the processor. A call that fits gets a lease for its data: one copy brings them
 * there or back. Otherwise its data are in pageable memory, and go through a lease in two slots, of which the runtime copies one
 * while the processor copies the other:
 *
 *     device memory  --runtime-->  | slot 0 | slot 1 |  --processor-->  pageable memory        and the other way round
 */
#ifndef DMA_DEVICE_PINS_H
#define DMA_DEVICE_PINS_H

#include "device/lease.h"

/* Takes pinned memory of at least `bytes` bytes, or NULL. */
dma_lease_t *dma_pin_get(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes);
/* Takes memory for slots, as large as is useful if there is room, or NULL. */
dma_lease_t *dma_pin_get_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);

/* In the runtime's scope of the device. `start` begins a copy between the pinned memory and device memory, `end` waits for all
 * that have begun. */
dma_status_t dma_pin_start(dma_lease_t *pin, const void *to, const void *from, uint64_t bytes);
dma_status_t dma_pin_end(dma_lease_t *pin);
/* Copies between device memory and pageable memory, through the slots. `write`: to device memory. */
dma_status_t dma_pin_read(dma_lease_t *pin, char *to, const char *from, uint64_t bytes);
dma_status_t dma_pin_write(dma_lease_t *pin, char *to, const char *from, uint64_t bytes);

#endif
