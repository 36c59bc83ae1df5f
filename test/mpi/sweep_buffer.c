/*
 * Buffers with canaries. Memory of one buffer:
 *
 *   | guard | first block's bytes and gaps ... last block's | guard |
 *              ^ base (anywhere, with negative displacements even after the first data byte)
 *
 * Every byte that is not data is a canary whose value depends on its place. A check compares the whole memory with a
 * picture of what it must hold. Some buffers end right before a page that may not be touched, without the second guard:
 * they catch whoever reads too much.
 */
#include "sweep.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* Where the data of all blocks lies, relative to the base; false if there is none. */
static bool span(const buffer_t *b, long *low, long *high)
{
    *low = LONG_MAX;
    *high = LONG_MIN;
    for (int i = 0; i < b->nblocks; i++) {
        const block_t *block = &b->blocks[i];
        if (block->elements > 0) {
            long first = element_at(b, block, 0) - b->origin + b->type->low;
            long last = element_at(b, block, block->elements - 1) - b->origin + b->type->high;
            *low = first < *low ? first : *low;
            *high = last > *high ? last : *high;
        }
    }
    return *low < *high;
}

static void *checked(void *memory, size_t bytes)
{
    if (memory == NULL || memory == MAP_FAILED) {
        fprintf(stderr, "sweep: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return memory;
}

/* Memory of which the last `used` bytes, a multiple of 8, lie before a forbidden page. */
static void make_fenced(buffer_t *b, size_t used)
{
    b->mapped = (used + PAGE - 1) / PAGE * PAGE + PAGE;
    unsigned char *map = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->map = checked(map, b->mapped);
    mprotect(b->map + b->mapped - PAGE, PAGE, PROT_NONE);
    b->memory = b->map + b->mapped - PAGE - used;
}

void buffer_make(buffer_t *b, const type_t *type, int nblocks, block_t *blocks, int align, rng_t *rng)
{
    *b = (buffer_t){.type = type, .nblocks = nblocks, .blocks = blocks, .canary = rng_next(rng)};
    long low, high;
    bool empty = !span(b, &low, &high);
    if (empty) {
        low = high = 0;
    }
    long before = GUARD + rng_below(rng, 200), after = GUARD + rng_below(rng, 200);
    b->origin = low < 0 ? before - low : before;
    if (!empty && rng_chance(rng, 20)) {
        /* The end of the data, rounded up to the alignment, is the end of the memory. */
        b->origin = (b->origin + 63) / 64 * 64;
        long end = b->origin + (high + align - 1) / align * align;
        long shift = (8 - end % 8) % 8; /* only without alignment the end may lie anywhere */
        b->origin += shift;
        b->bytes = (size_t)(end + shift);
        make_fenced(b, b->bytes);
    } else {
        long grain = rng_chance(rng, 25) ? PAGE : align;
        b->origin = (b->origin + grain - 1) / grain * grain + (grain == PAGE ? 0 : grain * rng_below(rng, 16));
        b->bytes = (size_t)(b->origin + (high > 0 ? high : 0) + after);
        void *memory = NULL;
        b->memory = checked(posix_memalign(&memory, PAGE, b->bytes) == 0 ? memory : NULL, b->bytes);
    }
    b->base = empty && rng_chance(rng, 30) ? NULL : b->memory + b->origin;
}

void buffer_free(buffer_t *b)
{
    if (b->map != NULL) {
        munmap(b->map, b->mapped);
    } else {
        free(b->memory);
    }
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
