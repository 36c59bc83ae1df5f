/*
 * Elements, sizes of blocks, and data: see bench.h.
 *
 * Byte k of the data of the block from rank s to rank t is a function of s, t, k and the turn. For an all-gather, t is 0.
 * Before the call the receive buffer has a mark: in what must arrive, in the gaps of the datatype, and after the last block.
 * A large block is checked in windows that are spread over it. They include its first and last bytes.
 *
 *     memory of a block, for elements of 3 bytes with gaps:   d d - d | d d - d | d d - d        - has the mark
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"

enum { MARK = 0xa5, GUARD = 64, WINDOW = 65536, DEVICE_PAGE = 2 << 20 };

bool bench_element_make(bench_element_t *e, const char *type)
{
    static const int lengths[] = {8, 24, 16, 16}, places[] = {0, 16, 48, 80};
    MPI_Datatype inner;
    int n = 0;

    if (!strcmp(type, "byte")) {
        *e = (bench_element_t){.type = MPI_CHAR, .bytes = 1, .extent = 1};
        return true;
    }
    if (!strcmp(type, "vector")) {
        *e = (bench_element_t){.bytes = BENCH_MAP, .extent = 2 * BENCH_MAP};
        MPI_Type_contiguous(BENCH_MAP, MPI_CHAR, &inner);
        for (; n < BENCH_MAP; n++) {
            e->map[n] = (size_t)n;
        }
    } else if (!strcmp(type, "indexed")) {
        *e = (bench_element_t){.bytes = BENCH_MAP, .extent = 112};
        MPI_Type_indexed(4, lengths, places, MPI_CHAR, &inner);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < lengths[i]; k++) {
                e->map[n++] = (size_t)(places[i] + k);
            }
        }
    } else {
        return false;
    }
    MPI_Type_create_resized(inner, 0, (MPI_Aint)e->extent, &e->type);
    MPI_Type_free(&inner);
    MPI_Type_commit(&e->type);
    return true;
}

/* ---- memory ---- */

/* CUDA puts memory of other sizes on smaller pages: peers then write 64 MiB and more at three quarters of the speed. */
static size_t whole_pages(size_t bytes)
{
    return (bytes + DEVICE_PAGE - 1) / DEVICE_PAGE * DEVICE_PAGE;
}

void *bench_memory(const bench_t *b, size_t bytes)
{
    void *memory = NULL;

    if (b->device) {
        return device_alloc(whole_pages(bytes));
    }
    if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), bytes)) {
        bench_stop("there is no memory for %zu bytes", bytes);
    }
    memset(memory, 0, bytes);
    return memory;
}

void bench_memory_free(const bench_t *b, void *memory)
{
    if (b->device) {
        device_free(memory);
    } else {
        free(memory);
    }
}

static void copy(const bench_t *b, void *to, const void *from, size_t bytes)
{
    if (b->device) {
        device_copy(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
}

/* ---- sizes ---- */

/* Elements of a block. With a skew they change with the sum of the ranks, in equal steps. The average over all ranks is
 * the number of elements without skew. A block has the same size in both directions, as a call in place requires. */
static int elements(const bench_t *b, const bench_cell_t *cell, int index)
{
    double n = (double)(cell->bytes / b->element.bytes), away = 0;

    if (cell->op->v && b->size > 1) {
        away = (2.0 * index / (b->size - 1) - 1) * b->o.skew / 100;
    }
    return (int)(n * (1 + away) + 0.5);
}

/* Of the block that rank `from` sends to rank `to`. */
static int block_elements(const bench_t *b, const bench_cell_t *cell, int from, int to)
{
    return elements(b, cell, cell->op->to_each ? (from + to) % b->size : from);
}

static size_t all_elements(const bench_t *b, const bench_cell_t *cell)
{
    size_t n = 0;

    for (int r = 0; r < b->size; r++) {
        n += (size_t)block_elements(b, cell, r, b->rank);
    }
    return n;
}

void bench_buffers_make(bench_t *b)
{
    for (int i = 0; i < b->ncells; i++) {
        size_t all = all_elements(b, &b->cells[i]) * b->element.extent;

        b->recv_room = all > b->recv_room ? all : b->recv_room;
    }
    /* what is sent is not longer, and both ends are equal */
    b->recv_room += GUARD;
    b->send_room = b->recv_room;
    b->counts = bench_array(4 * (size_t)b->size, sizeof(int));
    b->send = bench_memory(b, b->send_room);
    b->recv = bench_memory(b, b->recv_room);
}

void bench_buffers_free(bench_t *b)
{
    bench_memory_free(b, b->send);
    bench_memory_free(b, b->recv);
    free(b->counts);
    if (b->element.bytes > 1) {
        MPI_Type_free(&b->element.type);
    }
}

void bench_call_layout(bench_t *b, const bench_cell_t *cell, bench_call_t *call)
{
    int sent = 0, received = 0;

    *call = (bench_call_t){.op = cell->op,
                           .type = b->element.type,
                           .send = b->o.in_place ? MPI_IN_PLACE : b->send,
                           .recv = b->recv,
                           .count = block_elements(b, cell, b->rank, 0),
                           .send_counts = b->counts,
                           .send_displs = b->counts + b->size,
                           .recv_counts = b->counts + 2 * b->size,
                           .recv_displs = b->counts + 3 * b->size};
    for (int r = 0; r < b->size; r++) {
        call->send_counts[r] = block_elements(b, cell, b->rank, r);
        call->recv_counts[r] = block_elements(b, cell, r, b->rank);
        call->send_displs[r] = sent;
        call->recv_displs[r] = received;
        sent += cell->op->to_each ? call->send_counts[r] : 0;
        received += call->recv_counts[r];
    }
}

/* ---- contents ---- */

static uint32_t word(int from, int to, size_t at, unsigned turn)
{
    uint64_t x = ((uint64_t)from << 52 ^ (uint64_t)to << 40 ^ (uint64_t)turn << 34 ^ at) * UINT64_C(0x9e3779b97f4a7c15);

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}

typedef struct block {
    int from, to;
    size_t count; /* elements */
} block_t;

/* The expected memory of n elements of a block, from element `first` on. */
static void draw(const bench_element_t *e, const block_t *block, unsigned turn, size_t first, size_t n, uint8_t *image)
{
    uint32_t w = 0;

    if (e->extent > e->bytes) {
        memset(image, MARK, n * e->extent);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < e->bytes; k++) {
            size_t at = (first + i) * e->bytes + k;

            if (at % 4 == 0 || (i == 0 && k == 0)) {
                w = word(block->from, block->to, at / 4, turn);
            }
            image[i * e->extent + e->map[k]] = (uint8_t)(w >> 8 * (at % 4));
        }
    }
}

/* Window `i` of a block: its first element and its length. 0: there are no more. */
static size_t window(const bench_element_t *e, size_t count, size_t i, size_t *first)
{
    size_t full = WINDOW / e->extent, windows = (count + full - 1) / full;

    if (windows <= BENCH_PIECES) {
        *first = i * full;
        return i >= windows ? 0 : count - *first < full ? count - *first : full;
    }
    *first = (count - full) / (BENCH_PIECES - 1) * i;
    *first = i == BENCH_PIECES - 1 ? count - full : *first;
    return i < BENCH_PIECES ? full : 0;
}

/* Writes the windows of a block, or the mark. */
static void put(const bench_t *b, char *to, const block_t *block, unsigned turn, bool mark)
{
    static uint8_t image[WINDOW];
    size_t first, n;

    for (size_t i = 0; (n = window(&b->element, block->count, i, &first)); i++) {
        if (mark) {
            memset(image, MARK, n * b->element.extent);
        } else {
            draw(&b->element, block, turn, first, n, image);
        }
        copy(b, to + first * b->element.extent, image, n * b->element.extent);
    }
}

/* The block that this rank sends to rank `to`, or, in an all-gather, to all. */
static block_t sent(const bench_t *b, const bench_call_t *call, int to)
{
    return (block_t){b->rank, call->op->to_each ? to : 0, (size_t)call->send_counts[to]};
}

static char *place(const bench_t *b, char *buffer, const int *displs, int r)
{
    return buffer + (size_t)displs[r] * b->element.extent;
}

static char *end_of(const bench_t *b, const bench_call_t *call)
{
    int last = b->size - 1;

    return place(b, call->recv, call->recv_displs, last) + (size_t)call->recv_counts[last] * b->element.extent;
}

void bench_data_fill(const bench_t *b, const bench_call_t *call, unsigned turn)
{
    bool in_place = call->send == MPI_IN_PLACE, each = call->op->to_each;
    uint8_t guard[GUARD];

    memset(guard, MARK, sizeof(guard));
    copy(b, end_of(b, call), guard, GUARD);
    for (int r = 0; r < b->size; r++) {
        block_t block = {r, b->rank, (size_t)call->recv_counts[r]};

        put(b, place(b, call->recv, call->recv_displs, r), &block, turn, true);
    }
    for (int r = 0; r < b->size; r++) {
        block_t block = sent(b, call, r);

        if (in_place && (each || r == b->rank)) {
            put(b, place(b, call->recv, call->recv_displs, r), &block, turn, false);
        } else if (!in_place && (each || r == 0)) {
            put(b, place(b, (char *)call->send, call->send_displs, r), &block, turn, false);
        }
    }
}

static bool same(const uint8_t *found, const uint8_t *wanted, size_t bytes, size_t *at)
{
    for (*at = 0; *at < bytes && found[*at] == wanted[*at]; ++*at) {
    }
    return *at == bytes;
}

static bool block_right(const bench_t *b, const bench_call_t *call, unsigned turn, int from, const char *side)
{
    static uint8_t image[WINDOW], found[WINDOW];
    const bench_element_t *e = &b->element;
    block_t block = {from, call->op->to_each ? b->rank : 0, (size_t)call->recv_counts[from]};
    const char *memory = place(b, call->recv, call->recv_displs, from);
    size_t first, n, at;

    for (size_t i = 0; (n = window(e, block.count, i, &first)); i++) {
        draw(e, &block, turn, first, n, image);
        copy(b, found, memory + first * e->extent, n * e->extent);
        if (!same(found, image, n * e->extent, &at)) {
            fprintf(stderr,
                    "coll_dma_bench: rank %d: %s: %s: wrong data: byte %zu of the block of rank %d is %u, not %u\n",
                    b->rank, side, call->op->name, first * e->extent + at, from, found[at], image[at]);
            return false;
        }
    }
    return true;
}

bool bench_data_check(const bench_t *b, const bench_call_t *call, unsigned turn, const char *side)
{
    uint8_t guard[GUARD];
    bool right = true;

    for (int r = 0; r < b->size; r++) {
        right &= block_right(b, call, turn, r, side);
    }
    copy(b, guard, end_of(b, call), GUARD);
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != MARK) {
            fprintf(stderr, "coll_dma_bench: rank %d: %s: %s: byte %d behind the receive buffer has changed\n", b->rank,
                    side, call->op->name, i);
            return false;
        }
    }
    return right;
}
