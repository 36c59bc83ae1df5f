/*
 * Leases: memory of a process that stands in for the user's, with the streams and events of its copies.
 *
 *     DEVICE    plain device memory: scratch memory (scratch.c, pieces.c, relay.h), rooms for rows (slot_copies.c, write.c)
 *     PINNED    private host memory that is registered with the runtime: staged blocks, slots of copies (pins.h), of writers
 *               (write.c) and of relays (relay.h)
 *     SHARED    a block in an arena, which peers read: slots (by_slots.c). Each process that reads it has registered it (slots.h).
 *               A rank whose cores copy has such memory without a runtime
 *
 * A call takes a lease and gives it back when it ends. Making such memory takes longer than most calls, so the process keeps what
 * has been given back, for any communicator. So memory does not grow with the number of communicators, peers find the same
 * exports again, and the sum has a bound (gpu/budget.h).
 *
 * Who may use the memory:
 *     TAKEN     The call, its copies, and engines of peers to which the call has shown it.
 *     IDLE      Nobody: the call's copies have ended, and so have all ranks. Only idle memory is taken again, or freed.
 *     LATE      The call has failed, and its copies do not end, or nothing tells when. It is freed at the end of the process if
 *               no copy is under way then.
 *     LOST      The call has failed, and engines of peers may still write to it. It is freed with the communicator. If queues
 *               may use it even then, it stays until the process ends.
 *
 * What a call gets:
 *     it fits into idle memory                  the smallest
 *     it would fit within the bound             new memory, half as large again if that leaves as much to others: peers have to
 *                                               open new memory. Idle memory gives way: first that of the same kind and device, all
 *                                               of which is smaller, then the least recently used of any kind in the same bound
 *     it does not fit                           less, but not less than it needs. Of device memory half of what is left, so that
 *                                               another call gets something, too
 *     the device has no room                    the same with half of the size, and so on
 *     nothing of that                           an error, and the call takes another way
 *
 * The bytes are taken from the budget before the memory is made, and given back when it has been freed. When memory cannot be made,
 * nothing is left of it. Memory that the runtime does not release while a stream waits stays idle, and is registered or mapped as
 * it was. Where a scope to release cannot be entered, the runtime has been shut down and has released what it had given: only
 * what is ours is freed then. Streams and events are made when a call first needs them, and stay. Memory without streams is used
 * by copies on the streams of another lease, and is given back after that one.
 *
 * The device lock of the process guards the list and the state of what is in it. A lease itself belongs to the call that has it.
 */
#ifndef DMA_DEVICE_LEASE_H
#define DMA_DEVICE_LEASE_H

#include "core/comm.h"
#include "gpu/memory.h"
#include "gpu/runtime.h"

#define DMA_LEASE_STREAMS 3
#define DMA_LEASE_EVENTS  33

typedef enum dma_lease_kind { DMA_LEASE_DEVICE, DMA_LEASE_PINNED, DMA_LEASE_SHARED } dma_lease_kind_t;

typedef enum dma_lease_state { DMA_LEASE_IDLE, DMA_LEASE_TAKEN, DMA_LEASE_LATE, DMA_LEASE_LOST } dma_lease_state_t;

typedef struct dma_lease {
    struct dma_lease *next;
    dma_lease_kind_t kind;
    dma_lease_state_t state;
    const dma_gpu_runtime_t *rt; /* NULL: of a rank whose cores copy; it has no streams and events then */
    int device;
    dma_arena_t *arena; /* of shared memory, and its block there */
    void *block;
    uint64_t used;          /* a greater number: taken later */
    const dma_comm_t *comm; /* of the last call: what is lost is freed with it; NULL: at no time */

    uint64_t addr; /* for the device; aligned as the runtime aligns allocations */
    char *memory;  /* for cores; NULL: device memory */
    uint64_t bytes;
    dma_gpu_memory_t about; /* what the runtime says of device memory */
    bool beyond;            /* it exceeds the bound, and goes with its call */
    bool copies;            /* copies on the streams may be under way: giving back waits for them */
    unsigned streams, events;
    dma_gpu_stream_t *stream[DMA_LEASE_STREAMS];
    dma_gpu_event_t *event[DMA_LEASE_EVENTS];
} dma_lease_t;

/* What a call wants. */
typedef struct dma_lease_want {
    dma_lease_kind_t kind;
    const dma_gpu_runtime_t *rt;
    int device;
    dma_arena_t *arena;     /* of shared memory */
    const dma_comm_t *comm; /* NULL: what is lost stays until the process ends */
    uint64_t bytes, least;  /* `least`: less is of no use; not more than `bytes` */
    unsigned streams, events;
    bool exact; /* new memory is not larger than wanted */
    bool must;  /* small, and the call fails without it: the bound may be exceeded */
} dma_lease_want_t;

/* DMA_ERR_NOMEM: the bound or the device has no room. Other errors are those of the runtime. */
dma_status_t dma_lease_take(dma_proc_t *proc, const dma_lease_want_t *want, dma_lease_t **lease);
/* The call has ended on all ranks, or no other rank has seen the memory. False: copies on its streams have not ended. Of memory that
 * they use, too, `copies` is set then. */
bool dma_lease_give_back(dma_proc_t *proc, dma_lease_t *lease);
/* The call has failed: engines of peers may write to the memory until the communicator ends. */
void dma_lease_lose(dma_proc_t *proc, dma_lease_t *lease);

/* The communicator ends: frees what its failed calls have lost, and what is idle in an arena of its own or without a device.
 * `permanent`: queues may still use what is lost, so it stays. */
void dma_lease_leave(const dma_comm_t *comm, bool permanent);
/* With the device lock: frees what is idle of a device. No communicator uses it any more. */
void dma_lease_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
/* The process ends. Memory of which somebody may still use is left. */
void dma_leases_destroy(dma_proc_t *proc);

#endif
