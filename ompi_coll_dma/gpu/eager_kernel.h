/*
 * The kernel of eager starts (gpu/eager.h). Before it includes this file, a user defines
 *
 *     DMA_EAGER_FN                      how its functions are declared
 *     dma_eager_at(address)             a pointer to device memory
 *     dma_eager_put(address, w)         stores a packet, of two 64-bit words; each word as one
 *     dma_eager_get(address, w)         loads one in the same way, from memory and not from a cache that peers do not write
 *     dma_eager_store32(address, value), dma_eager_load32(address)
 *                                       words in memory of the host, in the same way
 *     dma_eager_release32(address, value)
 *                                       the same, behind all that the block of threads has written
 *
 * So the same lines run on devices (cuda/eager.cu) and, in tests, on cores.
 */
#include "gpu/eager.h"

/* How often a thread polls between looks at the stop word, which is far away. */
#ifndef DMA_EAGER_POLLS
#define DMA_EAGER_POLLS 8192
#endif

/* Where a thread is in the launch. */
typedef struct dma_eager_thread {
    uint32_t first, step; /* its items: the first, and how far it is to the next */
    uint32_t row;
} dma_eager_thread_t;

/* The bytes of item i of a block, as many as there are; the others are 0. */
DMA_EAGER_FN uint64_t dma_eager_read(uint64_t block, uint32_t bytes, uint32_t i)
{
    uint64_t at = block + (uint64_t)i * DMA_EAGER_ITEM, value = 0;
    uint32_t begin = i * DMA_EAGER_ITEM, n = begin < bytes ? bytes - begin : 0;

    if (n >= DMA_EAGER_ITEM && at % DMA_EAGER_ITEM == 0) {
        return *(const uint64_t *)dma_eager_at(at);
    }
    for (uint32_t k = 0; k < DMA_EAGER_ITEM && k < n; k++) {
        value |= (uint64_t) * (const unsigned char *)dma_eager_at(at + k) << (8 * k);
    }
    return value;
}

DMA_EAGER_FN void dma_eager_write(uint64_t block, uint32_t bytes, uint32_t i, uint64_t value)
{
    uint64_t at = block + (uint64_t)i * DMA_EAGER_ITEM;
    uint32_t begin = i * DMA_EAGER_ITEM, n = begin < bytes ? bytes - begin : 0;

    if (n >= DMA_EAGER_ITEM && at % DMA_EAGER_ITEM == 0) {
        *(uint64_t *)dma_eager_at(at) = value;
        return;
    }
    for (uint32_t k = 0; k < DMA_EAGER_ITEM && k < n; k++) {
        *(unsigned char *)dma_eager_at(at + k) = (unsigned char)(value >> (8 * k));
    }
}

DMA_EAGER_FN void dma_eager_send(const dma_eager_args_t *args, const dma_eager_row_t *row, dma_eager_thread_t t)
{
    uint64_t out = row->out + (args->epoch & 1) * args->bank_bytes, tag = (uint64_t)args->epoch << 32;
    uint32_t n = dma_eager_packets(row->src_bytes);

    for (uint32_t i = t.first; i < n; i += t.step) {
        uint64_t value = dma_eager_read(row->src, row->src_bytes, i);
        uint64_t words[2] = {(value & UINT32_MAX) | tag, value >> 32 | tag};

        dma_eager_put(out + (uint64_t)i * DMA_EAGER_PACKET, words);
    }
}

/* *vain: how often this thread has polled in vain. Returns 0 if it was stopped, or has no more patience. */
DMA_EAGER_FN int dma_eager_wait(const dma_eager_args_t *args, uint64_t packet, uint64_t words[2], uint32_t *vain)
{
    for (;;) {
        dma_eager_get(packet, words);
        if ((uint32_t)(words[0] >> 32) == args->epoch && (uint32_t)(words[1] >> 32) == args->epoch) {
            return 1;
        }
        ++*vain;
        if (args->patience ? *vain >= args->patience : *vain % DMA_EAGER_POLLS == 0 && dma_eager_load32(args->stop)) {
            return 0;
        }
    }
}

/* Returns 0 if a packet has not come. */
DMA_EAGER_FN int dma_eager_recv(const dma_eager_args_t *args, const dma_eager_row_t *row, dma_eager_thread_t t)
{
    uint64_t in = row->in + (args->epoch & 1) * args->bank_bytes, words[2];
    uint32_t n = dma_eager_packets(row->dst_bytes), vain = 0;

    for (uint32_t i = t.first; i < n; i += t.step) {
        if (!dma_eager_wait(args, in + (uint64_t)i * DMA_EAGER_PACKET, words, &vain)) {
            return 0;
        }
        dma_eager_write(row->dst, row->dst_bytes, i, (words[0] & UINT32_MAX) | words[1] << 32);
    }
    return 1;
}

/* The own block; in place it is there. */
DMA_EAGER_FN void dma_eager_copy(const dma_eager_row_t *row, dma_eager_thread_t t)
{
    uint32_t bytes = row->src_bytes < row->dst_bytes ? row->src_bytes : row->dst_bytes, n = dma_eager_packets(bytes);

    for (uint32_t i = t.first; i < n && row->src != row->dst; i += t.step) {
        dma_eager_write(row->dst, bytes, i, dma_eager_read(row->src, bytes, i));
    }
}

/* What one thread does, except for the end. Returns 0 if a packet has not come. */
DMA_EAGER_FN int dma_eager_run(const dma_eager_args_t *args, dma_eager_thread_t t)
{
    const dma_eager_row_t *row = &args->rows[t.row];

    if (args->steps & DMA_EAGER_SEND) {
        if (t.row == 0 && t.first == 0) {
            dma_eager_store32(args->ready, args->epoch);
        }
        if (row->out) {
            dma_eager_send(args, row, t);
        } else {
            dma_eager_copy(row, t);
        }
    }
    return !(args->steps & DMA_EAGER_RECV) || !row->out || dma_eager_recv(args, row, t);
}

/* All threads of a block have run; `block`: its number in the launch. `complete`: all packets have come for it. */
DMA_EAGER_FN void dma_eager_end(const dma_eager_args_t *args, uint32_t block, int complete)
{
    if (!complete) {
        dma_eager_store32(args->missed, args->epoch);
    }
    dma_eager_release32(args->ends + block * sizeof(uint32_t), args->epoch);
}
