/*
 * SDMA packets: pure functions that write little-endian dwords into a buffer and return their number.
 *
 * The formats are those of SDMA 4.x (gfx9: gfx90a, gfx942, gfx950). A packet starts with a header dword: the operation in
 * bits 0-7, the sub-operation in bits 8-15. An address takes two dwords, the low one first. A count field holds the count
 * minus one, so a length of zero cannot be encoded: such calls write nothing and return 0.
 *
 *   packet        dw  header      1           2           3        4        5        6        7
 *   nop           1   0           (a dword of zeros; fills the end of the ring)
 *   copy          7   1           bytes-1     0           src lo   hi       dst lo   hi
 *   broadcast     9   1 | 1<<27   bytes-1     0           src lo   hi       dst0 lo  hi       dst1 lo, hi
 *   swap          7   1 | 9<<8    bytes-1     0           a lo     hi       b lo     hi
 *   rect         13   1 | 4<<8    see packet_rect.c
 *   fence         4   5           addr lo     hi          value
 *   poll          6   8           addr lo     hi          value    mask     interval, retries
 *   cond          5   9           addr lo     hi          value    dwords
 *   timestamp     3   13 | 2<<8   addr lo     hi
 *
 * Order on one queue: copies, broadcasts, swaps and rects may overlap and complete out of order. A fence is executed
 * after all packets in front of it have completed, and so is a poll that has to wait. So a fence signals that the
 * copies in front of it have landed.
 *
 * The words of fences, polls and conditional executions are at multiples of 4: the engine ignores the low address bits.
 *
 * The encoders do not check alignment and features of the generation; gen.h has functions for both. They check only
 * whether the values fit into the fields.
 */
#ifndef DMA_SDMA_PACKET_H
#define DMA_SDMA_PACKET_H

#include <stdint.h>

#include "engine/sdma/hw/gen.h"
#include "gpu/shape.h"

#define DMA_PACKET_COPY_DWORDS      7
#define DMA_PACKET_BROADCAST_DWORDS 9
#define DMA_PACKET_SWAP_DWORDS      7
#define DMA_PACKET_RECT_DWORDS      13
#define DMA_PACKET_FENCE_DWORDS     4
#define DMA_PACKET_POLL_DWORDS      6
#define DMA_PACKET_COND_DWORDS      5
#define DMA_PACKET_TIMESTAMP_DWORDS 3
#define DMA_PACKET_TIMESTAMP_ALIGN  32 /* of its address */

#define DMA_PACKET_COND_MAX 0x3fff /* dwords that one conditional execution covers: a field of 14 bits */

/* The comparison of a poll: the word at its address, masked, against the value. Comparisons seem to be unsigned, which is
 * not documented. So keep values below 2^31. */
typedef enum dma_packet_test { DMA_PACKET_EQUAL = 3, DMA_PACKET_AT_LEAST = 5 } dma_packet_test_t;

/* Copies, in as many packets as the generation's limit requires (dma_gen_pieces). For broadcast and swap, check
 * dma_gen_*_unfit first. */
uint32_t dma_packet_copy(uint32_t *p, const dma_gen_t *gen, uint64_t dst, uint64_t src, uint64_t bytes);
uint32_t dma_packet_broadcast(uint32_t *p, const dma_gen_t *gen, uint64_t dst0, uint64_t dst1, uint64_t src,
                              uint64_t bytes);
uint32_t dma_packet_swap(uint32_t *p, const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes);
/* Writes a word after everything in front of the packet has landed. */
uint32_t dma_packet_fence(uint32_t *p, uint64_t addr, uint32_t value);
/* Waits without a timeout. `interval` is the number of clocks of the engine between two reads, 16 bits; the unit is not
 * documented. */
uint32_t dma_packet_poll(uint32_t *p, uint64_t addr, dma_packet_test_t test, uint32_t value, uint32_t mask,
                         uint32_t interval);
/* Conditional execution: the next `dwords` dwords run if the word at addr equals the value, otherwise the engine skips
 * them. Returns 0 if `dwords` exceeds DMA_PACKET_COND_MAX. */
uint32_t dma_packet_cond(uint32_t *p, uint64_t addr, uint32_t value, uint32_t dwords);

/* Writes the engine's clock, 8 bytes, when the engine comes to the packet. It does not wait for the copies in front of it. */
uint32_t dma_packet_timestamp(uint32_t *p, uint64_t addr);

/* Returns why a rectangle cannot be one packet, or NULL. Then *element is the base-2 logarithm of the element size to use
 * (0 to 4). */
const char *dma_rect_unfit(const dma_gen_t *gen, const dma_rect_t *rect, uint32_t *element);
/* `element` is the value from dma_rect_unfit for this rectangle. */
uint32_t dma_packet_rect(uint32_t *p, const dma_rect_t *rect, uint32_t element);

#endif
