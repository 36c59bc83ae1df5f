/* SDMA packets: see packet.h. */
#include "engine/sdma/hw/packet.h"

enum {
    OP_COPY = 1,
    OP_FENCE = 5,
    OP_POLL = 8,
    OP_COND = 9,
    OP_TIMESTAMP = 13,
};

#define SUB(code)        ((uint32_t)(code) << 8)
#define COPY_SWAP        SUB(9)
#define COPY_TO_TWO      (UINT32_C(1) << 27)
#define POLL_MEMORY      (UINT32_C(1) << 31)
#define POLL_FOR_EVER    (UINT32_C(0xfff) << 16)
#define TIMESTAMP_GLOBAL SUB(2)

static uint32_t *address(uint32_t *p, uint64_t addr)
{
    p[0] = (uint32_t)addr;
    p[1] = (uint32_t)(addr >> 32);
    return p + 2;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Encodes copy, broadcast and swap, which move ranges of equal length: header, count, parameters and addresses. */
static uint32_t ranges(uint32_t *p, uint32_t header, uint64_t limit, uint64_t bytes, const uint64_t *addrs,
                       uint32_t naddrs)
{
    uint32_t *start = p;

    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = least(bytes - done, limit);
        *p++ = header;
        *p++ = (uint32_t)(piece - 1);
        *p++ = 0; /* parameters: keep the byte order */
        for (uint32_t i = 0; i < naddrs; i++) {
            p = address(p, addrs[i] + done);
        }
        done += piece;
    }
    return (uint32_t)(p - start);
}

uint32_t dma_packet_copy(uint32_t *p, const dma_gen_t *gen, uint64_t dst, uint64_t src, uint64_t bytes)
{
    return ranges(p, OP_COPY, gen->max_copy, bytes, (uint64_t[]){src, dst}, 2);
}

uint32_t dma_packet_broadcast(uint32_t *p, const dma_gen_t *gen, uint64_t dst0, uint64_t dst1, uint64_t src,
                              uint64_t bytes)
{
    return ranges(p, OP_COPY | COPY_TO_TWO, gen->max_copy, bytes, (uint64_t[]){src, dst0, dst1}, 3);
}

uint32_t dma_packet_swap(uint32_t *p, const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes)
{
    return ranges(p, OP_COPY | COPY_SWAP, gen->max_swap, bytes, (uint64_t[]){a, b}, 2);
}

uint32_t dma_packet_fence(uint32_t *p, uint64_t addr, uint32_t value)
{
    p[0] = OP_FENCE;
    address(p + 1, addr);
    p[3] = value;
    return DMA_PACKET_FENCE_DWORDS;
}

uint32_t dma_packet_timestamp(uint32_t *p, uint64_t addr)
{
    p[0] = OP_TIMESTAMP | TIMESTAMP_GLOBAL;
    address(p + 1, addr);
    return DMA_PACKET_TIMESTAMP_DWORDS;
}

uint32_t dma_packet_poll(uint32_t *p, uint64_t addr, dma_packet_test_t test, uint32_t value, uint32_t mask,
                         uint32_t interval)
{
    p[0] = OP_POLL | (uint32_t)test << 28 | POLL_MEMORY;
    address(p + 1, addr);
    p[3] = value;
    p[4] = mask;
    p[5] = (uint32_t)least(interval, 0xffff) | POLL_FOR_EVER;
    return DMA_PACKET_POLL_DWORDS;
}

uint32_t dma_packet_cond(uint32_t *p, uint64_t addr, uint32_t value, uint32_t dwords)
{
    if (dwords > DMA_PACKET_COND_MAX) {
        return 0;
    }
    p[0] = OP_COND;
    address(p + 1, addr);
    p[3] = value;
    p[4] = dwords;
    return DMA_PACKET_COND_DWORDS;
}
