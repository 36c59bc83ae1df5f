/* Memory copies within this process that stay fast for every distance between source and target. */
#ifndef DMA_COPY_H
#define DMA_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* C libraries copy with string instructions (rep movs) from so many bytes on, or later. */
#define DMA_COPY_LONG 2048
/* String instructions are slow if the target is less than so many bytes above its source, modulo the page size. */
#define DMA_COPY_ALIAS 128

/* 16 bytes at any address and of any type. */
typedef uint64_t dma_copy_word_t __attribute__((vector_size(16), aligned(1), may_alias));

/* Copies with ordinary loads and stores, from the last byte to the first. If the target is a few bytes above its source
 * (modulo the page size), no load then has the page offset of a preceding store, which a processor could mistake for a
 * dependency. The two must not overlap. */
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

/* Whether string instructions are slow if the target is a few bytes above its source, modulo the page size. On AMD's
 * Zen 3 and 4 they are up to 30 times slower. On a Xeon, memcpy is twice as fast there as the loop above: only string
 * instructions pipeline the fetches of lines that another core holds. */
static inline bool dma_copy_avoids_string_ops(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

/* Copies `bytes` bytes that do not overlap, as memcpy does. */
static inline void dma_copy(void *to, const void *from, size_t bytes)
{
    size_t above = ((uintptr_t)to - (uintptr_t)from) & 4095;

    if (bytes < DMA_COPY_LONG || above == 0 || above >= DMA_COPY_ALIAS || !dma_copy_avoids_string_ops()) {
        memcpy(to, from, bytes);
    } else {
        dma_copy_backwards(to, from, bytes);
    }
}

/* A few bytes: small calls consist mostly of such copies, for which a call of memcpy takes longer than the copy. Copies the
 * first and the last bytes of the block; the two ranges may overlap. */
static inline void dma_copy_small(char *dst, const char *src, uint64_t bytes)
{
    if (bytes >= 16) {
        struct {
            uint64_t words[2];
        } first, last;

        memcpy(&first, src, 16);
        memcpy(&last, src + bytes - 16, 16);
        memcpy(dst, &first, 16);
        memcpy(dst + bytes - 16, &last, 16);
    } else if (bytes >= 8) {
        uint64_t first, last;

        memcpy(&first, src, 8);
        memcpy(&last, src + bytes - 8, 8);
        memcpy(dst, &first, 8);
        memcpy(dst + bytes - 8, &last, 8);
    } else if (bytes >= 4) {
        uint32_t first, last;

        memcpy(&first, src, 4);
        memcpy(&last, src + bytes - 4, 4);
        memcpy(dst, &first, 4);
        memcpy(dst + bytes - 4, &last, 4);
    } else {
        for (uint64_t i = 0; i < bytes; i++) {
            dst[i] = src[i];
        }
    }
}

#endif
