/*
 * Bells: how a rank wakes a thread of another process that sleeps until ranks have entered a call.
 *
 * Each process has a bell in the head of its arena, so every rank that shares memory with the process can ring it. One thread
 * of the owner sleeps on it.
 *
 *     sleeper                                          rank
 *       value = dma_bell_listen(bell)                    stores what the sleeper waits for (release)
 *       looks at what it waits for; if it is not there:  dma_bell_fence()
 *                                                        dma_bell_ring(bell): only if somebody listens
 *       dma_bell_sleep(bell, value, seconds)
 *
 * Both sides have a full fence between their store and their load. So either the sleeper sees what the rank has stored, or the
 * rank sees that the sleeper listens. A bell that rings between `listen` and `sleep` has another value, and the sleep ends at
 * once. Ringing a bell to which nobody listens costs a fence and one load.
 */
#ifndef DMA_NODE_BELL_H
#define DMA_NODE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct dma_bell {
    _Atomic uint32_t rung;      /* the futex: how often the bell has woken somebody */
    _Atomic uint32_t listening; /* 1: ring */
} dma_bell_t;

uint32_t dma_bell_listen(dma_bell_t *bell);
/* Sleeps until the bell rings, or for so many seconds. */
void dma_bell_sleep(dma_bell_t *bell, uint32_t value, double seconds);
void dma_bell_wake(dma_bell_t *bell);

/* ThreadSanitizer does not support fences. With it both sides use exchanges, which order more than they have to. */
static inline void dma_bell_fence(void)
{
#ifndef __SANITIZE_THREAD__
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* After dma_bell_fence, once for all bells that are rung. */
static inline void dma_bell_ring(dma_bell_t *bell)
{
#ifdef __SANITIZE_THREAD__
    uint32_t listens = atomic_fetch_or_explicit(&bell->listening, 0, memory_order_seq_cst);
#else
    uint32_t listens = atomic_load_explicit(&bell->listening, memory_order_relaxed);
#endif

    if (__builtin_expect(listens, 0)) {
        dma_bell_wake(bell);
    }
}

#endif
