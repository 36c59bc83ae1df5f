/* Windows: see window.h for the layout and the rules. */
#include "node/window.h"

static size_t aligned(size_t bytes)
{
    return (bytes + DMA_ARENA_ALIGN - 1) / DMA_ARENA_ALIGN * DMA_ARENA_ALIGN;
}

dma_block_layout_t dma_block_layout(const dma_geom_t *geom, int nranks)
{
    dma_block_layout_t l;

    size_t n = (size_t)nranks;

    l.lines = offsetof(dma_block_t, pairs) + n * sizeof(dma_pair_line_t);
    l.ring = aligned(l.lines + (DMA_WINDOW_LINES + n) * sizeof(dma_engine_line_t));
    l.records = l.ring + geom->ring_depth * sizeof(dma_desc_t);
    l.slots = aligned(l.records + geom->ring_depth * DMA_RECORD_BYTES(n));
    l.chunks = l.slots + (size_t)geom->ring_depth * geom->slot_bytes;
    l.rings = l.chunks + (size_t)geom->chunk_depth * geom->chunk_bytes;
    l.bytes = l.rings + (size_t)(nranks - 1) * geom->pair_bytes;
    return l;
}

dma_block_t *dma_window_block(dma_arena_t *arena, const dma_geom_t *geom, int nranks, uint64_t first_seq)
{
    dma_block_layout_t l = dma_block_layout(geom, nranks);
    dma_block_t *block = dma_arena_alloc(arena, l.bytes, l.chunks, (uint32_t)nranks - 1);
    dma_desc_t *ring;

    if (!block) {
        return NULL;
    }
    /* No other rank knows the block yet: these stores need no order. */
    atomic_store_explicit(&block->acked, (uint32_t)(first_seq - 1), memory_order_relaxed);
    atomic_store_explicit(&block->reported[DMA_REPORT_OWN], 0, memory_order_relaxed);
    atomic_store_explicit(&block->reported[DMA_REPORT_PARENT], 0, memory_order_relaxed);
    ring = (dma_desc_t *)((char *)block + l.ring);
    for (uint32_t i = 0; i < geom->ring_depth; i++) {
        uint64_t never = first_seq - 1 - geom->ring_depth;

        atomic_store_explicit(&ring[i].seq, (uint32_t)never, memory_order_relaxed);
        atomic_store_explicit(&ring[i].second_entry, never, memory_order_relaxed);
    }
    for (int i = 0; i < nranks; i++) {
        atomic_store_explicit(&block->pairs[i].landed, first_seq - 1, memory_order_relaxed);
    }
    return block;
}

static bool newer(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

/* What a peer has acknowledged in its ack line or, with `look_ahead`, in descriptors that this rank has not consumed
 * yet. The peer does not overwrite those before we have acknowledged them. */
static uint32_t acknowledged(const dma_window_t *w, int peer, bool look_ahead)
{
    /* acquire, here and below: the peer's reads of our descriptor and slot come before we overwrite them */
    uint32_t ack = atomic_load_explicit(&w->peers[peer].block->acked, memory_order_acquire);

    ack = newer(ack, w->acks[peer]) ? ack : w->acks[peer];
    for (uint32_t i = 1; look_ahead && i <= w->geom.ring_depth; i++) {
        const dma_desc_t *d = dma_window_desc(w, peer, w->ack + i);

        if (atomic_load_explicit(&d->seq, memory_order_acquire) == w->ack + i && newer(d->ack, ack)) {
            ack = d->ack;
        }
    }
    return ack;
}

static uint32_t acknowledged_by_all(dma_window_t *w, bool look_ahead)
{
    uint32_t floor = w->ack;

    for (int r = 0; r < w->nranks; r++) {
        if (r != w->rank) {
            w->acks[r] = acknowledged(w, r, look_ahead);
            floor = newer(floor, w->acks[r]) ? w->acks[r] : floor;
        }
    }
    return floor;
}

bool dma_window_may_publish(dma_window_t *w, uint32_t seq)
{
    int32_t depth = (int32_t)w->geom.ring_depth;

    if ((int32_t)(seq - w->ack_floor) <= depth) {
        return true;
    }
    w->ack_floor = acknowledged_by_all(w, false);
    if ((int32_t)(seq - w->ack_floor) > depth) {
        w->ack_floor = acknowledged_by_all(w, true);
    }
    return (int32_t)(seq - w->ack_floor) <= depth;
}

void dma_window_completed(dma_window_t *w, uint32_t seq)
{
    w->ack = seq;
    if ((int32_t)(seq - w->ack_published) >= (int32_t)(w->geom.ring_depth / 2)) {
        /* release: our reads of the peers' descriptors and slots come before they are overwritten */
        atomic_store_explicit(&w->own->acked, seq, memory_order_release);
        w->ack_published = seq;
    }
}

bool dma_window_claim_report(dma_window_t *w, dma_report_line_t line, uint32_t seq)
{
    /* relaxed: it announces no other data */
    _Atomic uint32_t *reported = &w->peers[0].block->reported[line];
    uint32_t newest = atomic_load_explicit(reported, memory_order_relaxed);

    while (!newest || newer(seq, newest)) {
        if (atomic_compare_exchange_weak_explicit(reported, &newest, seq, memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

dma_status_t dma_window_poisoned(const dma_window_t *w)
{
    for (int r = 0; r < w->nranks; r++) {
        int32_t poison = atomic_load_explicit(&w->peers[r].block->head.poison, memory_order_relaxed);

        if (poison) {
            return (dma_status_t)poison;
        }
    }
    return DMA_OK;
}

void dma_window_poison(dma_window_t *w, dma_status_t status)
{
    atomic_exchange_explicit(&w->own->head.poison, (int32_t)status, memory_order_seq_cst);
    /* The caller may reuse its buffers, which peers may be reading, only after the poison is visible. An exchange
     * alone does not ensure that: on ARMv8.0 and POWER, later stores can become visible before its own store. */
    dma_window_fence(memory_order_seq_cst);
}

int dma_window_find_dead(const dma_window_t *w, uint32_t seq)
{
    for (int r = 0; r < w->nranks; r++) {
        const dma_peer_t *peer = &w->peers[r];

        if (!dma_mapping_alive(peer->mapping) &&
            newer(seq, atomic_load_explicit(&peer->block->acked, memory_order_acquire))) {
            return r;
        }
    }
    return -1;
}

void dma_window_leave(dma_window_t *w, pthread_mutex_t *arena_lock)
{
    /* release: as in dma_window_completed */
    atomic_store_explicit(&w->own->acked, w->ack, memory_order_release);
    if (w->permanent) {
        return;
    }
    for (int r = 0; r < w->nranks; r++) {
        if (r != w->rank) {
            dma_block_leave(w->peers[r].block);
        }
        dma_registry_put(w->peers[r].mapping);
    }
    pthread_mutex_lock(arena_lock);
    dma_arena_retire(w->arena, w->own);
    pthread_mutex_unlock(arena_lock);
}
