/*
 * Plans: what moves where, in which order, on which queue.
 *
 * A plan is data. For one rank it is a list of queue programs; a program is a list of operations that its queue runs in
 * order, queues run side by side. Nothing in a plan is an address: operands name a base (the send or the receive buffer
 * of a rank, its slot, ...), a block of it and an offset, flags name who writes them and are relative to the call's
 * epoch. So one plan per (operation, ranks, variant, in place) is built once, cached, interpreted by tests and run for
 * every call that fits, whatever its size.
 *
 * Blocks. Block b of a rank's send buffer is what it sends to rank b (all-gathers have one block, number 0); block b of
 * its receive buffer is what it gets from rank b. The bytes of a block are those of the local call.
 *
 * Loops. A program may hold one loop: ops[loop_first .. loop_last] run `trips` times, where trips is the number of
 * chunks in the block that `loop_len` names (rounded up; none for an empty block). An operation marked CHUNKED covers,
 * in trip c, the bytes from c * chunk on, at most one chunk; its flag value is `value + c`. A program that is for its loop
 * alone need not run where that has no trips: outside of it are only waits for entries that the others wait for too.
 *
 * Flags. WAIT blocks its queue until the flag has reached the value, SIGNAL sets it. A flag has exactly one writer,
 * `rank`. ENTRY, LANDED and QUEUE count within one call: 0 means "before anything". Order: SIGNAL makes everything the
 * same queue did before it visible to whoever waits for that value (release / acquire). Copies of one queue between two
 * flags may run in any order and may overlap, and so may queues.
 *
 * Streams. The CHUNK buffers of a rank are one endless stream over all calls of a communicator: chunk c of a call is at
 * stream position base + c, in buffer (base + c) modulo depth, where base is the number of chunks the rank has put into
 * its stream in earlier calls (every rank knows it, for every rank). PRODUCED and CONSUMED count stream positions, and a
 * plan's values are relative to base: a wait for CONSUMED >= 1 - depth at trip 0 waits until the buffer's last content,
 * perhaps of an earlier call, has been taken. So a producer may run ahead into the next call without a further sync.
 * The PAIR buffers are such a stream for every ordered pair of ranks, of what the one sends to the other alone, with
 * PAIR_PRODUCED and PAIR_CONSUMED; the two ranks of a pair know its base.
 *
 * Ways. A peer's blocks can be read in its memory: SEND of that rank, if they are one block or as large as ours, since then
 * its descriptor says where they are. Else the peer must have told: BYTES of 16 bytes are a number of bytes and the block's
 * address, and a REACH operand is the block whose address stands in that place. Reading may be refused, for one pair of ranks
 * and not for others. So it is for loops with two ways: a trip runs the DIRECT operations, and all trips are run again with
 * the STAGED ones, chunks of a pair's buffer, if the reader has been refused.
 * Its SIGNAL(LANDED) among the DIRECT ones says so to the owner, who waits for it in such a loop of the same length. An
 * operation marked LAST is for the last trip of its way: no trips, no meeting. Where a loop is about no more than
 * plan->fallback_max_bytes bytes, it has the second way only.
 *
 * Heads and tails. Where ranks do not know each other's byte counts (all-to-all-v), a block of at most plan->head bytes
 * travels in a way that needs no agreement, and a longer one, of as many trips as it needs, in another: a length may mean
 * what a block has of the first kind, its head, or of the second, its tail. One of them is the block and the other nothing.
 *
 * Engines. The plan of a call whose buffers are all device memory (a GPU plan) has one program for the host, the first,
 * and one for every engine queue. A queue program names the rank whose link it uses: what the machine has there is the
 * engine's business. It pushes out of this rank's buffers into peers', waits for nothing but ENTRY of those peers, and
 * ends with SIGNAL(QUEUE), which all ranks wait for that have bytes from it, and its owner. So a queue may start when its
 * peers have entered, be given to the hardware before they have, with the wait in it, or run on a core: nothing in the
 * plan depends on that.
 *
 * Every call enters with SIGNAL(ENTRY): it publishes the call's descriptor (sequence, operation, bytes, address of the
 * send buffer) and the LINE payload. WAIT(ENTRY, p) also compares the descriptor with what this rank expects, so nothing
 * of a rank may be touched before a WAIT(ENTRY) on it.
 *
 * Reuse. A rank's LINE and SLOT of a call are not overwritten before every rank of the communicator has completed the
 * call (the ring's acknowledgement sees to that, builders need not). CHUNK buffers are reused within and across calls:
 * their producer waits for CONSUMED. A send buffer may be read by peers only until its owner completes: whoever reads a
 * peer's SEND or REACH must signal, and the owner must wait. The interpreter in test/unit checks all of this.
 */
#ifndef DMA_PLAN_H
#define DMA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

#define DMA_LINE_BYTES 96 /* payload that rides in a descriptor: 32 bytes in its header line, 64 in the next */

typedef enum dma_coll { DMA_ALLGATHER, DMA_ALLGATHERV, DMA_ALLTOALL, DMA_ALLTOALLV, DMA_COLL_COUNT } dma_coll_t;

/* All-gathers send one block to all; all-to-alls a block to each. */
static inline bool dma_coll_gathers(dma_coll_t coll)
{
    return coll == DMA_ALLGATHER || coll == DMA_ALLGATHERV;
}

typedef enum dma_op_code {
    DMA_OP_COPY,   /* dst[0] <- src */
    DMA_OP_COPY2,  /* dst[0], dst[1] <- src, read once */
    DMA_OP_SWAP,   /* dst[0] <-> src */
    DMA_OP_WAIT,   /* until flag >= value */
    DMA_OP_SIGNAL, /* flag := value */
    DMA_OP_CHECK,  /* the 64-bit word at src is the number of bytes of recv block `len`: else the call is in error */
    DMA_OP_COUNT
} dma_op_code_t;

typedef enum dma_base {
    DMA_BASE_SEND,   /* send buffer of a rank; in place: its receive buffer's own block */
    DMA_BASE_RECV,   /* receive buffer of a rank */
    DMA_BASE_LINE,   /* payload of a rank's descriptor, DMA_LINE_BYTES */
    DMA_BASE_SLOT,   /* the slot that belongs to a rank's descriptor, geom.slot_bytes */
    DMA_BASE_CHUNK,  /* geom.chunk_depth chunk buffers of a rank, geom.chunk_bytes each */
    DMA_BASE_PAIR,   /* geom.pair_depth buffers of a rank for the reader `block`, geom.pair_bytes in all */
    DMA_BASE_BYTES,  /* the 64-bit number of bytes of send block `block`; then its address, where 16 bytes are meant */
    DMA_BASE_REMOTE, /* block `block` of the send buffer of `rank`, whose address stands in its SLOT at `offset` */
    DMA_BASE_COUNT
} dma_base_t;

typedef enum dma_flag {
    DMA_FLAG_ENTRY,         /* `rank` has entered the call: one per rank, value 1 */
    DMA_FLAG_PRODUCED,      /* chunks that `rank` has put into its stream, for all readers */
    DMA_FLAG_CONSUMED,      /* chunks of the stream of `peer` that `rank` has taken */
    DMA_FLAG_PAIR_PRODUCED, /* chunks that `rank` has put into its stream for `peer` */
    DMA_FLAG_PAIR_CONSUMED, /* chunks that `rank` has taken out of the stream of `peer` for it */
    DMA_FLAG_LANDED,        /* what `rank` has taken out of `peer`'s memory */
    DMA_FLAG_QUEUE,         /* engine queue number `peer` of `rank` has done all it has to do: value 1 */
    DMA_FLAG_COUNT
} dma_flag_t;

typedef enum dma_len_kind {
    DMA_LEN_CONST, /* `len` bytes */
    DMA_LEN_SEND,  /* all bytes of block `len` of the local send buffer */
    DMA_LEN_RECV,  /* all bytes of block `len` of the local receive buffer */
} dma_len_kind_t;

typedef enum dma_part {
    DMA_WHOLE,
    DMA_HEAD,  /* all of it, if that is at most plan->head bytes; else nothing */
    DMA_TAIL,  /* all of it, if that is more; else nothing */
    DMA_LOWER, /* half of the block, cut at a multiple of 64 bytes: see dma_lower_half */
    DMA_UPPER, /* the other half */
} dma_part_t;

/* Where a block is cut in two. 64: what engines that exchange two places want of addresses. */
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
    int32_t rank; /* who writes it */
    int32_t peer; /* CONSUMED, PAIR_* and LANDED: about whom; QUEUE: which; else ignored */
} dma_flag_ref_t;

#define DMA_OP_CHUNKED  0x1 /* covers one chunk per trip of the loop */
#define DMA_OP_LAST     0x2 /* in the last trip only */
#define DMA_OP_DIRECT   0x4 /* of the first way */
#define DMA_OP_FALLBACK 0x8 /* of the second */

typedef struct dma_op {
    uint8_t code;  /* dma_op_code_t */
    uint8_t flags; /* DMA_OP_CHUNKED, ... */
    dma_flag_ref_t flag;
    int32_t value; /* WAIT, SIGNAL: plus the trip when chunked */
    dma_len_t len; /* copies: the bytes, or the block whose chunks are meant */
    dma_operand_t dst[2];
    dma_operand_t src;
} dma_op_t;

/* Reads a peer's memory, and may be refused. */
static inline bool dma_op_reads_peer(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->flags & DMA_OP_DIRECT;
}

#define DMA_ON_HOST (-1)

typedef struct dma_prog {
    int32_t link; /* DMA_ON_HOST, or the rank whose link the engine queue uses; this rank: for copies to itself */
    const dma_op_t *ops;
    uint32_t nops;
    uint32_t loop_first; /* no loop: loop_first == nops */
    uint32_t loop_last;
    dma_len_t loop_len;
    bool loop_only; /* without trips it has nothing to do */
} dma_prog_t;

/* Sizes of the shared memory behind LINE, SLOT and CHUNK: agreed by all ranks of a communicator in set-up. */
typedef struct dma_geom {
    uint32_t ring_depth; /* descriptors in flight, a power of two */
    uint32_t slot_bytes;
    uint32_t chunk_bytes; /* largest chunk */
    uint32_t chunk_depth; /* chunk buffers, a power of two */
    uint32_t pair_bytes;  /* of the buffers of one ordered pair */
    uint32_t pair_depth;  /* buffers of one ordered pair, a power of two */
} dma_geom_t;

typedef struct dma_plan {
    dma_coll_t coll;
    int rank;
    int nranks;
    bool in_place;
    bool streams;  /* uses CHUNK or PAIR buffers, or peers' memory: one such call at a time on a communicator */
    bool gpu;      /* has programs for engine queues: all but the first */
    uint64_t head; /* the most bytes that a block has as a head */
    uint64_t
        fallback_max_bytes; /* bytes that are not worth a reading; at most a pair's buffer; 0: no loop has two ways */
    uint32_t variant;       /* index into the algorithm table */
    uint32_t nprogs;
    dma_prog_t *progs;
} dma_plan_t;

struct dma_gpu_profile;

/* What a builder and the cost model may look at: facts equal on all ranks. */
typedef struct dma_plan_req {
    dma_coll_t coll;
    int nranks;
    bool in_place;     /* all-gathers: may differ between ranks, so the choice does not look at it there */
    uint64_t bytes;    /* of the largest block; all-to-all-v, where nobody knows it: a guess equal on all ranks */
    bool cross_memory; /* every pair of ranks can read each other's memory */
    uint32_t ranks_per_core_x16;
    dma_geom_t geom;
    uint64_t head; /* bytes up to which blocks of unknown sizes go through slots, if they fit; 0: all that fit */
    /* device memory on all ranks: NULL if not */
    const struct dma_gpu_profile *gpu;
    bool prelaunch;      /* the queues will be given to the engines before the call starts */
    bool bcst;           /* all ranks' engines write two places in one operation */
    uint32_t max_queues; /* engine queues beside each other that a rank may use for its peers */
    uint32_t queues;     /* those that the plan uses; forced by the user, or by the choice; 0: to be chosen */
} dma_plan_req_t;

struct dma_profile;

typedef struct dma_choice {
    uint32_t variant;
    uint32_t chunk;   /* bytes per trip */
    uint32_t queues;  /* of a GPU plan */
    uint64_t cost_ps; /* as predicted */
} dma_choice_t;

/* One row of the algorithm table. */
typedef struct dma_variant {
    const char *name;
    const char *help;
    uint32_t colls; /* bit mask of 1 << dma_coll_t */
    /* Why this variant cannot run the request, or NULL when it can. */
    const char *(*unfit)(const dma_plan_req_t *req);
    /* The plan of one rank. On success the caller owns *plan (dma_plan_free). */
    dma_status_t (*build)(const dma_plan_req_t *req, int rank, dma_plan_t **plan);
    /* Predicted picoseconds, and how to run it: the chunk (0 when the plan has no loop) or the ways. */
    uint64_t (*cost)(const struct dma_profile *profile, const dma_plan_req_t *req, dma_choice_t *choice);
    bool gpu; /* plans for engines of GPUs; else for the ranks' cores */
} dma_variant_t;

/* The algorithm table, ended by NULL. */
extern const dma_variant_t *const dma_variants[];
/* Index of a variant by name, or -1. */
int dma_variant_find(const char *name);

/* The cheapest variant that fits, or `forced` (an index) when it is >= 0 and fits. DMA_UNSUPPORTED when none fits; then,
 * and when `forced` did not fit, *reason says why. */
dma_status_t dma_plan_choose(const struct dma_profile *profile, const dma_plan_req_t *req, int forced,
                             dma_choice_t *choice, const char **reason);
/* The plan of `rank` for a choice made by dma_plan_choose. */
dma_status_t dma_plan_build(const dma_plan_req_t *req, const dma_choice_t *choice, int rank, dma_plan_t **plan);
void dma_plan_free(dma_plan_t *plan);

#endif
