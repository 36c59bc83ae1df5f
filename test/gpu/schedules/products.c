/*
 * Products with one collective: see schedules.h.
 *
 *   gather     Rows of all ranks are gathered, and multiplied by this rank's columns of the weights:
 *              (n x n) (n x n/ranks), of which this rank has n/ranks rows before.
 *   exchange   A product of this rank's part of the inner dimension, whose rows go to the ranks that add them up (the sum is
 *              not part of it): (n x n/ranks) (n/ranks x n), of which each rank receives n/ranks rows of every rank.
 */
#include "test/gpu/schedules/schedules.h"

static struct {
    size_t n, rows; /* of all ranks, of one */
    char *x, *w, *y;
} p;

enum { WRONG_SEED = 999, WEIGHTS_SEED = 100 };

static size_t bytes(size_t values)
{
    return values * sched.bytes;
}

static bool size(const long *arguments)
{
    p.n = (size_t)arguments[0];
    p.rows = p.n / (size_t)sched.ranks;
    return p.n > 0 && p.n % (size_t)(sched.ranks * SCHED_SLICES) == 0;
}

static bool divides(int slices)
{
    return p.rows % (size_t)slices == 0;
}

static size_t slice_of(const sched_variant_t *v)
{
    return p.rows / (size_t)v->slices * p.n;
}

static void nothing(const sched_variant_t *v)
{
    (void)v;
}

/* ---- gather ---- */

static void gather_rooms(size_t *send, size_t *recv)
{
    *send = p.rows * p.n;
    *recv = p.n * p.n;
}

static void gather_open(void)
{
    p.w = sched_alloc(p.n * p.rows);
    p.y = sched_alloc(p.n * p.rows);
    sched_fill(p.w, p.n * p.rows, WEIGHTS_SEED + sched.rank);
    sched_expect_room(p.n * p.rows);
}

static void gather_close(void)
{
    sched_release(p.w);
    sched_release(p.y);
}

static void gather_calls(sched_variant_t *v)
{
    size_t slice = bytes(slice_of(v));

    for (int c = 0; c < v->slices; c++) {
        v->first[c] = (sched_call_t){.op = SCHED_GATHER,
                                     .send = v->side->send + (size_t)c * slice,
                                     .recv = v->side->recv + (size_t)(c * sched.ranks) * slice,
                                     .bytes = slice};
    }
}

static void gather_fill(const sched_variant_t *v)
{
    sched_fill(v->side->send, p.rows * p.n, sched.rank);
    sched_fill(v->side->recv, p.n * p.n, WRONG_SEED);
    sched_fill(p.y, p.n * p.rows, WRONG_SEED);
}

static void multiply_rows(const char *x, size_t first, size_t rows)
{
    sched_multiply(p.y + bytes(first * p.rows), x, p.w, (long)rows, (long)p.n, (long)p.rows, NULL);
}

static void gather_whole(const sched_variant_t *v)
{
    multiply_rows(v->side->recv, 0, p.n);
}

static void gather_own(const sched_variant_t *v, bool before)
{
    multiply_rows(v->side->send, (size_t)sched.rank * p.rows, before ? p.rows : 0);
}

static void gather_slice(const sched_variant_t *v, int c)
{
    size_t rows = p.rows / (size_t)v->slices;

    for (int r = 0; r < sched.ranks; r++) {
        if (r != sched.rank) {
            multiply_rows(v->side->recv + sched_at(v, r, c) * bytes(slice_of(v)), (size_t)r * p.rows + (size_t)c * rows,
                          rows);
        }
    }
}

static void gather_reference(const sched_side_t *side)
{
    for (int r = 0; r < sched.ranks; r++) {
        sched_fill(side->recv + bytes((size_t)r * p.rows * p.n), p.rows * p.n, r);
    }
    multiply_rows(side->recv, 0, p.n);
    sched_expect(0, p.y, p.n * p.rows);
}

static void gather_result(const sched_variant_t *v)
{
    (void)v;
    sched_compare(0, p.y, p.n * p.rows);
}

const sched_work_t sched_gather = {.name = "gather",
                                   .arguments = "n",
                                   .has_first = true,
                                   .partitions = true,
                                   .size = size,
                                   .divides = divides,
                                   .rooms = gather_rooms,
                                   .open = gather_open,
                                   .close = gather_close,
                                   .calls = gather_calls,
                                   .fill = gather_fill,
                                   .whole = gather_whole,
                                   .own = gather_own,
                                   .slice = gather_slice,
                                   .finish = nothing,
                                   .reference = gather_reference,
                                   .result = gather_result,
                                   .tolerance = 0};

/* ---- exchange: y is in the memory that is sent ---- */

static bool exchange_divides(int slices)
{
    return slices > 1 && divides(slices);
}

static void exchange_rooms(size_t *send, size_t *recv)
{
    *send = *recv = p.n * p.n;
}

static void fill_factors(int rank)
{
    sched_fill(p.x, p.n * p.rows, rank);
    sched_fill(p.w, p.n * p.rows, WEIGHTS_SEED + rank);
}

static void exchange_open(void)
{
    p.x = sched_alloc(p.n * p.rows);
    p.w = sched_alloc(p.n * p.rows);
    sched_expect_room(p.n * p.n);
}

static void exchange_close(void)
{
    sched_release(p.x);
    sched_release(p.w);
}

static void exchange_calls(sched_variant_t *v)
{
    size_t slice = bytes(slice_of(v));

    for (int c = 0; c < v->slices; c++) {
        size_t at = (size_t)(c * sched.ranks) * slice;

        v->second[c] = (sched_call_t){
            .op = SCHED_EXCHANGE, .send = v->side->send + at, .recv = v->side->recv + at, .bytes = slice};
    }
}

static void exchange_fill(const sched_variant_t *v)
{
    fill_factors(sched.rank);
    sched_fill(v->side->send, p.n * p.n, WRONG_SEED);
    sched_fill(v->side->recv, p.n * p.n, WRONG_SEED);
}

static void exchange_whole(const sched_variant_t *v)
{
    sched_multiply(v->side->send, p.x, p.w, (long)p.n, (long)p.rows, (long)p.n, NULL);
}

static void exchange_own(const sched_variant_t *v, bool before)
{
    (void)v, (void)before;
}

/* These rows of the blocks for all ranks. */
static void exchange_slice(const sched_variant_t *v, int c)
{
    size_t rows = p.rows / (size_t)v->slices, slice = slice_of(v);
    sched_batch_t batches = {sched.ranks, p.rows * p.rows, (sched_at(v, 1, c) - sched_at(v, 0, c)) * slice};

    sched_multiply(v->side->send + bytes(sched_at(v, 0, c) * slice), p.x + bytes((size_t)c * rows * p.rows), p.w,
                   (long)rows, (long)p.rows, (long)p.n, &batches);
}

static void exchange_reference(const sched_side_t *side)
{
    size_t block = p.rows * p.n;

    for (int r = 0; r < sched.ranks; r++) {
        fill_factors(r);
        sched_multiply(side->send, p.x + bytes((size_t)sched.rank * p.rows * p.rows), p.w, (long)p.rows, (long)p.rows,
                       (long)p.n, NULL);
        sched_expect((size_t)r * block, side->send, block);
    }
}

static void exchange_result(const sched_variant_t *v)
{
    size_t slice = slice_of(v);

    for (int r = 0; r < sched.ranks; r++) {
        for (int c = 0; c < v->slices; c++) {
            sched_compare((size_t)(r * v->slices + c) * slice, v->side->recv + bytes(sched_at(v, r, c) * slice), slice);
        }
    }
}

const sched_work_t sched_exchange = {.name = "exchange",
                                     .arguments = "n",
                                     .has_second = true,
                                     .partitions = true,
                                     .size = size,
                                     .divides = exchange_divides,
                                     .rooms = exchange_rooms,
                                     .open = exchange_open,
                                     .close = exchange_close,
                                     .calls = exchange_calls,
                                     .fill = exchange_fill,
                                     .whole = exchange_whole,
                                     .own = exchange_own,
                                     .slice = exchange_slice,
                                     .finish = nothing,
                                     .reference = exchange_reference,
                                     .result = exchange_result,
                                     .tolerance = 0};
