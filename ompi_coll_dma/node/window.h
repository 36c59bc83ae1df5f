/*
 * The window of a communicator: the blocks of all ranks, each in the arena of its rank, as this rank has them mapped.
 *
 *     0     dma_block_head_t: readers, poison              written when a rank leaves or fails
 *     64    ack line: number of calls completed, if no     written by the owner, rarely
 *           descriptor will contain it soon; reported       in the block of rank 0 written by any rank, rarely
 *     128   stream line: PRODUCED                          written by the owner, polled by all readers of its stream
 *     192   pair lines, one per rank, 64 bytes: CONSUMED | LANDED | PAIR_PRODUCED | PAIR_CONSUMED | denied
 *                                                          written by the owner, polled by that peer
 *     ...   ready line, agreed line                        written by the owner, polled by all
 *     ...   trigger line: GPU engines poll two 32-bit      written by the owner and by the rank that starts last,
 *           words (engine/trigger.h)                       polled by the owner's engines
 *     ...   one queue line per engine queue of a rank (as  written by the owner's engines, polled by all
 *           many as there are ranks), 64 bytes each
 *     ...   ring: ring_depth descriptors of 128 bytes
 *             0   seq | ack | sign | addr | second_entry   header, 32 bytes
 *             32  LINE payload, 96 bytes: the first 32 share the cache line of the header
 *     ...   records, one per descriptor: where the         written by the owner before it enters
 *           owner's device memory is                     a call in device memory
 *     ...   SLOTs: ring_depth * slot_bytes
 *     ...   CHUNK buffers: chunk_depth * chunk_bytes
 *     ...   PAIR buffers: for every other rank, pair_bytes in pair_depth buffers
 *
 * Each rank initializes its block before the ranks agree on a geometry. The agreed geometry is never larger than that
 * of any rank. The parts that need an initial value come first. Their positions depend on no size except the depth of
 * the ring.
 *
 * Each line has one writer, the owner of the block, except for `readers`, `reported` and the trigger line; and a rank that has failed
 * may store to the ready and queue lines of others, behind its poison (device/starts.h). A word that another rank polls is stored
 * with release after the data it announces, and loaded with acquire before these data are read.
 *
 * A descriptor is published by storing `seq`, last. It may be overwritten when every peer has acknowledged the call
 * that used the same place in the ring before. A rank acknowledges by writing the number of calls it has completed
 * into `ack` of its next descriptor. A rank that enters no further call stores the number into its ack line when it
 * is half a ring behind. A rank that waits for room in the ring reads the ack lines and also the peers' descriptors
 * that it has not consumed yet: a peer may run ahead, and its acknowledgement may be in such a descriptor. So two
 * ranks cannot wait for each other's acknowledgements.
 *
 * Sequence numbers, stream positions and acknowledgements are compared by signed difference, so that they may wrap.
 */
#ifndef DMA_NODE_WINDOW_H
#define DMA_NODE_WINDOW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/plan.h"
#include "node/arena.h"
#include "node/registry.h"

typedef struct dma_desc {
    _Atomic uint32_t seq;
    uint32_t ack;  /* the writer has completed all calls of this communicator up to this number */
    uint64_t sign; /* operation and bytes: dma_sign() */
    uint64_t addr; /* of the send buffer, for cross-memory copies */
    /* the call's number, in 64 bits, once the writer has entered a second time: LINE and SLOT have data then */
    _Atomic uint64_t second_entry;
    char line[DMA_LINE_BYTES];
} dma_desc_t;

_Static_assert(sizeof(dma_desc_t) == 128, "a descriptor is two cache lines");

typedef struct dma_pair_line {
    _Atomic uint64_t consumed;
    _Atomic uint64_t landed;
    _Atomic uint64_t pair_produced;
    _Atomic uint64_t pair_consumed;
    /* sequence number of a call in which the writer could not read this peer's memory; `landed` orders it */
    _Atomic uint64_t denied;
    char pad[24];
} dma_pair_line_t;

typedef struct dma_block {
    dma_block_head_t head;
    char pad0[64 - sizeof(dma_block_head_t)];
    _Atomic uint32_t acked;
    _Atomic uint32_t reported[2]; /* by dma_report_line_t: the newest call that a rank has reported as late; 0: none */
    char pad1[52];
    _Atomic uint64_t produced;
    char pad2[56];
    dma_pair_line_t pairs[];
} dma_block_t;

_Static_assert(offsetof(dma_block_t, pairs) == 192, "three lines come before the pairs'");

/* What a GPU engine polls or writes. An engine whose writes may come twice writes the completion of each epoch to another word,
 * so that a late second one does not hide the next epoch from a rank that has not looked yet. */
#define DMA_EPOCH_WORDS 15
typedef struct dma_engine_line {
    _Atomic uint32_t word;
    _Atomic uint32_t by_epoch[DMA_EPOCH_WORDS];
} dma_engine_line_t;

/* Of the word for an epoch in its line. */
static inline uint64_t dma_engine_line_offset(uint32_t epoch)
{
    return offsetof(dma_engine_line_t, by_epoch) + epoch % DMA_EPOCH_WORDS * sizeof(uint32_t);
}

/* The record of a rank's device memory, which device/device.h fills. Like a LINE, it stays until every rank has
 * completed the call: a rank that only waits may complete before the others have read the record. */
#define DMA_RECORD_BYTES(nranks) (256 + 16 * (size_t)(nranks))

/* Offsets in a block of a given geometry. */
typedef struct dma_block_layout {
    size_t lines, ring, records, slots, chunks, rings, bytes;
} dma_block_layout_t;

dma_block_layout_t dma_block_layout(const dma_geom_t *geom, int nranks);

typedef struct dma_peer {
    dma_block_t *block;
    dma_mapping_t *mapping;
    pid_t pid;        /* for cross-memory copies; 0: not possible */
    bool epoch_words; /* its engine writes completions to `by_epoch`, not to `word` */
} dma_peer_t;

typedef struct dma_window {
    int rank, nranks;
    dma_geom_t geom;
    dma_block_layout_t layout;
    dma_block_t *own;
    dma_arena_t *arena;           /* of `own` */
    dma_peer_t *peers;            /* by rank, including our own */
    uint32_t *acks;               /* by rank: the newest acknowledgement seen */
    uint32_t ack;                 /* our next descriptor's acknowledgement */
    uint32_t ack_published;       /* the last acknowledgement published */
    uint32_t ack_floor;           /* the smallest acknowledgement of all peers, as last computed */
    struct dma_trace_comm *trace; /* of the communicator (trace/trace.h); NULL: it is not traced */
    bool permanent;               /* a device accesses it until the process ends: no block is left or reclaimed */
    uint64_t crossed;             /* bytes that the host engine has copied out of peers' memory */
} dma_window_t;

/* Creates our own block for `geom`, in the state in which all ranks have just completed call first_seq - 1. NULL: no
 * room. */
dma_block_t *dma_window_block(dma_arena_t *arena, const dma_geom_t *geom, int nranks, uint64_t first_seq);

/* Whether call `seq` may use its place in the ring. */
bool dma_window_may_publish(dma_window_t *w, uint32_t seq);
/* This rank has completed all calls up to `seq`. A descriptor or the ack line will acknowledge them. */
void dma_window_completed(dma_window_t *w, uint32_t seq);

/* Whose calls: those of the window's communicator, or of the one over several nodes that it belongs to. */
typedef enum dma_report_line { DMA_REPORT_OWN, DMA_REPORT_PARENT } dma_report_line_t;
/* Whether no rank has reported call `seq`, or a later one, as late: then this rank has to. */
bool dma_window_claim_report(dma_window_t *w, dma_report_line_t line, uint32_t seq);

/* The status with which a rank has failed, or DMA_OK. */
dma_status_t dma_window_poisoned(const dma_window_t *w);
void dma_window_poison(dma_window_t *w, dma_status_t status);
/* ThreadSanitizer does not support fences. These fences order cross-memory copies only, which it does not see. */
static inline void dma_window_fence(memory_order order)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(order);
#else
    (void)order;
#endif
}
/* Whether a rank has failed: then everything read from its memory may be invalid. The fence orders this load after
 * the copies from its memory; an acquire load alone would only order what follows it. On x86 the fence is no
 * instruction. */
static inline bool dma_window_failed(const dma_window_t *w, int rank)
{
    dma_window_fence(memory_order_acquire);
    return atomic_load_explicit(&w->peers[rank].block->head.poison, memory_order_acquire) != 0;
}
/* The first rank whose process has ended, or has given back its memory, before it had completed call `seq`; otherwise
 * -1. One system call per rank. */
int dma_window_find_dead(const dma_window_t *w, uint32_t seq);

/* Publishes the calls that this rank has completed. Then, unless the window is permanent, leaves the peers' blocks,
 * retires our own, and gives the mappings back. A rank may leave while its peers still run the last call that it has
 * completed. */
void dma_window_leave(dma_window_t *w, pthread_mutex_t *arena_lock);

static inline dma_desc_t *dma_window_desc(const dma_window_t *w, int rank, uint64_t seq)
{
    return (dma_desc_t *)((char *)w->peers[rank].block + w->layout.ring) + (seq & (w->geom.ring_depth - 1));
}

static inline char *dma_window_slot(const dma_window_t *w, int rank, uint64_t seq)
{
    return (char *)w->peers[rank].block + w->layout.slots + (seq & (w->geom.ring_depth - 1)) * w->geom.slot_bytes;
}

static inline char *dma_window_chunk(const dma_window_t *w, int rank, uint64_t position)
{
    return (char *)w->peers[rank].block + w->layout.chunks +
           (position & (w->geom.chunk_depth - 1)) * w->geom.chunk_bytes;
}

static inline char *dma_window_pair_buffer(const dma_window_t *w, int owner, int reader, uint64_t position)
{
    size_t index = (size_t)((reader - owner - 1 + w->nranks) % w->nranks);

    return (char *)w->peers[owner].block + w->layout.rings + index * w->geom.pair_bytes +
           (position & (w->geom.pair_depth - 1)) * (w->geom.pair_bytes / w->geom.pair_depth);
}

#define DMA_WINDOW_LINES 3 /* in front of the queue lines */

/* The line with which a rank announces that it has started a persistent call: that its buffers are ready. */
static inline dma_engine_line_t *dma_window_ready(const dma_window_t *w, int rank)
{
    return (dma_engine_line_t *)((char *)w->peers[rank].block + w->layout.lines);
}

/* The line with which a rank publishes its result of the check of all ranks' device memory (device/call.c). */
static inline dma_engine_line_t *dma_window_agreed(const dma_window_t *w, int rank)
{
    return dma_window_ready(w, rank) + 1;
}

/* The line with the two words that the armed programs of a rank wait for, and the word of an epoch. */
static inline dma_engine_line_t *dma_window_trigger_line(const dma_window_t *w, int rank)
{
    return dma_window_ready(w, rank) + 2;
}

static inline uint64_t dma_window_trigger_offset(uint32_t epoch)
{
    return offsetof(dma_engine_line_t, by_epoch) + epoch % 2 * sizeof(uint32_t);
}

static inline _Atomic uint32_t *dma_window_trigger(const dma_window_t *w, int rank, uint32_t epoch)
{
    return &dma_window_trigger_line(w, rank)->by_epoch[epoch % 2];
}

/* The line with the completion of engine queue number `queue` of a rank. */
static inline dma_engine_line_t *dma_window_queue(const dma_window_t *w, int rank, int queue)
{
    return dma_window_ready(w, rank) + DMA_WINDOW_LINES + queue;
}

/* Has that queue completed the run of an epoch? Acquire: the copied data are read after it. Nobody is ahead by more than one run,
 * so what is further away is the epoch of another communicator: a write that came twice. A word that the engine does not write
 * is not read: after 2^32 runs, what it was initialized with is an epoch. */
static inline bool dma_window_queue_reached(const dma_window_t *w, int rank, int queue, uint32_t epoch)
{
    dma_engine_line_t *line = dma_window_queue(w, rank, queue);

    return w->peers[rank].epoch_words
               ? atomic_load_explicit(&line->by_epoch[epoch % DMA_EPOCH_WORDS], memory_order_acquire) == epoch
               : atomic_load_explicit(&line->word, memory_order_acquire) - epoch <= 1;
}

static inline void *dma_window_record(const dma_window_t *w, int rank, uint64_t seq)
{
    return (char *)w->peers[rank].block + w->layout.records +
           (seq & (w->geom.ring_depth - 1)) * DMA_RECORD_BYTES(w->nranks);
}

static inline dma_pair_line_t *dma_window_pair(const dma_window_t *w, int writer, int reader)
{
    return &w->peers[writer].block->pairs[reader];
}

/* In `sign`: the writer's buffers are device memory, LINE and SLOT are empty, and its record is filled. */
#define DMA_SIGN_DEVICE (UINT64_C(1) << 63)

/* In `sign`: in an earlier call the writer could not read a peer's memory. All ranks of a call see it in the
 * descriptors. */
#define DMA_SIGN_REFUSED (UINT64_C(1) << 62)

/* In `sign`, with DEVICE: the writer's buffers are in host memory, and cores may use them where they are. With JOINS it is memory
 * that no device copies, and the writer takes part in a call by slots (device/join.c). With LINK the writer's device copies it. */
#define DMA_SIGN_JOINS (UINT64_C(1) << 61)
#define DMA_SIGN_LINK  (UINT64_C(1) << 60)

/* All of them: ranks that make the same call may differ in these. */
#define DMA_SIGN_FLAGS (DMA_SIGN_DEVICE | DMA_SIGN_REFUSED | DMA_SIGN_JOINS | DMA_SIGN_LINK)

/* Does a rank with this sign have device memory? */
static inline bool dma_sign_has_device(uint64_t sign)
{
    return (sign & (DMA_SIGN_DEVICE | DMA_SIGN_JOINS | DMA_SIGN_LINK)) == DMA_SIGN_DEVICE;
}

/* The operation is in bits 55 to 58 of `sign`, above the bytes and below this bit and the flags. */
#define DMA_SIGN_COLL_AT  55
#define DMA_SIGN_IN_PLACE (UINT64_C(1) << 59)
_Static_assert(DMA_COLL_COUNT < 16, "an operation fits into the sign");

/* The signature of a call: operation and bytes in one word. Except for the flags above, the call is in error
 * unless it is equal on all ranks. In an all-to-all either all ranks are in place or none. */
static inline uint64_t dma_sign(dma_coll_t coll, bool in_place, uint64_t bytes)
{
    bool both = in_place && !dma_coll_gathers(coll);

    return (uint64_t)(coll + 1) << DMA_SIGN_COLL_AT | (both ? DMA_SIGN_IN_PLACE : 0) | bytes;
}

#endif
