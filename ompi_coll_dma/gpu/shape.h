/*
 * Blocks whose bytes do not lie side by side: rows at regular distances, and planes of such rows.
 *
 * A vector type of MPI is a plane of rows. Elements of it follow each other at its extent; where that continues the
 * distance of the rows all is one plane, else every element is a plane:
 *
 *       <-row->             <-row->             <-row->                        `rows` of them are a plane
 *      |#######............|#######............|#######...  ...  |#######....
 *       <---- pitch ------->                                      ^
 *       <------------------------ step -------------------------->             the next plane
 *
 * Bytes of a block are counted as they would be packed: row after row, plane after plane. A copy between two shapes is cut
 * into rectangles, each a number of rows of equal length that are regularly apart on both sides. They do not overlap, and
 * there are as few of them as rows that are cut at each other's ends allow: 64-byte rows into 96-byte rows are four.
 *
 * Pure functions of numbers.
 */
#ifndef DMA_GPU_SHAPE_H
#define DMA_GPU_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"

typedef struct dma_shape {
    uint64_t row;   /* bytes; 0: no shape, all bytes side by side */
    uint64_t rows;  /* of a plane; 0: all are of one plane */
    uint64_t pitch; /* from row to row; not less than a row */
    uint64_t step;  /* from plane to plane; may be less than a plane: planes may be interleaved */
} dma_shape_t;

/* The shape of blocks of at most `count` elements of a layout, `extent` apart. false: they have none. */
bool dma_shape_from_rows(const dma_rows_t *layout, uint64_t count, ptrdiff_t extent, dma_shape_t *shape);
/* Can this be one? For shapes that others have sent. */
bool dma_shape_valid(const dma_shape_t *shape);
/* From the first to the last byte of a block of `bytes` bytes; UINT64_MAX: too far for 63 bits. */
uint64_t dma_shape_span(const dma_shape_t *shape, uint64_t bytes);

/* One side of a copy. */
typedef struct dma_location {
    uint64_t addr; /* of the block's first byte */
    uint64_t skip; /* bytes of the block before the copy's first */
    dma_shape_t shape;
} dma_location_t;

/* Rows of row_bytes, each pitch bytes behind the one before, on either side. */
typedef struct dma_rect {
    uint64_t dst, src;
    uint64_t dst_pitch, src_pitch;
    uint64_t row_bytes, rows;
} dma_rect_t;

/* A copy that is being cut. */
typedef struct dma_cut {
    dma_location_t dst, src;
    uint64_t at, end;       /* bytes of the copy: what is left to cut */
    uint64_t period, times; /* from `at` on the sides look the same so many times, every `period` bytes */
    uint64_t piece;         /* next in the first of them */
    bool by_planes;         /* the period is one of whole planes */
} dma_cut_t;

void dma_cut_begin(dma_cut_t *cut, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* false: there is no more. */
bool dma_cut_next(dma_cut_t *cut, dma_rect_t *rect);
/* About how many there will be. */
uint64_t dma_cut_count(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);

#endif
