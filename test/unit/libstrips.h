/*
 * Derived datatypes that are described by strips, and the host services for them: where a datatype has its data, for
 * tests of code that moves elements.
 */
#ifndef DMA_TEST_LIBSTRIPS_H
#define DMA_TEST_LIBSTRIPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"

typedef struct strips {
    ptrdiff_t extent, lb, ub;
    unsigned n;
    dma_strip_t strips[3];
    bool dense, regular;
} strips_t;

/* Bytes of data in an element. */
size_t strips_size(const strips_t *t);
/* Puts packed data, whole elements of `size` bytes, where the elements at `memory` have theirs. */
void strips_put(const strips_t *t, size_t size, char *memory, const char *packed, size_t bytes);
/* The same with the data of data_fill. */
void strips_fill(const strips_t *t, size_t size, char *memory, uint64_t tag, int rank, size_t bytes);
/* Sets those bytes to 1. */
void strips_mark(const strips_t *t, size_t size, uint8_t *memory, size_t bytes);
/* The host services of threads, with datatypes of this kind. */
dma_host_t strips_host(void);

#endif
