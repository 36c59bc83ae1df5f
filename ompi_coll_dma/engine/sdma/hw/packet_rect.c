/*
 * Strided copies in one packet: MPI_Type_vector, and the transpose of the blocks of a node.
 *
 * The hardware calls it a sub-window copy of a surface. A surface has a base address, a pitch (from row to row) and a slice
 * (from plane to plane). The window has an origin, a width and a height. All values except the base are in elements of
 * 1 << e bytes. Here a surface has one plane, and the window begins in the first row:
 *
 *      base       base + x                                    base, pitch: multiples of 4 bytes
 *       |..........|######### row 0 ########|.......|
 *       |..........|######### row 1 ########|.......|         x < 4 bytes: the address minus the base
 *       <---------------- pitch -------------------->
 *
 *   dw  1-2 src base    3 x (14 bits), y << 16    4 z (11 bits), pitch-1 << 13 (19 bits)    5 slice-1 (28 bits)
 *   dw  6-7 dst base    8 x, y                    9 z, pitch-1                             10 slice-1
 *   dw 11 width-1 (14 bits), height-1 << 16       12 depth-1 (11 bits)
 *
 * The largest element that divides all values allows the longest rows (256 KiB). Elements of one byte allow any alignment,
 * and rows of up to 16 KiB.
 */
#include "engine/sdma/hw/packet.h"

#include <stdbool.h>
#include <stddef.h>

#define OP_RECT       (1 | 4u << 8)
#define LARGEST       4 /* elements of 16 bytes */
#define BASE_ALIGN    4
#define MAX_EXTENT    (UINT64_C(1) << 14) /* elements of a row, and rows: 14 bits */
#define MAX_PITCH     (UINT64_C(1) << 19) /* elements: 19 bits */
#define MAX_SLICE     (UINT64_C(1) << 28) /* elements: 28 bits */
#define PITCH_SHIFT   13
#define HEIGHT_SHIFT  16
#define ELEMENT_SHIFT 29

static bool divides(const dma_rect_t *r, uint32_t element)
{
    return ((r->dst | r->src | r->dst_pitch | r->src_pitch | r->row_bytes) & ((UINT64_C(1) << element) - 1)) == 0;
}

const char *dma_rect_unfit(const dma_gen_t *gen, const dma_rect_t *r, uint32_t *element)
{
    uint64_t wider = r->dst_pitch > r->src_pitch ? r->dst_pitch : r->src_pitch;
    uint32_t e = LARGEST;

    if (!(gen->has & DMA_GEN_RECT)) {
        return "this generation has no strided copy";
    }
    if (r->rows == 0 || r->row_bytes == 0) {
        return "there is nothing to copy";
    }
    if (r->dst_pitch < r->row_bytes || r->src_pitch < r->row_bytes) {
        return "rows overlap";
    }
    if ((r->dst_pitch | r->src_pitch) % BASE_ALIGN) {
        return "the distance between rows must be a multiple of 4 bytes";
    }
    while (!divides(r, e)) {
        e--;
    }
    if (r->row_bytes >> e > MAX_EXTENT || r->rows > MAX_EXTENT) {
        return "more than 16384 elements in a row, or rows";
    }
    if (r->row_bytes * r->rows > DMA_GEN_LARGEST) {
        return "more bytes than a packet moves";
    }
    if (wider >> e > MAX_PITCH || wider >> e > MAX_SLICE / r->rows) {
        return "rows too far apart";
    }
    *element = e;
    return NULL;
}

static uint32_t *surface(uint32_t *p, uint64_t addr, uint64_t pitch, uint64_t rows, uint32_t element)
{
    uint64_t base = addr - addr % BASE_ALIGN;

    p[0] = (uint32_t)base;
    p[1] = (uint32_t)(base >> 32);
    p[2] = (uint32_t)((addr - base) >> element);
    p[3] = (uint32_t)((pitch >> element) - 1) << PITCH_SHIFT;
    p[4] = (uint32_t)((pitch >> element) * rows - 1);
    return p + 5;
}

uint32_t dma_packet_rect(uint32_t *p, const dma_rect_t *r, uint32_t element)
{
    *p++ = OP_RECT | element << ELEMENT_SHIFT;
    p = surface(p, r->src, r->src_pitch, r->rows, element);
    p = surface(p, r->dst, r->dst_pitch, r->rows, element);
    p[0] = (uint32_t)((r->row_bytes >> element) - 1) | (uint32_t)(r->rows - 1) << HEIGHT_SHIFT;
    p[1] = 0;
    return DMA_PACKET_RECT_DWORDS;
}
