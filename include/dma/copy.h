/* Copies between memory of this process, fast whatever the distance of the two. */
#ifndef DMA_COPY_H
#define DMA_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DMA_COPY_LONG  2048 /* bytes from which C libraries use string instructions, or later */
#define DMA_COPY_ALIAS 128  /* bytes above its source, within pages, that a target is slow for these */

/* At any address, of anything. */
typedef uint64_t dma_copy_word_t __attribute__((vector_size(16), aligned(1), may_alias));

/* By ordinary loads and stores, from the end, so that where the target lies a few bytes above its source no load looks like
 * one of what has just been stored. Not overlapping. */
static inline void dma_copy_backwards(void *to, const void *from, size_t bytes)
{
    for (; bytes >= 4 * sizeof(dma_copy_word_t); bytes -= 4 * sizeof(dma_copy_word_t)) {
        const dma_copy_word_t *src = (const dma_copy_word_t *)((const char *)from + bytes) - 4;
        dma_copy_word_t *dst = (dma_copy_word_t *)((char *)to + bytes) - 4;
        dma_copy_word_t a = src[0], b = src[1], c = src[2], d = src[3];

        dst[0] = a;
        dst[1] = b;
        dst[2] = c;
        dst[3] = d;
    }
    memcpy(to, from, bytes);
}

/* Are string instructions slow while each piece of the target lies a few bytes above its source within their pages? On AMD's
 * Zen 3 and 4 they are, up to 30 times. On a Xeon memcpy is twice as fast there as the loop above: no other way pipelines
 * lines that another core has. */
static inline bool dma_copy_stumbles(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

/* Not overlapping, as with memcpy. */
static inline void dma_copy(void *to, const void *from, size_t bytes)
{
    size_t above = ((uintptr_t)to - (uintptr_t)from) & 4095;

    if (bytes < DMA_COPY_LONG || above == 0 || above >= DMA_COPY_ALIAS || !dma_copy_stumbles()) {
        memcpy(to, from, bytes);
    } else {
        dma_copy_backwards(to, from, bytes);
    }
}

#endif
