/*
 * Buffers with canaries. Memory of one buffer:
 *
 *   | guard | first block's bytes and gaps ... last block's | guard |
 *              ^ base (anywhere, with negative displacements even after the first data byte)
 *
 * Every byte that is not data is a canary whose value depends on its place. A check compares the whole memory with a
 * picture of what it must hold.
 */
#include "sweep.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, PAGE = 4096 };

static unsigned char data_byte(uint64_t key, long at)
{
    return (unsigned char)((key >> (3 * (at & 7))) + (uint64_t)at * 167 + (uint64_t)(at >> 8) * 59);
}

static unsigned char canary_byte(uint64_t canary, long at)
{
    return (unsigned char)(canary + (uint64_t)at * 131 + (uint64_t)(at >> 8));
}

static long element_at(const buffer_t *b, const block_t *block, long element)
{
    return b->origin + (block->displ + element) * b->type->extent;
}

void buffer_make(buffer_t *b, const type_t *type, int nblocks, block_t *blocks, int align, rng_t *rng)
{
    *b = (buffer_t){.type = type, .nblocks = nblocks, .blocks = blocks, .canary = rng_next(rng)};
    long low = LONG_MAX, high = LONG_MIN;
    for (int i = 0; i < nblocks; i++) {
        if (blocks[i].elements > 0) {
            long first = element_at(b, &blocks[i], 0) + type->low;
            long last = element_at(b, &blocks[i], blocks[i].elements - 1) + type->high;
            low = first < low ? first : low;
            high = last > high ? last : high;
        }
    }
    bool empty = low > high;
    if (empty) {
        low = high = 0;
    }
    long grain = rng_chance(rng, 25) ? PAGE : align;
    long before = GUARD + rng_below(rng, 200), after = GUARD + rng_below(rng, 200);
    long origin = before - low > before ? before - low : before;
    b->origin = (origin + grain - 1) / grain * grain + (grain == PAGE ? 0 : grain * rng_below(rng, 16));
    long end = b->origin + (high > 0 ? high : 0);
    b->bytes = (size_t)(end + after);
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE, b->bytes) != 0) {
        fprintf(stderr, "sweep: no memory for %zu bytes\n", b->bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    b->memory = memory;
    b->base = empty && rng_chance(rng, 30) ? NULL : b->memory + b->origin;
}

void buffer_free(buffer_t *b)
{
    free(b->memory);
    free(b->blocks);
    *b = (buffer_t){0};
}

static void paint_block(const buffer_t *b, const block_t *block, unsigned char *to)
{
    long position = 0;
    for (long element = 0; element < block->elements; element++) {
        unsigned char *origin = to + element_at(b, block, element);
        for (int i = 0; i < b->type->npieces; i++) {
            unsigned char *out = origin + b->type->pieces[i].at;
            for (long k = 0; k < b->type->pieces[i].bytes; k++) {
                out[k] = data_byte(block->key, position + k);
            }
            position += b->type->pieces[i].bytes;
        }
    }
}

static void paint(const buffer_t *b, int which, unsigned char *to)
{
    for (size_t i = 0; i < b->bytes; i++) {
        to[i] = canary_byte(b->canary, (long)i);
    }
    for (int i = 0; i < b->nblocks; i++) {
        if (which == i || which == ALL_BLOCKS) {
            paint_block(b, &b->blocks[i], to);
        }
    }
}

void buffer_fill(buffer_t *b, int which)
{
    paint(b, which, b->memory);
}

/* What lies at a byte of the memory, for messages. */
static void name_byte(const buffer_t *b, long at, char *text, size_t room)
{
    for (int i = 0; i < b->nblocks; i++) {
        long position = 0;
        for (long element = 0; element < b->blocks[i].elements; element++) {
            for (int k = 0; k < b->type->npieces; k++) {
                const piece_t *piece = &b->type->pieces[k];
                long inside = at - element_at(b, &b->blocks[i], element) - piece->at;
                if (inside >= 0 && inside < piece->bytes) {
                    snprintf(text, room, "data byte %ld of block %d", position + inside, i);
                    return;
                }
                position += piece->bytes;
            }
        }
    }
    snprintf(text, room, "a canary");
}

bool buffer_check(const buffer_t *b, int which, char *text, size_t room)
{
    static unsigned char *picture; /* kept: fresh pages would cost more than the comparison */
    static size_t picture_bytes;
    if (b->bytes > picture_bytes) {
        free(picture);
        picture_bytes = b->bytes;
        picture = malloc(picture_bytes);
    }
    paint(b, which, picture);
    if (memcmp(picture, b->memory, b->bytes) == 0) {
        return true;
    }
    long at = 0, wrong = 0;
    for (long i = (long)b->bytes - 1; i >= 0; i--) {
        if (picture[i] != b->memory[i]) {
            at = i;
            wrong++;
        }
    }
    char what[80];
    name_byte(b, at, what, sizeof(what));
    snprintf(text, room, "first wrong byte at %+ld from the base (%s): got 0x%02x, expected 0x%02x; %ld wrong",
             at - b->origin, what, b->memory[at], picture[at], wrong);
    return false;
}
