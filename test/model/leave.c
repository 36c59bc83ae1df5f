/*
 * Leaving: arena.c and window.c.
 *
 * Two ranks make one call and leave the communicator, each when it has completed the call. Then rank 0 takes a block of its arena
 * again, and writes into it. It has either another place, or that of the first one, which its peer has left by then: a race
 * otherwise. Somebody who finds rank 1's process ended does not say that it died in the call that it had completed.
 */
#define RANKS   2
#define THREADS RANKS
#define MODEL_ARENA
#define MODEL_REGISTRY

#include "sizes.h"

#include "dma/status.h"
#include "memory.h"
#include "node/arena.c" /* the product's */

#define ARENA_BYTES (DMA_ARENA_ALIGN + 2 * 4096)

static const dma_geom_t geom = {.ring_depth = 1, .slot_bytes = 64, .chunk_depth = 1, .pair_depth = 1};
static _Alignas(DMA_ARENA_ALIGN) char files[RANKS][ARENA_BYTES];
static dma_arena_t arena[RANKS], *arenas[RANKS];
static pthread_mutex_t locks[RANKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static _Atomic bool ended[RANKS]; /* the kernel has released the process's lock */

void dma_registry_put(dma_mapping_t *mapping)
{
    (void)mapping;
}

/* Mappings are numbers of ranks here. */
bool dma_mapping_alive(const dma_mapping_t *mapping)
{
    return !atomic_load_explicit(&ended[(uintptr_t)mapping - 1], memory_order_acquire);
}

static void prepare(void)
{
    for (int r = 0; r < RANKS; r++) {
        arenas[r] = &arena[r];
        arena[r].base = files[r];
        arena[r].bytes = arena[r].allocated = ARENA_BYTES;
        arena[r].used = 0;
        arena[r].end = DMA_ARENA_ALIGN;
        arena[r].last = arena[r].retired = arena[r].gaps = NULL;
        for (int b = 0; b < BUCKETS; b++) {
            arena[r].in_use[b] = NULL;
        }
        atomic_store_explicit(&ended[r], false, memory_order_relaxed);
    }
    make_windows(&geom, arenas, 1);
    for (int r = 0; r < RANKS; r++) {
        for (int p = 0; p < RANKS; p++) {
            peers[r][p].mapping = (dma_mapping_t *)(uintptr_t)(p + 1);
        }
    }
}

static void call(dma_window_t *w)
{
    const dma_desc_t *d = dma_window_desc(w, 1 - w->rank, 1);

    *(uint64_t *)(void *)dma_window_slot(w, w->rank, 1) = (uint64_t)w->rank + 7;
    dma_entry_publish(w, 1, 5, 0);
    until(dma_entry_seen(d, 1));
    dma_entry_take_ack(w, 1 - w->rank, d);
    check_that(*(uint64_t *)(void *)dma_window_slot(w, 1 - w->rank, 1) == (uint64_t)(1 - w->rank) + 7);
    dma_window_completed(w, 1);
}

static void rank_main(int me)
{
    dma_window_t *w = &windows[me];

    call(w);
    dma_window_leave(w, &locks[me]);
    if (me == 1) {
        atomic_store_explicit(&ended[1], true, memory_order_release);
        return;
    }
    pthread_mutex_lock(&locks[me]);
    check_that(dma_arena_alloc(arenas[me], 512, 512, 1));
    pthread_mutex_unlock(&locks[me]);
}

static void judge(void)
{
    check_that(dma_window_find_dead(&windows[0], 1) == -1);
    check_that(dma_window_find_dead(&windows[0], 2) == 1);
}
