/*
 * SDMA packets: pure functions that write little-endian dwords into a buffer and return how many.
 *
 * Formats are those of SDMA 4.x (gfx9: gfx90a, gfx942, gfx950). A packet starts with a header dword, operation in bits
 * 0-7, sub-operation in bits 8-15; addresses are two dwords, the low one first; counts are one less than what is meant,
 * so a length of zero cannot be said: such calls write nothing and return 0.
 *
 *   packet        dw  header      1           2           3        4        5        6        7
 *   nop         1+n   n<<16       (n dwords that are skipped)
 *   copy          7   1           bytes-1     0           src lo   hi       dst lo   hi
 *   broadcast     9   1 | 1<<27   bytes-1     0           src lo   hi       dst0 lo  hi       dst1 lo, hi
 *   swap          7   1 | 9<<8    bytes-1     0           a lo     hi       b lo     hi
 *   rect         13   1 | 4<<8    see packet_rect.c
 *   write       4+n   2           dst lo      hi          n-1      (n dwords)
 *   fence         4   5           addr lo     hi          value
 *   trap          2   6           context
 *   poll          6   8           addr lo     hi          value    mask     interval, retries
 *   cond          5   9           addr lo     hi          value    dwords
 *   add64         8   10          addr lo     hi          add lo   hi       0        0        interval
 *   fill          5   11 | 2<<30  dst lo      hi          pattern  bytes-1
 *   timestamp     3   13 | 2<<8   addr lo     hi
 *
 * Order on one queue: copies, swaps, rects and writes may overlap and finish out of order. A fence, and a poll that
 * waits, come after everything before them. A fence or atomic is therefore what tells others that a copy has landed.
 *
 * The words that fences, polls and conditionals name are at multiples of 4, what an atomic adds to is at a multiple of
 * 8: the engine takes the low bits of their addresses as zero.
 *
 * The encoders trust their caller with alignment and with what the generation has (gen.h says both): they check only
 * what cannot be put into the fields.
 */
#ifndef DMA_SDMA_PACKET_H
#define DMA_SDMA_PACKET_H

#include <stdint.h>

#include "engine/sdma/gen.h"

#define DMA_PACKET_COPY_DWORDS      7
#define DMA_PACKET_BROADCAST_DWORDS 9
#define DMA_PACKET_SWAP_DWORDS      7
#define DMA_PACKET_RECT_DWORDS      13
#define DMA_PACKET_WRITE_DWORDS     4 /* and the data */
#define DMA_PACKET_FENCE_DWORDS     4
#define DMA_PACKET_TRAP_DWORDS      2
#define DMA_PACKET_POLL_DWORDS      6
#define DMA_PACKET_HDP_FLUSH_DWORDS 6
#define DMA_PACKET_COND_DWORDS      5
#define DMA_PACKET_ADD64_DWORDS     8
#define DMA_PACKET_FILL_DWORDS      5
#define DMA_PACKET_TIMESTAMP_DWORDS 3

#define DMA_PACKET_NOP_MAX   0x3fff             /* dwords that one nop skips */
#define DMA_PACKET_COND_MAX  0x3fff             /* dwords that one conditional execution covers */
#define DMA_PACKET_WRITE_MAX 0x100000           /* dwords of one write */
#define DMA_PACKET_FILL_MAX  UINT64_C(0x3fffe0) /* bytes of one fill */

/* When a poll is content: the word at its address, masked, against the value. Comparisons are unsigned as far as is
 * known, which nobody documents: keep values below 2^31. */
typedef enum dma_packet_test { DMA_PACKET_EQUAL = 3, DMA_PACKET_AT_LEAST = 5 } dma_packet_test_t;

/* `dwords` in all, of which the engine skips all; 0 for more than one nop can skip. */
uint32_t dma_packet_nop(uint32_t *p, uint32_t dwords);
/* Copies, in as many packets as the generation's limit takes (dma_gen_pieces). Broadcast and swap: also
 * dma_gen_*_unfit. */
uint32_t dma_packet_copy(uint32_t *p, const dma_gen_t *gen, uint64_t dst, uint64_t src, uint64_t bytes);
uint32_t dma_packet_broadcast(uint32_t *p, const dma_gen_t *gen, uint64_t dst0, uint64_t dst1, uint64_t src,
                              uint64_t bytes);
uint32_t dma_packet_swap(uint32_t *p, const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes);
/* Writes dwords that are in the packet itself. It does not wait for copies before it. */
uint32_t dma_packet_write(uint32_t *p, uint64_t dst, const uint32_t *data, uint32_t dwords);
/* Sets a word once everything before it has landed. */
uint32_t dma_packet_fence(uint32_t *p, uint64_t addr, uint32_t value);
/* Interrupts; the context is 28 bits for whoever handles it. */
uint32_t dma_packet_trap(uint32_t *p, uint32_t context);
/* Waits for ever. The interval is in clocks of the engine between two looks: 16 bits, what one unit is nobody
 * documents. */
uint32_t dma_packet_poll(uint32_t *p, uint64_t addr, dma_packet_test_t test, uint32_t value, uint32_t mask,
                         uint32_t interval);
/* Makes what the host wrote through the PCIe aperture visible to the packets behind it. */
uint32_t dma_packet_hdp_flush(uint32_t *p);
/* The next `dwords` run if the word at addr equals the value and are skipped if not. 0 for more than fit. */
uint32_t dma_packet_cond(uint32_t *p, uint64_t addr, uint32_t value, uint32_t dwords);
/* Adds to a 64-bit word; in host memory only where the link has PCIe's 64-bit atomics. */
uint32_t dma_packet_add64(uint32_t *p, uint64_t addr, int64_t add);
/* Fills with a dword; bytes a multiple of 4, up to DMA_PACKET_FILL_MAX, else 0. */
uint32_t dma_packet_fill(uint32_t *p, uint64_t dst, uint32_t pattern, uint64_t bytes);
/* Stores the 64-bit clock of the GPU, which counts at about 100 MHz, at an address that is a multiple of 32. */
uint32_t dma_packet_timestamp(uint32_t *p, uint64_t addr);

/* A strided copy: rows of row_bytes, each pitch bytes behind the one before, on either side. */
typedef struct dma_rect {
    uint64_t dst, src;
    uint64_t dst_pitch, src_pitch;
    uint64_t row_bytes, rows;
} dma_rect_t;

/* Why it cannot be one packet, or NULL; then *element is the logarithm of the element size to use (0 .. 4). */
const char *dma_rect_unfit(const dma_gen_t *gen, const dma_rect_t *rect, uint32_t *element);
/* With an element that dma_rect_unfit gave for it. */
uint32_t dma_packet_rect(uint32_t *p, const dma_rect_t *rect, uint32_t element);

#endif
