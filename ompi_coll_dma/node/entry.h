/*
 * The entry of ranks into a call: each rank publishes a descriptor in its ring (window.h) and polls those of the
 * others.
 *
 * The host engine and the device route both use this. What a rank publishes before its entry (the payload of LINE and SLOT, a
 * record of its device memory) is read after the entry has been seen.
 */
#ifndef DMA_NODE_ENTRY_H
#define DMA_NODE_ENTRY_H

#include "node/window.h"

/* Publishes our descriptor of call `seq`. */
static inline void dma_entry_publish(dma_window_t *w, uint64_t seq, uint64_t sign, uint64_t addr)
{
    dma_desc_t *d = dma_window_desc(w, w->rank, seq);

    d->ack = w->ack;
    d->sign = sign;
    d->addr = addr;
    w->ack_published = w->ack;
    /* release: header, payload and record come first, and so do our reads of what the acknowledgement gives back */
    atomic_store_explicit(&d->seq, (uint32_t)seq, memory_order_release);
}

/* The second entry of this rank: its first entry announced device memory; the data have since been copied to host
 * memory. */
static inline void dma_entry_publish_data(dma_window_t *w, uint64_t seq, uint64_t addr)
{
    dma_desc_t *d = dma_window_desc(w, w->rank, seq);

    d->addr = addr;
    /* release: the payload comes first */
    atomic_store_explicit(&d->second_entry, seq, memory_order_release);
}

/* Is the descriptor that of call `seq`? */
static inline bool dma_entry_seen(const dma_desc_t *d, uint64_t seq)
{
    /* acquire: header, payload and record are read after the number that announces them */
    return atomic_load_explicit(&d->seq, memory_order_acquire) == (uint32_t)seq;
}

/* Takes the acknowledgement in a peer's descriptor. Calls complete in any order. So a descriptor that is read late may
 * have a smaller acknowledgement than one that was read before. */
static inline void dma_entry_take_ack(dma_window_t *w, int peer, const dma_desc_t *d)
{
    if ((int32_t)(d->ack - w->acks[peer]) > 0) {
        w->acks[peer] = d->ack;
    }
}

/* Do both ranks make the same call? DMA_ERR_MISMATCH: different operations. DMA_ERR_TRUNCATE: different sizes. */
static inline dma_status_t dma_entry_compare(uint64_t sign, uint64_t peers_sign)
{
    uint64_t differ = (sign ^ peers_sign) & ~DMA_SIGN_FLAGS;

    return !differ ? DMA_OK : differ >> DMA_SIGN_COLL_AT ? DMA_ERR_MISMATCH : DMA_ERR_TRUNCATE;
}

#endif
