/*
 * The ring of descriptors: window.c and entry.h.
 *
 * RANKS ranks make CALLS calls. In each, a rank waits for room in its ring of DEPTH descriptors, writes LINE and SLOT, publishes
 * its descriptor, and reads those of all others. With AHEAD it enters calls before it has completed the ones before them, where
 * the ring has room. Nobody reads what its writer has not announced, or overwrites what another rank has not read: a race is an
 * error of the checker's, and every value that is read is that of the call.
 */
#ifndef RANKS
#define RANKS 2
#define CALLS 400
#define DEPTH 2
#define AHEAD 2
#endif
#define THREADS RANKS

#include "memory.h"

/* The numbers wrap in the middle. */
#define FIRST (UINT64_C(1) << 32) - CALLS / 2

static const dma_geom_t geom = {.ring_depth = DEPTH, .slot_bytes = 64, .chunk_depth = 1, .pair_depth = 1};

static void prepare(void)
{
    make_plain_windows(&geom, FIRST);
}

static uint64_t value(int rank, uint64_t seq, unsigned part)
{
    return seq * 64 + (uint64_t)rank * 4 + part;
}

static void enter(dma_window_t *w, uint64_t seq)
{
    *(uint64_t *)(void *)dma_window_desc(w, w->rank, seq)->line = value(w->rank, seq, 0);
    *(uint64_t *)(void *)dma_window_slot(w, w->rank, seq) = value(w->rank, seq, 1);
    dma_entry_publish(w, seq, value(w->rank, seq, 2), value(w->rank, seq, 3));
}

static void read_from(dma_window_t *w, int peer, uint64_t seq)
{
    const dma_desc_t *d = dma_window_desc(w, peer, seq);

    until(dma_entry_seen(d, seq));
    dma_entry_take_ack(w, peer, d);
    check_that(*(const uint64_t *)(const void *)d->line == value(peer, seq, 0));
    check_that(*(uint64_t *)(void *)dma_window_slot(w, peer, seq) == value(peer, seq, 1));
    check_that(d->sign == value(peer, seq, 2));
    check_that(d->addr == value(peer, seq, 3));
}

static void rank_main(int me)
{
    dma_window_t *w = &windows[me];
    uint64_t entered = FIRST - 1, last = FIRST - 1 + CALLS;

    for (uint64_t seq = FIRST; seq <= last; seq++) {
        if (entered < seq) {
            until(dma_window_may_publish(w, (uint32_t)seq));
            enter(w, ++entered);
        }
        while (entered < last && entered < seq - 1 + AHEAD && dma_window_may_publish(w, (uint32_t)(entered + 1))) {
            enter(w, ++entered);
        }
        for (int k = 1; k < RANKS; k++) {
            read_from(w, (me + k) % RANKS, seq);
        }
        dma_window_completed(w, (uint32_t)seq);
    }
}

static void judge(void)
{
    check_that(dma_window_poisoned(&windows[0]) == DMA_OK);
    check_that(dma_window_find_dead(&windows[0], (uint32_t)(FIRST - 1 + CALLS)) == -1);
}
