/*
 * Derived datatypes that are described by strips, and the host services for them: where a datatype has its data, for
 * tests of code that moves elements.
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
/* The place of byte `i` of packed elements of `size` bytes, as an offset from the address of the first element. */
ptrdiff_t strips_where(const strips_t *t, size_t size, size_t i);
/* The host services of threads, with datatypes of this kind. */
dma_host_t strips_host(void);

#endif
