/*
 * Shapes: blocks whose bytes are not contiguous, but form rows at a regular distance, and planes of such rows.
 *
 * A vector type of MPI is a plane of rows. Consecutive elements of the type begin one extent apart. If the extent
 * continues the distance between the rows, all elements form one plane. Otherwise every element is a plane:
 *
 *       <-row->             <-row->             <-row->                        `rows` of them are a plane
 *      |#######............|#######............|#######...  ...  |#######....
 *       <---- pitch ------->                                      ^
 *       <------------------------ step -------------------------->             the next plane
 *
 * The bytes of a block are numbered as if the block were packed: row after row, plane after plane. A copy between two
 * shapes is cut into rectangles. A rectangle is a number of rows of equal length with a constant pitch on each side.
 * Rectangles do not overlap. A row is cut where a row of the other side ends, and pieces that repeat at a constant
 * pitch form one rectangle: 64-byte rows copied into 96-byte rows make four rectangles.
 *
 * All functions are pure.
 */
#ifndef DMA_GPU_SHAPE_H
#define DMA_GPU_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"

typedef struct dma_shape {
    uint64_t row;   /* bytes of a row; 0: no shape, the bytes are contiguous */
    uint64_t rows;  /* rows of a plane; 0: all rows form one plane */
    uint64_t pitch; /* bytes from row to row; not less than a row */
    uint64_t step;  /* bytes from plane to plane; may be less than a plane, because planes may be interleaved */
} dma_shape_t;

/* Computes the shape of blocks of at most `count` elements that begin `extent` bytes apart and have the rows of `layout`.
 * Returns false if such blocks cannot be described by a shape. */
bool dma_shape_from_rows(const dma_rows_t *layout, uint64_t count, ptrdiff_t extent, dma_shape_t *shape);
/* Whether a shape that a peer has sent is well-formed. */
bool dma_shape_valid(const dma_shape_t *shape);
/* The distance from the first to behind the last byte of a block of `bytes` bytes; UINT64_MAX if it exceeds 63 bits. */
uint64_t dma_shape_span(const dma_shape_t *shape, uint64_t bytes);

/* One side of a copy. */
typedef struct dma_location {
    uint64_t addr; /* of the first byte of the block */
    uint64_t skip; /* bytes of the block in front of the first byte to copy */
    dma_shape_t shape;
} dma_location_t;

/* `rows` rows of row_bytes bytes. Each row begins one pitch behind the previous row, on each side. */
typedef struct dma_rect {
    uint64_t dst, src;
    uint64_t dst_pitch, src_pitch;
    uint64_t row_bytes, rows;
} dma_rect_t;

/* The state of cutting one copy into rectangles. */
typedef struct dma_cut {
    dma_location_t dst, src;
    uint64_t at, end;       /* bytes of the copy that are left to cut */
    uint64_t period, times; /* from `at` on, the pattern of both sides repeats every `period` bytes, `times` times */
    uint64_t piece;         /* offset of the next piece in the first of these periods */
    bool by_planes;         /* the period consists of whole planes */
} dma_cut_t;

void dma_cut_begin(dma_cut_t *cut, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* Returns the next rectangle; false if there is none left. */
bool dma_cut_next(dma_cut_t *cut, dma_rect_t *rect);
/* An estimate of the number of rectangles. */
uint64_t dma_cut_count(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);

#endif
