/*
 * Slots: pinned memory of a process that its peers on the node read, for calls in device memory that no engine carries out
 * (by_slots.c). They are a block in the arena (node/arena.h).
 *
 *     block in the arena     | slot 0 | slot 1 | slot 2 | slot 3 |     each holds one piece of what this rank sends
 *
 * - A call borrows the slots of its process, and gives them back when all peers have read them. Calls of several communicators
 *   that are in progress at once have slots of their own.
 * - Their bytes are taken from the bound of pinned memory (gpu/budget.h). Idle slots give way to other pinned memory
 *   (pins.h), and the other way round. They are freed with the last communicator of their device.
 *   Those of a rank with host memory alone are freed with the communicator.
 * - This process's device reads the slots of a peer only if they are registered here, too. A communicator keeps those
 *   registrations (dma_slots_view_t) until the peer's slots are others, or the communicator ends.
 */
#ifndef DMA_DEVICE_SLOTS_H
#define DMA_DEVICE_SLOTS_H

#include "core/comm.h"
#include "gpu/runtime.h"

#define DMA_SLOTS 4 /* of a process; see by_slots.c */
/* Bytes of all slots. Nobody reads while the first piece is written, so large pieces lose time there. Small ones lose 3 us between
 * two copies of a stream (measured on an H200). With pieces of 2 MiB a block of 32 MiB loses least. */
#define DMA_SLOTS_MOST (UINT64_C(8) << 20)
#define DMA_SLOTS_PAGE UINT64_C(4096)

enum { DMA_SLOTS_OUT, DMA_SLOTS_IN, DMA_SLOTS_STREAMS }; /* into the own slots; out of the slots of peers */

typedef struct dma_slots {
    struct dma_slots *next;
    const dma_gpu_runtime_t *rt; /* NULL: of a rank whose cores copy (join.h); it has no streams and events then */
    int device;
    unsigned resets; /* of the device when they were made */
    dma_arena_t *arena;
    void *block; /* of the arena */
    char *memory;
    uint64_t bytes;
    bool busy; /* a call has them */
    dma_gpu_stream_t *stream[DMA_SLOTS_STREAMS];
    dma_gpu_event_t *event[DMA_SLOTS_STREAMS][DMA_SLOTS]; /* by slot */
} dma_slots_t;

/* Gets slots in the arena of the communicator, of DMA_SLOTS_MOST bytes or what there is room for, at least `least`; or NULL.
 * `rt` NULL: no device copies. */
dma_slots_t *dma_slots_get(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t least);
/* The call has ended. Waits for copies that are in progress after an error. */
void dma_slots_put(dma_proc_t *proc, dma_slots_t *slots);
/* The communicator ends: frees idle slots in an arena of its own; and those that no device uses. */
void dma_slots_leave(dma_comm_t *comm);
void dma_slots_trim_host(dma_proc_t *proc);

/* With the device lock. */
void dma_slots_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
/* Frees idle slots until `bytes` bytes of pinned memory are left, or none is idle. */
void dma_slots_make_room(dma_proc_t *proc, uint64_t bytes);
void dma_slots_destroy(dma_proc_t *proc);

/* Registered memory in the arena of a rank, this one's included. */
typedef struct dma_slots_view {
    char *addr; /* NULL: none */
    uint64_t bytes;
} dma_slots_view_t;

/* Registers the slots of a rank, if they are not those that are registered. `whole`: with the rest of the arena. */
dma_status_t dma_slots_view(const dma_comm_t *comm, int device, int rank, char *addr, uint64_t bytes, bool whole,
                            dma_slots_view_t *view);
/* Ends a registration in the arena of a rank. If a stream waits, it ends later, and the arena stays mapped. */
void dma_slots_unregister(const dma_comm_t *comm, int rank, const char *addr);
void dma_slots_unview(const dma_comm_t *comm, int rank, dma_slots_view_t *view);

#endif
