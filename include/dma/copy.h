/* Copies between memory of this process, fast whatever the distance of the two. */
#ifndef DMA_COPY_H
#define DMA_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DMA_COPY_LONG  2048 /* bytes from which C libraries use string instructions, or later */
#define DMA_COPY_ALIAS 128  /* bytes above its source, within pages, that a target is slow for these */

/* At any address, of anything. */
typedef uint64_t dma_copy_word_t __attribute__((vector_size(16), aligned(1), may_alias));

/* Not overlapping, as with memcpy. Where a C library copies with string instructions, some processors (AMD's Zen 3 and 4)
 * are up to 30 times slower while each piece of the target lies a few bytes above its source within their pages. Those are
 * copied by ordinary loads and stores, from the end, so that no load looks like one of what has just been stored. */
static inline void dma_copy(void *to, const void *from, size_t bytes)
{
    size_t above = ((uintptr_t)to - (uintptr_t)from) & 4095;

    if (bytes < DMA_COPY_LONG || above == 0 || above >= DMA_COPY_ALIAS) {
        memcpy(to, from, bytes);
        return;
    }
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

#endif
