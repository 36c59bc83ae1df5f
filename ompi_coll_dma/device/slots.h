/*
 * Slots: pinned memory of a process that its peers on the node read, for calls in device memory that no engine carries out
 * (by_slots.c). They are a lease of shared memory (lease.h).
 *
 *     block in the arena     | slot 0 | slot 1 | slot 2 | slot 3 |     each holds one piece of what this rank sends
 *
 * A call has the slots of its process until all peers have read them. This process's device reads the slots of a peer only if they are
 * registered here, too. A communicator keeps those registrations (dma_slots_view_t) until the peer's slots are others, or the
 * communicator ends.
 */
#ifndef DMA_DEVICE_SLOTS_H
#define DMA_DEVICE_SLOTS_H

#include "device/lease.h"

#define DMA_SLOTS 4 /* of a process; see by_slots.c */
/* Bytes of all slots. Nobody reads while the first piece is written, so large pieces lose time there. Small ones lose 3 us between
 * two copies of a stream (measured on an H200). With pieces of 2 MiB a block of 32 MiB loses least. */
#define DMA_SLOTS_MOST (UINT64_C(8) << 20)

enum { DMA_SLOTS_OUT, DMA_SLOTS_IN, DMA_SLOTS_STREAMS }; /* into the own slots; out of the slots of peers */

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
