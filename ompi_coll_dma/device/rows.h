/*
 * The rows of a block: where the bytes of a datatype are, as rectangles.
 *
 * The bytes of a block are numbered as if the block were packed. They are contiguous, or have a shape (gpu/shape.h), or belong
 * to elements of an irregular datatype. For the latter the host services list the strips of an element: rows of equal length
 * at a regular distance. A strip becomes rectangles in one of two ways, whichever makes fewer copies: one for each element,
 * with the strip's rows; or one for each row of the strip, with that row of all elements:
 *
 *      element 0             element 1             element 2
 *     |##...#....#....##....|##...#....#....##....|##...#....#....##....|
 *      a    b    b    c      a    b    b    c      a    b    b    c            strips a and c: one rectangle of three
 *                                                                              rows each; strip b: two of three rows
 *
 * A copy may begin and end inside a row, whose parts are rows then. Rectangles that continue each other become one: rows that
 * touch on both sides, also those of two blocks; and rows of irregular datatypes at equal distances, because an indexed
 * datatype often has runs of them. Not if the rows lie in several allocations (types over MPI_BOTTOM): the runtime refuses copies
 * that go from one to another.
 *
 * The rectangles of a copy have the bytes of the copy and no others, so nothing in the gaps is written. Their order is free.
 */
#ifndef DMA_DEVICE_ROWS_H
#define DMA_DEVICE_ROWS_H

#include "dma/comm.h"
#include "gpu/runtime.h"
#include "gpu/shape.h"

/* One side of a copy. */
typedef struct dma_place {
    uint64_t addr;            /* of the block */
    uint64_t skip;            /* bytes of the block in front of the first byte to copy */
    const dma_shape_t *shape; /* may be NULL */
    const dma_side_t *type;   /* irregular; may be NULL. Then there is no shape */
} dma_place_t;

/* Gets a rectangle with one row at least. Pitches may be negative (2^64 - n); that of a single row says nothing. */
typedef dma_status_t (*dma_rect_fn_t)(void *arg, const dma_rect_t *rect);

typedef struct dma_rects {
    const dma_host_t *host;
    dma_rect_fn_t visit;
    void *arg;
    bool backwards;  /* rectangles with negative pitches cost no more than others */
    dma_rect_t open; /* that the next one may continue; no rows: none */
} dma_rects_t;

/* Lists the rectangles of a copy, until one visit fails. If one side has an irregular datatype, the other one is contiguous, or has
 * the same datatype and `skip`. The last rectangles may be listed with those of the next copy, or by dma_rects_end. */
dma_status_t dma_rects_add(dma_rects_t *rects, const dma_place_t *dst, const dma_place_t *src, uint64_t bytes);
dma_status_t dma_rects_end(dma_rects_t *rects);
/* The same for a single copy. */
dma_status_t dma_rects_list(dma_rects_t *rects, const dma_place_t *dst, const dma_place_t *src, uint64_t bytes);

/* ---- visits that copy ---- */

typedef struct dma_rect_stream {
    const dma_gpu_runtime_t *rt;
    dma_gpu_stream_t *stream;
} dma_rect_stream_t;

/* By the runtime, in stream order, as dma_gpu_copy_rect does. In scope. `arg`: a dma_rect_stream_t. */
dma_status_t dma_rect_start(void *arg, const dma_rect_t *rect);
/* By the cores. `arg` is not used. */
dma_status_t dma_rect_move(void *arg, const dma_rect_t *rect);

#endif
