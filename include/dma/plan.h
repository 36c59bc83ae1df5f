/*
 * Plans: what one rank moves in a call, in which order, and on which queue.
 *
 * A plan is data. It is a list of programs, one per queue. A queue runs the operations of its program in order;
 * queues run independently of each other. A plan contains no addresses: an operand names a base (the send or receive
 * buffer of a rank, its slot, ...), a block and an offset, and a flag names its writer and is relative to the call's
 * epoch. So there is one plan per operation, number of ranks, variant, and in place or not. It is built once, cached,
 * checked by an interpreter in the unit tests, and run for every call it fits, whatever the sizes are.
 *
 * Blocks. Block b of a rank's send buffer goes to rank b (an all-gather has one block, number 0). Block b of its
 * receive buffer comes from rank b. The size of a block is that of the local call.
 *
 * Loops. A program may contain one loop: ops[loop_first .. loop_last] run `trips` times. `trips` is the number of
 * chunks in the block that `loop_len` names, rounded up; an empty block has 0 trips. In trip c, an operation with the
 * flag CHUNKED covers at most one chunk, from byte c * chunk on, and its flag value is `value + c`. A program with
 * `loop_only` need not run when its loop has no trips: outside of the loop it only waits for entries that another
 * program of the same plan waits for too.
 *
 * Flags. WAIT blocks its queue until the flag has reached the value. SIGNAL sets the flag. A flag has exactly one
 * writer, `rank`. ENTRY, LANDED and QUEUE start at 0 in each call. SIGNAL has release semantics for everything that
 * the same queue did before it, and WAIT has acquire semantics. Copies of one queue between two flags may run in any
 * order and may overlap. So may copies of different queues.
 *
 * Streams. The CHUNK buffers of a rank form one endless stream over all calls of a communicator. Chunk c of a call
 * has the stream position base + c and lies in buffer (base + c) modulo depth. `base` is the number of chunks that
 * the rank has put into its stream in earlier calls; every rank knows this number for every rank. PRODUCED and
 * CONSUMED count stream positions, and the values in a plan are relative to base. For example, a wait for CONSUMED >=
 * 1 - depth in trip 0 waits until the previous content of the buffer, perhaps of an earlier call, has been consumed.
 * So a producer may run ahead into the next call without further synchronization. The PAIR buffers form such a stream
 * for every ordered pair of ranks, with PAIR_PRODUCED and PAIR_CONSUMED. Only the two ranks of the pair know its
 * base.
 *
 * Direct and fallback path. A rank can read a block out of a peer's memory with a cross-memory copy (node/cross.h). The
 * operand is SEND of the peer if the peer has only one block, or if its blocks are as large as ours: then the address
 * in its descriptor is enough. Otherwise the peer must publish the number of bytes and the address of the block (BYTES,
 * 16 bytes) in its slot, and the operand is REMOTE: the block whose address is in that slot. Such a copy may be
 * refused, for one pair of ranks and not for others. Therefore a loop can have two paths. The direct path is its
 * operations with the flag DIRECT, the fallback path those with the flag FALLBACK, which use chunks of the pair's
 * buffers. The loop runs all trips on the direct path. If the copy was refused, it runs all trips again on the fallback
 * path. The reader reports a refusal to the owner of the block with its SIGNAL(LANDED) on the direct path; the owner
 * waits for LANDED in a loop of the same length. An operation with the flag LAST runs only in the last trip of its
 * path. So if a loop has no trips, there is no synchronization either. A loop over at most plan->fallback_max_bytes
 * bytes uses the fallback path only.
 *
 * Heads and tails. In an all-to-all-v a rank knows only its own byte counts. There, a block of at most plan->head
 * bytes goes through the slot, and a longer block through a loop of as many trips as it needs. Both ranks of a pair
 * know which. A length with the part HEAD is all of a short block and 0 for a long one; with TAIL it is the other way
 * round.
 *
 * Engines. A GPU plan is the plan of a call whose buffers are all device memory. It has one program for the host, the
 * first, and one for every engine queue. A queue program names the rank whose link it uses; the engine maps that to
 * hardware. A queue program copies from this rank's buffers to its peers' buffers, waits only for ENTRY of those
 * peers, and ends with SIGNAL(QUEUE). The owner and all ranks that receive bytes from the queue wait for this signal.
 * So an engine may start a queue after its peers have entered, submit it earlier with the wait in it, or run it on a
 * core.
 *
 * Every call starts with SIGNAL(ENTRY). It publishes the call's descriptor (sequence number, operation, bytes,
 * address of the send buffer) and the LINE payload. WAIT(ENTRY, p) also compares the descriptor of p with what this
 * rank expects. No memory of a rank may be accessed before a WAIT(ENTRY) on that rank.
 *
 * Reuse. The LINE and SLOT of a call are not overwritten before every rank of the communicator has completed the
 * call: the acknowledgements of the descriptor ring (node/window.h) guarantee that, so builders need not. CHUNK and
 * PAIR buffers are reused within and across calls: their producer waits for CONSUMED. Peers may read a send buffer
 * only until its owner completes the call: a rank that reads SEND or REMOTE of a peer must signal, and the owner must
 * wait. The interpreter in test/unit checks all of this.
 */
#ifndef DMA_PLAN_H
#define DMA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/reason.h"
#include "dma/status.h"

#define DMA_LINE_BYTES 96 /* payload in a descriptor: 32 bytes in its header line, 64 in the next line */

/*
 * The operations, a row for each. Their numbers, names, counters, and what the layers ask about them are made from the rows:
 *
 *     X(id, text, function, name, sends, sizes, from, to)
 *         id               what follows DMA_
 *         text             the name in messages
 *         function, name   the name in MPI's functions: in small letters, and as it follows MPI_
 *         sends            ONE: a rank sends one block, the same to all ranks; EACH: it sends a block to each rank
 *         sizes            EQUAL: all blocks have the same size
 *                          SHARED: sizes differ, and every rank knows the sizes of all blocks
 *                          OWN: sizes differ, and a rank knows only those of the blocks that it sends or receives
 *         from, to         the arguments of the send side and of the receive side: N: a count and a datatype; V: arrays of
 *                          counts and displacements, and a datatype; W: arrays of counts, displacements in bytes, and
 *                          datatypes
 *
 * `sends` and `sizes` are the traits of an operation. Variants say which traits they serve, and not which operations.
 */
#define DMA_COLLS(X)                                                                                                   \
    X(ALLGATHER, "all-gather", allgather, Allgather, ONE, EQUAL, N, N)                                                 \
    X(ALLGATHERV, "all-gather-v", allgatherv, Allgatherv, ONE, SHARED, N, V)                                           \
    X(ALLTOALL, "all-to-all", alltoall, Alltoall, EACH, EQUAL, N, N)                                                   \
    X(ALLTOALLV, "all-to-all-v", alltoallv, Alltoallv, EACH, OWN, V, V)                                                \
    X(ALLTOALLW, "all-to-all-w", alltoallw, Alltoallw, EACH, OWN, W, W)

#define DMA_COLL_MEMBER(id, ...)                   DMA_##id,
#define DMA_COLL_TEXT(id, text, ...)               text,
#define DMA_COLL_FUNCTION(id, text, function, ...) #function,
typedef enum dma_coll { DMA_COLLS(DMA_COLL_MEMBER) DMA_COLL_COUNT } dma_coll_t;

/* Traits: an operation has one of `sends` and one of `sizes`. */
enum { DMA_SENDS_ONE = 1, DMA_SENDS_EACH = 2, DMA_SENDS_ANY = 3, DMA_SIZES_ANY = 28 };
typedef enum dma_sizes { DMA_SIZES_EQUAL = 4, DMA_SIZES_SHARED = 8, DMA_SIZES_OWN = 16 } dma_sizes_t;

static inline uint32_t dma_coll_traits(dma_coll_t coll)
{
#define DMA_COLL_TRAITS(id, text, function, name, sends, sizes, ...) DMA_SENDS_##sends | DMA_SIZES_##sizes,
    static const uint8_t traits[] = {
        DMA_COLLS(DMA_COLL_TRAITS) 128}; /* DMA_COLL_COUNT: no operation, and no variant serves it */
#undef DMA_COLL_TRAITS

    return traits[coll];
}

/* Has the operation no other traits than these? */
static inline bool dma_coll_is_served(dma_coll_t coll, uint32_t traits)
{
    return !(dma_coll_traits(coll) & ~traits);
}

/* Does a rank send one block to all ranks, as in an all-gather? */
static inline bool dma_coll_gathers(dma_coll_t coll)
{
    return dma_coll_traits(coll) & DMA_SENDS_ONE;
}

static inline dma_sizes_t dma_coll_sizes(dma_coll_t coll)
{
    return (dma_sizes_t)(dma_coll_traits(coll) & DMA_SIZES_ANY);
}

typedef enum dma_op_code {
    DMA_OP_COPY,   /* dst[0] <- src */
    DMA_OP_COPY2,  /* dst[0], dst[1] <- src, which is read once */
    DMA_OP_SWAP,   /* dst[0] <-> src */
    DMA_OP_WAIT,   /* until flag >= value */
    DMA_OP_SIGNAL, /* flag := value */
    DMA_OP_CHECK,  /* fails the call unless the 64-bit word at src is the number of bytes of recv block `len` */
    DMA_OP_COUNT
} dma_op_code_t;

typedef enum dma_base {
    DMA_BASE_SEND,   /* send buffer of a rank; in place: the own block of its receive buffer */
    DMA_BASE_RECV,   /* receive buffer of a rank */
    DMA_BASE_LINE,   /* payload of a rank's descriptor, DMA_LINE_BYTES */
    DMA_BASE_SLOT,   /* the slot of a rank's descriptor, geom.slot_bytes */
    DMA_BASE_CHUNK,  /* chunk buffers of a rank: geom.chunk_depth of geom.chunk_bytes each */
    DMA_BASE_PAIR,   /* buffers of a rank for the reader `block`: geom.pair_depth, together geom.pair_bytes */
    DMA_BASE_BYTES,  /* 8 bytes: the number of bytes of send block `block`; 16 bytes: then its address */
    DMA_BASE_REMOTE, /* block `block` of the send buffer of `rank`; its address is in the SLOT of `rank` at `offset` */
    DMA_BASE_COUNT
} dma_base_t;

typedef enum dma_flag {
    DMA_FLAG_ENTRY,         /* `rank` has entered the call: value 1 */
    DMA_FLAG_PRODUCED,      /* chunks that `rank` has put into its stream, for all readers */
    DMA_FLAG_CONSUMED,      /* chunks of the stream of `peer` that `rank` has consumed */
    DMA_FLAG_PAIR_PRODUCED, /* chunks that `rank` has put into its stream for `peer` */
    DMA_FLAG_PAIR_CONSUMED, /* chunks of the stream of `peer` for `rank` that `rank` has consumed */
    DMA_FLAG_LANDED,        /* `rank` has read the block in the memory of `peer`, or was refused: value 1 */
    DMA_FLAG_QUEUE,         /* engine queue number `peer` of `rank` has completed: value 1 */
    DMA_FLAG_COUNT
} dma_flag_t;

typedef enum dma_len_kind {
    DMA_LEN_CONST, /* `len` bytes */
    DMA_LEN_SEND,  /* all bytes of block `len` of the local send buffer */
    DMA_LEN_RECV,  /* all bytes of block `len` of the local receive buffer */
} dma_len_kind_t;

typedef enum dma_part {
    DMA_WHOLE,
    DMA_HEAD,  /* the whole block if it has at most plan->head bytes, otherwise nothing */
    DMA_TAIL,  /* the whole block if it has more, otherwise nothing */
    DMA_LOWER, /* the first half of the block: see dma_lower_half */
    DMA_UPPER, /* the second half */
} dma_part_t;

/* Bytes of the first half of a block: a multiple of 64, the alignment that swap packets need. */
static inline uint64_t dma_lower_half(uint64_t bytes)
{
    return bytes / 2 / 64 * 64;
}

typedef struct dma_len {
    uint8_t kind; /* dma_len_kind_t */
    uint8_t part; /* dma_part_t, of a block */
    uint64_t len; /* bytes, or a block number */
} dma_len_t;

typedef struct dma_operand {
    uint8_t base; /* dma_base_t */
    int32_t rank;
    int32_t block;
    uint64_t offset;
} dma_operand_t;

typedef struct dma_flag_ref {
    uint8_t kind; /* dma_flag_t */
    int32_t rank; /* its writer */
    int32_t peer; /* CONSUMED, PAIR_*, LANDED: the other rank; QUEUE: the queue's number; ENTRY, PRODUCED: ignored */
} dma_flag_ref_t;

#define DMA_OP_CHUNKED  0x1 /* covers one chunk per trip of the loop */
#define DMA_OP_LAST     0x2 /* runs in the last trip of its path only */
#define DMA_OP_DIRECT   0x4 /* belongs to the direct path */
#define DMA_OP_FALLBACK 0x8 /* belongs to the fallback path */

typedef struct dma_op {
    uint8_t code;  /* dma_op_code_t */
    uint8_t flags; /* DMA_OP_CHUNKED, ... */
    dma_flag_ref_t flag;
    int32_t value; /* WAIT, SIGNAL: the flag value; CHUNKED adds the trip */
    dma_len_t len; /* copies: the bytes, or the block whose chunks are copied; CHECK: the block */
    dma_operand_t dst[2];
    dma_operand_t src;
} dma_op_t;

/* The operation reads a peer's memory and may be refused. */
static inline bool dma_op_reads_peer(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->flags & DMA_OP_DIRECT;
}

#define DMA_ON_HOST (-1)

typedef struct dma_prog {
    /* DMA_ON_HOST, or the rank whose link the engine queue uses; the own rank: copies within its device */
    int32_t link;
    const dma_op_t *ops;
    uint32_t nops;
    uint32_t loop_first; /* loop_first == nops: no loop */
    uint32_t loop_last;
    dma_len_t loop_len;
    bool loop_only; /* the program may be skipped when its loop has no trips */
} dma_prog_t;

/* Sizes of the shared memory behind LINE, SLOT, CHUNK and PAIR. All ranks of a communicator agree on them in set-up. */
typedef struct dma_geom {
    uint32_t ring_depth; /* descriptors of the ring: calls in flight; a power of two */
    uint32_t slot_bytes;
    uint32_t chunk_bytes; /* largest chunk */
    uint32_t chunk_depth; /* chunk buffers, a power of two */
    uint32_t pair_bytes;  /* of all buffers of one ordered pair of ranks */
    uint32_t pair_depth;  /* buffers of one ordered pair of ranks, a power of two */
} dma_geom_t;

typedef struct dma_plan {
    dma_coll_t coll;
    int rank;
    int nranks;
    bool in_place;
    bool streams;  /* uses CHUNK or PAIR buffers or peers' memory: a communicator runs one such call at a time */
    bool gpu;      /* GPU plan: all programs except the first are for engine queues */
    uint64_t head; /* a block of at most so many bytes is a head */
    /* loops over at most so many bytes use the fallback path: two copies through one pair buffer take less time than a
       cross-memory copy with its system call. At most the size of a pair buffer. 0: no loop has two paths */
    uint64_t fallback_max_bytes;
    uint32_t variant; /* index into the algorithm table */
    uint32_t nprogs;
    dma_prog_t *progs;
} dma_plan_t;

struct dma_gpu_profile;

/* The input of builders and of the cost model: facts that are equal on all ranks. */
typedef struct dma_plan_req {
    dma_coll_t coll;
    int nranks;
    bool in_place; /* may differ between the ranks of an all-gather, so the choice ignores it there */
    /* of the largest block; all-to-all-v, where no rank knows it: an estimate that is equal on all ranks */
    uint64_t bytes;
    bool cross_memory; /* every pair of ranks can read each other's memory */
    uint32_t ranks_per_core_x16;
    dma_geom_t geom;
    uint64_t head; /* all-to-alls: blocks of at most so many bytes go through slots, if they fit; 0: all that fit */
    /* set if the buffers of all ranks are device memory, otherwise NULL */
    const struct dma_gpu_profile *gpu;
    bool prelaunch;      /* the packets may be submitted to the engines before the call starts */
    bool bcst;           /* all ranks' engines write two places in one operation */
    bool by_copies;      /* not all ranks' engines exchange two blocks in one operation: copies do it */
    uint32_t max_queues; /* engine queues that a rank may use for its peers at the same time */
    uint32_t queues;     /* that the plan uses: set by the user or from the choice; 0: not chosen yet */
} dma_plan_req_t;

struct dma_profile;

typedef struct dma_choice {
    uint32_t variant;
    uint32_t chunk;   /* bytes per trip */
    uint32_t queues;  /* GPU plans */
    bool prelaunch;   /* GPU plans: that takes less time than to write the packets at the start */
    uint64_t cost_ps; /* predicted */
} dma_choice_t;

/* One row of the algorithm table. */
typedef struct dma_variant {
    const char *name;
    const char *help;
    uint32_t serves; /* operations with these traits */
    /* Why this variant cannot run the request, in words; NULL: it can. */
    const char *(*unfit)(const dma_plan_req_t *req);
    /* Builds the plan of one rank. On success the caller owns *plan (dma_plan_free). */
    dma_status_t (*build)(const dma_plan_req_t *req, int rank, dma_plan_t **plan);
    /* Returns the predicted picoseconds, and sets choice->chunk (0: no loop), or choice->queues and prelaunch. */
    uint64_t (*cost)(const struct dma_profile *profile, const dma_plan_req_t *req, dma_choice_t *choice);
    bool gpu; /* builds GPU plans; otherwise plans for the ranks' cores */
} dma_variant_t;

/* The algorithm table (plan/variants.c), terminated by NULL. */
extern const dma_variant_t *const dma_variants[];
/* Index of a variant by name, or -1. */
int dma_variant_find(const char *name);

/* Chooses the variant with the lowest predicted cost among those that fit, or `forced` (an index) if that is >= 0 and
 * fits. Returns DMA_UNSUPPORTED if none fits. *reason says why then, and also why `forced` did not fit; otherwise
 * NULL. */
dma_status_t dma_plan_choose(const struct dma_profile *profile, const dma_plan_req_t *req, int forced,
                             dma_choice_t *choice, const char **reason);
/* Builds the plan of `rank` for a choice of dma_plan_choose. */
dma_status_t dma_plan_build(const dma_plan_req_t *req, const dma_choice_t *choice, int rank, dma_plan_t **plan);
void dma_plan_free(dma_plan_t *plan);

#endif
