/*
 * Pinned host memory of a process, for copies between device memory and host memory (stage.c, resolve.c).
 *
 * Copies from and to pinned memory run at the speed of the link and do not stop the processor. Pinning takes longer than most
 * copies, so the process keeps what it has pinned, in blocks that calls borrow. Their sum has a bound (gpu/budget.h). Blocks
 * that no call uses give way, the least recently used first. Blocks of a device go when its last communicator has ended.
 *
 * A call that fits gets a block for its data: one copy brings them there or back. Otherwise its data are in pageable memory,
 * and go through a block in two slots, of which the runtime copies one while the processor copies the other:
 *
 *     device memory  --runtime-->  | slot 0 | slot 1 |  --processor-->  pageable memory        and the other way round
 */
#ifndef DMA_DEVICE_PINS_H
#define DMA_DEVICE_PINS_H

#include "core/comm.h"
#include "gpu/cache.h"
#include "gpu/runtime.h"

typedef struct dma_pin {
    dma_cached_t block; /* first; busy: a call has it */
    char *memory;
    dma_gpu_stream_t *stream;
    dma_gpu_event_t *event[2]; /* by slot */
    bool copies;               /* copies may be under way on the stream */
} dma_pin_t;

/* Gets a block of at least `bytes` bytes, or NULL. */
dma_pin_t *dma_pin_get(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes);
/* Gets a block for slots, as large as is useful if there is room, or NULL. */
dma_pin_t *dma_pin_get_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
void dma_pin_put(dma_proc_t *proc, dma_pin_t *pin);

/* In the runtime's scope of the device. `start` begins a copy between the block's memory and device memory, `end` waits for
 * all that have begun. */
dma_status_t dma_pin_start(dma_pin_t *pin, const void *to, const void *from, uint64_t bytes);
dma_status_t dma_pin_end(dma_pin_t *pin);
/* Copies between device memory and pageable memory, through the slots. `write`: to device memory. */
dma_status_t dma_pin_read(dma_pin_t *pin, char *to, const char *from, uint64_t bytes);
dma_status_t dma_pin_write(dma_pin_t *pin, char *to, const char *from, uint64_t bytes);

/* With the device lock: frees idle blocks until `bytes` bytes of pinned memory are left, or none is idle. */
void dma_pins_make_room(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes);
/* With the device lock: no communicator uses the device any more. */
void dma_pins_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
void dma_pins_destroy(dma_proc_t *proc);

#endif
