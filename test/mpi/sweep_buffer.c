/*
 * Buffers with canaries. The memory of one buffer:
 *
 *   | guard | first block's bytes and gaps ... last block's | guard |
 *              ^ base (anywhere; with negative displacements even after the first data byte)
 *
 * Every byte that is not data is a canary whose value depends on its place. A check compares the whole memory with the
 * expected contents. Some buffers end directly before a page that may not be accessed, without the second guard: they catch
 * reads beyond the end.
 *
 * A buffer in device memory has the same memory on the device, somewhere in an allocation. What is called its memory here is
 * where the host writes and reads it. It is copied to the device after every fill, and back before every check.
 */
#include "sweep.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../tools/bench/device.h"

enum { GUARD = 64, PAGE = 4096, GRAIN = 64 };

/* Byte `at` of a row of bytes is row[at % 256], plus a number that changes every 256 bytes. Such a row is fast to write. */
typedef struct {
    unsigned char row[256];
    unsigned char step;
} pattern_t;

static pattern_t data_pattern(uint64_t key)
{
    pattern_t p = {.step = 59};
    for (int i = 0; i < 256; i++) {
        p.row[i] = (unsigned char)((key >> (3 * (i & 7))) + (unsigned)i * 167);
    }
    return p;
}

static pattern_t canary_pattern(uint64_t canary)
{
    pattern_t p = {.step = 1};
    for (int i = 0; i < 256; i++) {
        p.row[i] = (unsigned char)(canary + (unsigned)i * 131);
    }
    return p;
}

/* 16 bytes at once, without an optimizer that makes them of a loop. */
typedef unsigned char lanes_t __attribute__((vector_size(16), aligned(1)));

/* Bytes from `at` on. */
static void write_pattern(const pattern_t *p, unsigned char *to, long at, long bytes)
{
    while (bytes > 0) {
        long first = at & 255, n = 256 - first < bytes ? 256 - first : bytes, i = 0;
        const unsigned char *row = p->row + first;
        unsigned char add = (unsigned char)((at >> 8) * p->step);
        for (; i + (long)sizeof(lanes_t) <= n; i += (long)sizeof(lanes_t)) {
            *(lanes_t *)(to + i) = *(const lanes_t *)(row + i) + add;
        }
        for (; i < n; i++) {
            to[i] = (unsigned char)(row[i] + add);
        }
        to += n;
        at += n;
        bytes -= n;
    }
}

static long element_at(const buffer_t *b, const block_t *block, long element)
{
    return b->origin + block->at + element * block->type->extent;
}

/* Where the data of all blocks is, relative to the base. False if there is none. */
static bool span(const buffer_t *b, long *low, long *high)
{
    *low = LONG_MAX;
    *high = LONG_MIN;
    for (int i = 0; i < b->nblocks; i++) {
        const block_t *block = &b->blocks[i];
        if (block->elements > 0) {
            long first = element_at(b, block, 0) - b->origin + block->type->low;
            long last = element_at(b, block, block->elements - 1) - b->origin + block->type->high;
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

/* Memory whose last `used` bytes, a multiple of 8, end at a forbidden page. */
static void make_fenced(buffer_t *b, size_t used)
{
    b->mapped = (used + PAGE - 1) / PAGE * PAGE + PAGE;
    unsigned char *map = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->map = checked(map, b->mapped);
    mprotect(b->map + b->mapped - PAGE, PAGE, PROT_NONE);
    b->memory = b->map + b->mapped - PAGE - used;
}

/* Memory of another kind: the CPU can access it, or has a mirror of it. */
static unsigned char *make_kind(buffer_t *b)
{
    unsigned char *memory = memory_take(&b->kind, b->bytes, &b->from);
    if (memory_reachable(b->kind)) {
        return memory;
    }
    b->device = memory;
    return checked(malloc(b->bytes), b->bytes);
}

static void copy(const buffer_t *b, void *to, const void *from)
{
    if (b->kind != MEMORY_HOST) {
        memory_copy(to, from, b->bytes);
    } else {
        device_copy(to, from, b->bytes);
    }
}

/* At the begin of an allocation, or inside. */
static void move_to_device(buffer_t *b, rng_t *rng)
{
    size_t offset = rng_chance(rng, 40) ? 0 : (size_t)(GRAIN * rng_below(rng, 200));
    b->allocation = device_alloc(b->bytes + offset);
    b->device = b->allocation + offset;
    if (b->base != NULL) {
        b->base = b->device + b->origin;
    }
}

void buffer_make(buffer_t *b, int nblocks, block_t *blocks, int align, memory_kind_t kind, bool device, rng_t *rng)
{
    *b = (buffer_t){.nblocks = nblocks, .blocks = blocks, .canary = rng_next(rng), .filled = NO_BLOCKS};
    b->kind = kind;
    long low, high;
    bool empty = !span(b, &low, &high);
    if (empty) {
        low = high = 0;
    }
    long before = GUARD + rng_below(rng, 200), after = GUARD + rng_below(rng, 200);
    b->origin = low < 0 ? before - low : before;
    if (!empty && (kind == MEMORY_HOST ? rng_chance(rng, 20) : kind == MEMORY_END)) {
        /* The end of the data, rounded up to the alignment, is the end of the memory. */
        b->origin = (b->origin + 63) / 64 * 64;
        long end = b->origin + (high + align - 1) / align * align;
        long shift = (8 - end % 8) % 8; /* the end may be anywhere only without an alignment */
        b->origin += shift;
        b->bytes = (size_t)(end + shift);
        if (kind == MEMORY_HOST) {
            make_fenced(b, b->bytes);
        }
    } else {
        long grain = rng_chance(rng, 25) ? PAGE : align;
        b->origin = (b->origin + grain - 1) / grain * grain + (grain == PAGE ? 0 : grain * rng_below(rng, 16));
        b->bytes = (size_t)(b->origin + (high > 0 ? high : 0) + after);
        void *memory = NULL;
        if (kind == MEMORY_HOST) {
            b->memory = checked(posix_memalign(&memory, PAGE, b->bytes) == 0 ? memory : NULL, b->bytes);
        }
    }
    if (kind != MEMORY_HOST) {
        b->memory = make_kind(b);
    }
    b->base = empty && rng_chance(rng, 30) ? NULL : (b->device ? b->device : b->memory) + b->origin;
    if (device) {
        move_to_device(b, rng);
    }
}

void buffer_free(buffer_t *b)
{
    if (b->allocation != NULL) {
        device_free(b->allocation);
    }
    if (b->kind != MEMORY_HOST) {
        memory_give(b->kind, b->from);
    }
    if (b->map != NULL) {
        munmap(b->map, b->mapped);
    } else if (b->kind == MEMORY_HOST || !memory_reachable(b->kind)) {
        free(b->memory);
    }
    free(b->blocks);
    *b = (buffer_t){0};
}

static void paint_block(const buffer_t *b, const block_t *block, uint64_t key, unsigned char *to)
{
    pattern_t pattern = data_pattern(key);
    long position = 0;
    for (long element = 0; element < block->elements; element++) {
        unsigned char *origin = to + element_at(b, block, element);
        for (int i = 0; i < block->type->npieces; i++) {
            const piece_t *piece = &block->type->pieces[i];
            write_pattern(&pattern, origin + piece->at, position, piece->bytes);
            position += piece->bytes;
        }
    }
}

static void paint(const buffer_t *b, bool after, int round, unsigned char *to)
{
    pattern_t canary = canary_pattern(b->canary);
    write_pattern(&canary, to, 0, (long)b->bytes);
    for (int i = 0; i < b->nblocks; i++) {
        const block_t *block = &b->blocks[i];
        if (after || b->filled == i || b->filled == ALL_BLOCKS) {
            paint_block(b, block, mix(after ? block->after : block->before, (uint64_t)round), to);
        }
    }
}

void buffer_fill(buffer_t *b, int round)
{
    paint(b, false, round, b->memory);
    if (b->device != NULL) {
        copy(b, b->device, b->memory);
    }
}

void buffer_scribble(buffer_t *b)
{
    memset(b->memory, 0xEE, b->bytes);
    if (b->device != NULL) {
        copy(b, b->device, b->memory);
    }
}

/* Describes what is at a byte of the memory, for messages. */
static void name_byte(const buffer_t *b, long at, char *text, size_t room)
{
    for (int i = 0; i < b->nblocks; i++) {
        long position = 0;
        for (long element = 0; element < b->blocks[i].elements; element++) {
            for (int k = 0; k < b->blocks[i].type->npieces; k++) {
                const piece_t *piece = &b->blocks[i].type->pieces[k];
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

bool buffer_check(const buffer_t *b, bool after, int round, char *text, size_t room)
{
    static _Thread_local unsigned char *picture; /* kept, because fresh pages would cost more than the comparison */
    static _Thread_local size_t picture_bytes;
    if (b->bytes > picture_bytes) {
        free(picture);
        picture_bytes = b->bytes;
        picture = malloc(picture_bytes);
    }
    paint(b, after, round, picture);
    if (b->device != NULL) {
        copy(b, b->memory, b->device);
    }
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
