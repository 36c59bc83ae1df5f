/*
 * Small text files of sysfs: one line, or lines of "key number". Every read is bounded and every number is checked.
 * Anything unexpected is an error; the caller treats the node as hidden.
 */
#ifndef DMA_SDMA_TOPOLOGY_TEXT_H
#define DMA_SDMA_TOPOLOGY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A key to search for, and its number. */
typedef struct dma_text_key {
    const char *key;
    uint64_t max; /* a larger number is malformed */
    bool needed;
    uint64_t value; /* 0 if the key is missing */
    bool found;
} dma_text_key_t;

/* Reads an open file to its end into text, which has `size` bytes, and appends a 0. Returns the number of bytes, or -1: the
 * file cannot be read or is larger. */
ssize_t dma_text_read_open(int fd, char *text, size_t size);
/* Reads a whole file below a directory into text, which has `size` bytes, and appends a 0. Returns false if the file
 * cannot be read or is larger. */
bool dma_text_read(int dir, const char *path, char *text, size_t size);
/* Parses a decimal number. The text must contain nothing else except a newline at its end. */
bool dma_text_number(const char *text, uint64_t max, uint64_t *value);
/* Finds the keys in lines of "key number" and ignores other lines. Returns false if a needed key is missing or a number
 * is malformed. Modifies the text. */
bool dma_text_keys(char *text, dma_text_key_t *keys, size_t nkeys);
/* Collects the entries of a directory whose names are numbers, in ascending order. Returns their count, or -1 if the
 * directory cannot be read or has more than `max` such entries. */
int dma_text_numbers(int dir, const char *path, uint32_t *numbers, uint32_t max);

#endif
