/*
 * A second decoder of SDMA packets, for tests: reads dwords back into the fields of a packet.
 *
 * One table lists every packet with every bit that has a meaning, in the way registers are documented: dword, lowest
 * bit, width. It shares nothing with the encoders. A bit that belongs to no field must be zero.
 */
#ifndef DMA_TEST_LIBSDMA_DECODE_H
#define DMA_TEST_LIBSDMA_DECODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum sdma_kind {
    SDMA_NOP,
    SDMA_COPY,
    SDMA_BROADCAST,
    SDMA_SWAP,
    SDMA_RECT,
    SDMA_WRITE,
    SDMA_FENCE,
    SDMA_TRAP,
    SDMA_POLL,
    SDMA_HDP_FLUSH,
    SDMA_COND,
    SDMA_ATOMIC,
    SDMA_FILL,
    SDMA_TIMESTAMP,
} sdma_kind_t;

/* The fields of all packets. A field that a packet does not have is 0. Counts are the counts that are meant, not
 * one less. */
typedef struct sdma_packet {
    sdma_kind_t kind;
    const char *name;
    uint64_t bytes;  /* copies, fill */
    uint64_t dwords; /* in all */
    uint64_t src, dst, dst1;
    uint64_t addr;
    uint64_t value; /* fence, poll, conditional; context of a trap; pattern of a fill; what an atomic adds */
    uint64_t compare;
    uint64_t mask, test, interval, retries;
    /* dwords that follow: the data of a write, those that a nop skips, those that a conditional covers */
    uint64_t covered;
    uint64_t operation, loop;
    uint64_t element, src_x, src_y, src_z, src_pitch, src_slice, dst_x, dst_y, dst_z, dst_pitch, dst_slice;
    uint64_t width, height, depth;
    const uint32_t *data; /* of a write */
} sdma_packet_t;

/* Decodes the packet at p, of which `left` dwords may be read. Returns its number of dwords. 0: there is no packet,
 * and *why says why. */
size_t sdma_decode(const uint32_t *p, size_t left, sdma_packet_t *packet, const char **why);

#endif
