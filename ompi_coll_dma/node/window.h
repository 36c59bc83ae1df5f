/*
 * The window of a communicator: every rank's block in its own arena, as this rank sees them.
 *
 *     0     dma_block_head_t: readers, poison              written when leaving or failing only
 *     64    ack line: calls completed, when no descriptor  written by the owner, seldom
 *           will carry the number soon
 *     128   stream line: PRODUCED                          written by the owner, polled by all readers of its stream
 *     192   pair lines, one per rank, 64 bytes: CONSUMED | LANDED | PAIR_PRODUCED | PAIR_CONSUMED | denied
 *                                                          written by the owner, polled by that peer
 *     ...   ready line, agreed line, and one queue line for each engine queue that a rank may have (as many as ranks),
 *           64 bytes each: what GPUs' engines poll and write is 32 bits wide
 *                                                          written by the owner or its engines, polled by all
 *     ...   ring: ring_depth descriptors of 128 bytes
 *             0   seq | ack | sign | addr | later          header, 32 bytes
 *             32  LINE payload, 96 bytes: the first 32 share the header's line
 *     ...   records, one for each descriptor: where the    written by the owner before it enters a call in device memory
 *           owner's device memory is
 *     ...   SLOTs: ring_depth * slot_bytes
 *     ...   CHUNK buffers: chunk_depth * chunk_bytes
 *     ...   PAIR buffers: for every other rank, pair_bytes in pair_depth buffers
 *
 * Blocks are laid out before the ranks have agreed on a geometry, and the agreed one is never larger than any rank's: what
 * has an initial value comes first and, but for the ring's length, does not depend on it.
 *
 * One writer per line: the owner of the block (but for `readers`). Every word that somebody polls is stored with release
 * after what it announces, and loaded with acquire before what it announces is read.
 *
 * A descriptor is published by storing `seq` last. It may be overwritten when every peer has acknowledged the call that
 * used its place before: peers say how many calls they have completed in `ack` of their own next descriptors, in passing;
 * a peer whose next descriptor is not coming (it has nothing more to call) stores the number into its ack line once it
 * has fallen behind by half a ring. Whoever waits for room in the ring looks at both, and at the peers' descriptors that
 * it has not consumed yet: a peer may run ahead and say in a descriptor what is needed to come to read it. So of two ranks
 * neither can wait for an acknowledgement that the other keeps back.
 *
 * Sequence numbers, stream positions and acknowledgements are compared by signed difference: wrapping is not a case.
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
    uint32_t ack;                  /* calls of this communicator that the writer has completed, all up to this one */
    uint64_t sign;                 /* operation and bytes */
    uint64_t addr;                 /* of the send buffer, where peers may read it */
    _Atomic uint64_t second_entry; /* the call's number, in 64 bits: LINE and SLOT are those of a later entry into it */
    char line[DMA_LINE_BYTES];
} dma_desc_t;

_Static_assert(sizeof(dma_desc_t) == 128, "a descriptor is two cache lines");

typedef struct dma_pair_line {
    _Atomic uint64_t consumed;
    _Atomic uint64_t landed;
    _Atomic uint64_t pair_produced;
    _Atomic uint64_t pair_consumed;
    _Atomic uint64_t denied; /* a seq: the writer could not read this peer's memory in that call; ordered by `landed` */
    char pad[24];
} dma_pair_line_t;

typedef struct dma_block {
    dma_block_head_t head;
    char pad0[64 - sizeof(dma_block_head_t)];
    _Atomic uint32_t acked;
    char pad1[60];
    _Atomic uint64_t produced;
    char pad2[56];
    dma_pair_line_t pairs[];
} dma_block_t;

_Static_assert(offsetof(dma_block_t, pairs) == 192, "three lines come before the pairs'");

/* A word that an engine polls or writes. */
typedef struct dma_engine_line {
    _Atomic uint32_t word;
    char pad[60];
} dma_engine_line_t;

/* What a rank says of its device memory: device/device.h fills it. Like a LINE, it stays until every rank has completed the
 * call: a rank that has nothing to do but wait may be done before the others have read it. */
#define DMA_RECORD_BYTES(nranks) (256 + 16 * (size_t)(nranks))

/* Where things are in a block of a given geometry. */
typedef struct dma_block_layout {
    size_t lines, ring, records, slots, chunks, rings, bytes;
} dma_block_layout_t;

dma_block_layout_t dma_block_layout(const dma_geom_t *geom, int nranks);

typedef struct dma_peer {
    dma_block_t *block;
    dma_mapping_t *mapping;
    pid_t pid; /* for cross-memory copies; 0: none */
} dma_peer_t;

typedef struct dma_window {
    int rank, nranks;
    dma_geom_t geom;
    dma_block_layout_t layout;
    dma_block_t *own;
    dma_arena_t *arena;     /* of `own` */
    dma_peer_t *peers;      /* by rank; our own too */
    uint32_t *acks;         /* by rank: the newest acknowledgement seen */
    uint32_t ack;           /* what our next descriptor says */
    uint32_t ack_published; /* what we have said last */
    uint32_t ack_floor;     /* the smallest acknowledgement of all peers, as last computed */
    bool permanent;         /* a device looks at it, to the end of the process: nothing of it is given back */
} dma_window_t;

/* A block of our own for `geom`, with words as if call first_seq - 1 had just been completed by all. NULL: no room. */
dma_block_t *dma_window_block(dma_arena_t *arena, const dma_geom_t *geom, int nranks, uint64_t first_seq);

/* True once call `seq` may use its place in the ring. */
bool dma_window_may_publish(dma_window_t *w, uint32_t seq);
/* All calls up to `seq` have been completed here; a descriptor will tell, or the ack line. */
void dma_window_completed(dma_window_t *w, uint32_t seq);

/* Any rank's failure, or DMA_OK. */
dma_status_t dma_window_poisoned(const dma_window_t *w);
void dma_window_poison(dma_window_t *w, dma_status_t status);
/* ThreadSanitizer does not know fences. It watches no reading of another process's memory, for which these are. */
static inline void dma_window_fence(memory_order order)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(order);
#else
    (void)order;
#endif
}
/* A rank has failed: what has been read of its memory by now may be anything. The fence keeps our look behind that reading,
 * where an acquire would only keep what follows behind our look. On x86 it is no instruction. */
static inline bool dma_window_failed(const dma_window_t *w, int rank)
{
    dma_window_fence(memory_order_acquire);
    return atomic_load_explicit(&w->peers[rank].block->head.poison, memory_order_acquire) != 0;
}
/* The first rank whose process is gone, or has given its memory back, before it had completed call `seq`; or -1. One system
 * call per rank. */
int dma_window_find_dead(const dma_window_t *w, uint32_t seq);

/* Says what we have completed, leaves the peers' blocks, retires our own, and gives the mappings back, unless it stays: who
 * has completed a call may be gone while others are still at it. */
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

/* Of a rank: when it has made its receive buffer ready, */
static inline dma_engine_line_t *dma_window_ready(const dma_window_t *w, int rank)
{
    return (dma_engine_line_t *)((char *)w->peers[rank].block + w->layout.lines);
}

/* what it has found out about all ranks' device memory (device/call.c), */
static inline dma_engine_line_t *dma_window_agreed(const dma_window_t *w, int rank)
{
    return dma_window_ready(w, rank) + 1;
}

/* and how far its engine queue number `queue` has come. */
static inline dma_engine_line_t *dma_window_queue(const dma_window_t *w, int rank, int queue)
{
    return dma_window_ready(w, rank) + 2 + queue;
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

/* In `sign`: the buffers of the writer are device memory, LINE and SLOT are empty and `record` is filled. */
#define DMA_SIGN_DEVICE (UINT64_C(1) << 63)

/* Likewise: in an earlier call the writer could not read somebody's memory. All ranks of a call that reads see it there. */
#define DMA_SIGN_REFUSED (UINT64_C(1) << 62)

/* Operation and bytes in one word: equal on all ranks of a call, but for these two, or the call is in error. In an
 * all-to-all all ranks are in place or none. */
static inline uint64_t dma_sign(dma_coll_t coll, bool in_place, uint64_t bytes)
{
    bool both = in_place && !dma_coll_gathers(coll);

    return (uint64_t)(coll + 1 + (both ? 16 : 0)) << 56 | bytes;
}

#endif
