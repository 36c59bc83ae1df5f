/*
 * The trigger of a rank: the word that its armed programs wait for, all of them.
 *
 * A queue waits for one word only, because each wait of an engine costs time. So the engines wait neither for their own rank
 * nor for each peer: the CPU of the rank that starts last finds that all have started, and lets the programs of all ranks go.
 * A word belongs to one rank and one epoch; a rank has two of them (dma_window_trigger), for even and for odd epochs, because
 * programs of the next epoch are armed while the present one runs. Its values:
 *
 *     2 * epoch - 1    the programs of this epoch wait                  stored by the owner, before it rings a doorbell
 *     2 * epoch        they run: all ranks have started                 stored by any rank
 *     2 * epoch + 1    they have been revoked, and are skipped          stored by the owner
 *     2 * epoch + 2    they wait, and nobody lets them go any more      stored by any rank that fails, and by the owner
 *                                                                       before it revokes them
 *
 * Engines compare without the lowest bit, so they go on at 2 * epoch and at 2 * epoch + 1.
 *
 * Several ranks may find that all have started, and one of them may be so slow that others are epochs ahead. And a rank that
 * fails revokes its programs while others let them go. So whoever changes a word that waits does it with compare-and-swap:
 * one of them wins, and a word that is ahead stays as it is. What a rank has revoked never runs, whatever others do.
 *
 * Programs of other ranks write into the buffers of a rank that fails, too. So it claims the words of all ranks before it gives
 * its buffers back: what does not run by then will not. The others revoke what is theirs when they find that it has failed.
 */
#ifndef DMA_ENGINE_TRIGGER_H
#define DMA_ENGINE_TRIGGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What an engine compares with: dma_trigger_mask selects the bits. */
static inline uint32_t dma_trigger_go(uint32_t epoch)
{
    return 2 * epoch;
}

static inline uint32_t dma_trigger_mask(void)
{
    return ~UINT32_C(1);
}

/* The owner arms this epoch. The doorbell, a release store, comes behind it. */
static inline void dma_trigger_prepare(_Atomic uint32_t *word, uint32_t epoch)
{
    atomic_store_explicit(word, dma_trigger_go(epoch) - 1, memory_order_relaxed);
}

/* Lets the programs of an epoch go. The caller has seen, with acquire, that all ranks have started. */
static inline void dma_trigger_release(_Atomic uint32_t *word, uint32_t epoch)
{
    uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);

    /* Release: what the ranks have written into their buffers before they started comes before what engines do. A rank
     * that is not armed may have any older value. */
    while ((int32_t)(seen - dma_trigger_go(epoch)) < 0 &&
           !atomic_compare_exchange_weak_explicit(word, &seen, dma_trigger_go(epoch), memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

/* From now on nobody lets them go. False: somebody has done so already, they have been revoked, or nothing is armed. The owner then
 * makes sure that the engine skips them, and calls dma_trigger_revoke. */
static inline bool dma_trigger_claim(_Atomic uint32_t *word, uint32_t epoch)
{
    uint32_t seen = dma_trigger_go(epoch) - 1, claimed = dma_trigger_go(epoch) + 2;

    return atomic_compare_exchange_strong_explicit(word, &seen, claimed, memory_order_relaxed, memory_order_relaxed) ||
           seen == claimed;
}

static inline void dma_trigger_revoke(_Atomic uint32_t *word, uint32_t epoch)
{
    /* release: an engine that sees this word also sees what makes it skip the programs */
    atomic_store_explicit(word, dma_trigger_go(epoch) + 1, memory_order_release);
}

/* Have the programs of an armed epoch been let go? Otherwise they wait, or have been revoked. */
static inline bool dma_trigger_released(const _Atomic uint32_t *word, uint32_t epoch)
{
    return atomic_load_explicit(word, memory_order_relaxed) == dma_trigger_go(epoch);
}

#endif
