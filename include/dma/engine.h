/*
 * Engines: what runs the queue programs of a plan.
 *
 * Contract. An engine runs the operations of one queue in order as far as flags are concerned: a SIGNAL comes after
 * everything before it on its queue is complete and visible, nothing after a WAIT starts before the flag is seen.
 * Copies between two flags may be reordered and may overlap. Queues are independent; an engine need not be fair between
 * them but must not let one that waits hold up another. An engine says in its capabilities which operations it has, and
 * a plan that needs more is never given to it.
 *
 * `start` begins a run, `advance` moves it on without ever waiting, but for run->spin_budget, which are over in less than a
 * microsecond: DMA_OK when every program has ended, DMA_AGAIN when what is left waits for somebody or has had its turn, an error when the run has failed (a failed run touches no memory any more).
 * Runs are not shared between threads: the caller holds the communicator's lock.
 */
#ifndef DMA_ENGINE_H
#define DMA_ENGINE_H

#include "dma/plan.h"

/* One side of a call: where its blocks are. */
typedef struct dma_blocks {
    char *addr;
    uint64_t bytes;         /* of every block, unless counts is set */
    const uint64_t *counts; /* bytes per block */
    const int64_t *displs;  /* byte displacements; NULL: block b is at b * bytes */
} dma_blocks_t;

static inline uint64_t dma_blocks_bytes(const dma_blocks_t *b, uint64_t block)
{
    return b->counts ? b->counts[block] : b->bytes;
}

static inline char *dma_blocks_addr(const dma_blocks_t *b, uint64_t block)
{
    /* Where there are no bytes the address may be NULL, to which C does not let us add. */
    return (char *)((uintptr_t)b->addr + (b->displs ? (uintptr_t)b->displs[block] : (uintptr_t)(block * b->bytes)));
}

/* Where a program stands. */
typedef struct dma_cursor {
    uint32_t pc;
    uint8_t ended;
    uint8_t refused;  /* the direct way: the block could not be read */
    uint8_t fallback; /* on the second way */
    uint64_t trip, trips;
} dma_cursor_t;

struct dma_window; /* shared memory of a communicator, node/window.h */

/* A plan bound to one call. */
typedef struct dma_run {
    const dma_plan_t *plan;
    struct dma_window *window;
    dma_blocks_t send, recv; /* in place: send is the own block of recv */
    char *temp;              /* behind DMA_BASE_TEMP */
    uint64_t chunk;
    const uint64_t *stream;           /* per rank: chunks it has put into its stream before this call */
    const uint64_t *pair_out;         /* per rank: chunks we have put into our stream for it */
    const uint64_t *pair_in;          /* per rank: chunks it has put into its stream for us */
    uint64_t seq;                     /* of the communicator: the epoch */
    uint64_t sign;                    /* operation and bytes: what this rank publishes and expects of its peers */
    uint64_t sign_flags;              /* DMA_SIGN_REFUSED, or 0: what it publishes besides */
    uint32_t epoch;                   /* GPU plans: calls of that kind on the communicator, this one included */
    const struct dma_target *targets; /* GPU plans, by rank: where the receive buffers are (engine/gpu.h) */
    const struct dma_shape
        *shape; /* GPU plans: of the blocks of `send` (gpu/shape.h); NULL: their bytes are side by side */
    struct dma_gpu_binding *binding; /* GPU plans: the engine, as bound to the communicator */
    bool second_entry;               /* entry brings the data: the first one, of device memory, had none */
    bool again;    /* GPU plans: plan, places and lengths are those of the last run that was started on `binding` */
    uint32_t live; /* programs not ended */
    uint32_t spin_budget;  /* more than the first one at peers that have not entered yet, in all advances together */
    int failed_rank;       /* whom an error is about, or -1 */
    int refused_rank;      /* one that has told so in its descriptor, or -1 */
    dma_cursor_t *cursors; /* plan->nprogs of them, owned by the caller */
} dma_run_t;

/* The bytes that a length means to this rank, and where in the block they begin. */
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

typedef struct dma_engine_caps {
    uint32_t ops;      /* bit mask of 1 << dma_op_code_t */
    uint64_t max_copy; /* bytes of one operation; 0: no limit */
    uint32_t swap_align;
} dma_engine_caps_t;

typedef struct dma_engine {
    const char *name;
    dma_engine_caps_t caps;
    dma_status_t (*start)(dma_run_t *run);
    dma_status_t (*advance)(dma_run_t *run);
} dma_engine_t;

/* The ranks' own cores: always there. */
extern const dma_engine_t dma_engine_host;

#endif
