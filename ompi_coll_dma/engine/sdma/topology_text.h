/*
 * Small text files of sysfs: one line, or lines of "key number". Every read is bounded and every number is checked;
 * what is odd is an error, which the caller takes for a node it cannot see.
 */
#ifndef DMA_SDMA_TOPOLOGY_TEXT_H
#define DMA_SDMA_TOPOLOGY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A key to look for, and where its number goes. */
typedef struct dma_text_key {
    const char *key;
    uint64_t max; /* larger is malformed */
    bool needed;
    uint64_t value; /* 0 when the key is not there */
    bool found;
} dma_text_key_t;

/* All of a file, below a directory, with a 0 at its end, into text of `size` bytes. false: it cannot be read, or is
 * larger. */
bool dma_text_read(int dir, const char *path, char *text, size_t size);
/* A decimal number that takes all of text but a newline at its end. */
bool dma_text_number(const char *text, uint64_t max, uint64_t *value);
/* Finds the keys in lines of "key number"; others are passed over. false: one that is needed is missing, or its number
 * is none. The text is left in pieces. */
bool dma_text_keys(char *text, dma_text_key_t *keys, size_t nkeys);
/* The numbers that are names of entries of a directory, ascending, up to `max` of them; -1: cannot be read, or more. */
int dma_text_numbers(int dir, const char *path, uint32_t *numbers, uint32_t max);

#endif
