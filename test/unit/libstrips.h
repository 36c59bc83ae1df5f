/*
 * Derived datatypes that are written down as strips, and the host services for them: what a datatype has where, for tests of
 * what moves elements.
 */
#ifndef DMA_TEST_LIBSTRIPS_H
#define DMA_TEST_LIBSTRIPS_H

#include <stdbool.h>
#include <stddef.h>

#include "dma/host.h"

typedef struct strips {
    ptrdiff_t extent, lb, ub;
    unsigned n;
    dma_strip_t strips[3];
    bool dense, regular;
} strips_t;

/* Bytes of data in an element. */
size_t strips_size(const strips_t *t);
/* Where byte `i` of packed elements, of `size` bytes each, lies: offset from the address of the first one. */
ptrdiff_t strips_where(const strips_t *t, size_t size, size_t i);
/* The host services of threads, with datatypes of this kind. */
dma_host_t strips_host(void);

#endif
