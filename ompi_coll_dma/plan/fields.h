/*
 * Tables of named constants as text: what every engine profile has in common.
 *
 * One "name value" per line, '#' begins a comment; every name once, nothing unknown. Values are integers up to 2^40:
 * so products of a few of them fit into the cost model's 128 bits. A name that ends in _mbps is a rate, which divides,
 * and cannot be 0.
 */
#ifndef DMA_PLAN_FIELDS_H
#define DMA_PLAN_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dma/status.h"

#define DMA_FIELDS_MAX 32

typedef struct dma_field {
    const char *name;
    const char *help;
} dma_field_t;

/* Text to values[0 .. n - 1], in the order of the table. On error `error` says which line and why, and values are not
 * touched. */
dma_status_t dma_fields_parse(const dma_field_t *fields, size_t n, const char *text, uint64_t *values, char *error,
                              size_t error_bytes);
/* The same from a file. */
dma_status_t dma_fields_load(const dma_field_t *fields, size_t n, const char *path, uint64_t *values, char *error,
                             size_t error_bytes);
/* What dma_fields_parse reads, with the help texts as comments. */
void dma_fields_print(const dma_field_t *fields, size_t n, const uint64_t *values, FILE *out);

#endif
