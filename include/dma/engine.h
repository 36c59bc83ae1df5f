/*
 * Engines run the programs of a plan.
 *
 * Contract. An engine runs the operations of one queue in order with respect to flags: a SIGNAL happens after
 * everything before it on its queue is complete and visible, and nothing after a WAIT starts before the flag has been
 * seen. Copies between two flags may be reordered and may overlap. Queues are independent. An engine need not be fair
 * between queues, but a queue that waits must not block another one. `ops` lists the operations that an engine has; an
 * engine never gets a plan that needs others.
 *
 * `start` begins a run. `advance` continues it and never blocks. It may poll for peers that have not entered yet, at
 * most run->spin_budget times in all calls together, which takes less than a microsecond. `advance` returns
 *
 *     DMA_OK      every program has ended
 *     DMA_AGAIN   the remaining programs wait for a peer, or have done their share of work for this call of `advance`
 *     an error    the run has failed and no longer accesses memory
 *
 * Runs are not shared between threads: the caller holds the communicator's lock.
 */
#ifndef DMA_ENGINE_H
#define DMA_ENGINE_H

#include "dma/plan.h"

/* The send or receive side of a call: where its blocks are. */
typedef struct dma_blocks {
    char *addr;
    uint64_t bytes;         /* of every block; ignored if counts is set */
    const uint64_t *counts; /* bytes per block */
    const int64_t *displs;  /* byte displacements; NULL: block b is at b * bytes */
} dma_blocks_t;

static inline uint64_t dma_blocks_bytes(const dma_blocks_t *b, uint64_t block)
{
    return b->counts ? b->counts[block] : b->bytes;
}

static inline char *dma_blocks_addr(const dma_blocks_t *b, uint64_t block)
{
    /* Integers: a buffer without bytes may be NULL, and C does not allow arithmetic on NULL. */
    return (char *)((uintptr_t)b->addr + (b->displs ? (uintptr_t)b->displs[block] : (uintptr_t)(block * b->bytes)));
}

/* The state of a program. */
typedef struct dma_cursor {
    uint32_t pc;
    uint8_t ended;
    uint8_t refused;  /* direct path: the block could not be read */
    uint8_t fallback; /* the loop is on the fallback path */
    uint64_t trip, trips;
} dma_cursor_t;

struct dma_window; /* shared memory of a communicator, node/window.h */

/* A plan bound to one call. */
typedef struct dma_run {
    const dma_plan_t *plan;
    struct dma_window *window;
    dma_blocks_t send, recv; /* in place: send is the own block of recv */
    uint64_t chunk;
    const uint64_t *stream;   /* per rank: chunks that it has put into its stream in earlier calls */
    const uint64_t *pair_out; /* per rank: chunks that this rank has put into its stream for that rank */
    const uint64_t *pair_in;  /* per rank: chunks that that rank has put into its stream for this rank */
    uint64_t seq;             /* sequence number of the call on its communicator */
    uint64_t sign;       /* operation and bytes (dma_sign): this rank publishes it and expects the same of its peers */
    uint64_t sign_flags; /* DMA_SIGN_REFUSED or 0: published in addition */
    uint32_t epoch;      /* GPU plans: number of GPU plans run on the communicator, including this one */
    const struct dma_target *targets; /* GPU plans: per rank, where its receive buffer is (engine/gpu.h) */
    const struct dma_shape *shape;    /* GPU plans: layout of the blocks of `send` (gpu/shape.h); NULL: contiguous */
    uint64_t shape_skip; /* then: bytes of each block of `send` in front of the first that this run reads; else 0 */
    struct dma_gpu_binding *binding;   /* GPU plans: the state of the engine for the communicator */
    const struct dma_run_parts *parts; /* GPU plans: the blocks have partitions (engine/gpu.h); NULL: none */
    /* this rank has entered the call already, with DMA_SIGN_DEVICE and without data; this run enters a second time,
     * with data */
    bool second_entry;
    bool repeat;           /* GPU plans: plan, addresses and lengths equal those of the last run started on `binding` */
    uint32_t live;         /* programs that have not ended */
    uint32_t spin_budget;  /* further polls, after the first, for peers that have not entered */
    int failed_rank;       /* the rank that caused an error, or -1 */
    int refused_rank;      /* a rank whose descriptor has DMA_SIGN_REFUSED, or -1 */
    bool beside_device;    /* a rank that this one has waited for has device memory */
    dma_cursor_t *cursors; /* plan->nprogs of them, owned by the caller */
} dma_run_t;

/* The number of bytes that `len` means on this rank. *skip: where in the block they begin. */
static inline uint64_t dma_run_length(const dma_run_t *run, const dma_len_t *len, uint64_t *skip)
{
    uint64_t bytes = len->kind == DMA_LEN_CONST
                         ? len->len
                         : dma_blocks_bytes(len->kind == DMA_LEN_SEND ? &run->send : &run->recv, len->len);
    uint64_t head = bytes <= run->plan->head ? bytes : 0;

    *skip = 0;
    switch (len->part) {
    case DMA_HEAD:
        return head;
    case DMA_TAIL:
        return bytes - head;
    case DMA_LOWER:
        return dma_lower_half(bytes);
    case DMA_UPPER:
        *skip = dma_lower_half(bytes);
        return bytes - *skip;
    default:
        return bytes;
    }
}

typedef struct dma_engine {
    const char *name;
    uint32_t ops; /* bit mask of 1 << dma_op_code_t */
    dma_status_t (*start)(dma_run_t *run);
    dma_status_t (*advance)(dma_run_t *run);
} dma_engine_t;

/* The host engine: copies by the ranks' cores. Always available. */
extern const dma_engine_t dma_engine_host;
/* The same for communicators with a trace. */
extern const dma_engine_t dma_engine_host_traced;

#endif
