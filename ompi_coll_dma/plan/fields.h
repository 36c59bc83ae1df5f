/*
 * Tables of named constants as text: the format of all profiles.
 *
 * A profile is a small text file with one "name value" per line. '#' begins a comment. Every name of the table occurs
 * once, and no other name. Values are integers from 0 to 2^40, so that products of a few of them fit into the 128
 * bits of the cost model. A name that ends in _mbps is a rate. Rates are divisors and cannot be 0.
 */
#ifndef DMA_PLAN_FIELDS_H
#define DMA_PLAN_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

#define DMA_FIELDS_MAX 32

/* Reads a file into values[0 .. n - 1], in the order of `names`; n is at most DMA_FIELDS_MAX. On error `error` contains
 * the line and the reason, and values are unchanged. */
dma_status_t dma_fields_load(const char *const *names, size_t n, const char *path, uint64_t *values, char *error,
                             size_t error_bytes);

#endif
