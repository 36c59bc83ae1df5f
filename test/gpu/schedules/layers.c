/*
 * Layers of two products between two collectives, with the shapes of examples/transformer.c and examples/moe.c: see schedules.h.
 * Functions between the products (ReLU, norms) are left out, because cuBLAS has none.
 *
 *   transformer   Each rank has the rows of its tokens, gathers those of all, and multiplies them by its part of both weight
 *                 matrices. The partial results go to the ranks of the tokens, which add them up.
 *   moe           Rows of tokens go to the ranks of their experts, with counts that differ, are multiplied by both matrices of
 *                 the expert, and come back. All ranks know the counts.
 */
#include "test/gpu/schedules/schedules.h"

enum { WRONG_SEED = 999, WEIGHTS_SEED = 100 };

static struct {
    size_t rows, width, hidden; /* of a rank's tokens; of a row; between the products */
    char *w1, *w2, *between, *own;
} l;

static size_t bytes(size_t values)
{
    return values * sched.bytes;
}

/* `expert`: whose weights, among those of this rank */
static void two_products(char *y, const char *x, size_t rows, size_t expert)
{
    size_t weights = bytes(expert * l.width * l.hidden);

    sched_multiply(l.between, x, l.w1 + weights, (long)rows, (long)l.width, (long)l.hidden, NULL);
    sched_multiply(y, l.between, l.w2 + weights, (long)rows, (long)l.hidden, (long)l.width, NULL);
}

static void fill_weights(int rank, size_t experts)
{
    sched_fill(l.w1, experts * l.width * l.hidden, WEIGHTS_SEED + 2 * rank);
    sched_fill(l.w2, experts * l.width * l.hidden, WEIGHTS_SEED + 2 * rank + 1);
}

static void make(size_t experts, size_t most_rows)
{
    l.w1 = sched_alloc(experts * l.width * l.hidden);
    l.w2 = sched_alloc(experts * l.width * l.hidden);
    l.between = sched_alloc(most_rows * l.hidden);
    l.own = sched_alloc(l.rows * l.width);
    fill_weights(sched.rank, experts);
    sched_expect_room(l.rows * l.width);
}

static void layer_close(void)
{
    sched_release(l.w1);
    sched_release(l.w2);
    sched_release(l.between);
    sched_release(l.own);
}

/* ---- transformer. Sent: the own rows, then partial results. Received: all rows, then partial results. ---- */

static bool transformer_size(const long *arguments)
{
    l.rows = (size_t)(arguments[0] / sched.ranks);
    l.width = (size_t)arguments[1];
    l.hidden = (size_t)(arguments[2] / sched.ranks);
    return l.rows && l.width && l.hidden && l.rows % (2 * SCHED_SLICES) == 0;
}

static bool transformer_divides(int slices)
{
    return l.rows % (size_t)slices == 0;
}

static size_t block(void)
{
    return l.rows * l.width;
}

static void transformer_rooms(size_t *send, size_t *recv)
{
    *send = block() * (size_t)(1 + sched.ranks);
    *recv = block() * (size_t)(2 * sched.ranks);
}

static void transformer_open(void)
{
    make(1, l.rows * (size_t)sched.ranks);
}

static char *partial(const sched_variant_t *v, size_t values)
{
    return v->side->send + bytes(block() + values);
}

static char *parts(const sched_variant_t *v, size_t values)
{
    return v->side->recv + bytes(block() * (size_t)sched.ranks + values);
}

static void transformer_calls(sched_variant_t *v)
{
    size_t slice = block() / (size_t)v->slices;

    for (int c = 0; c < v->slices; c++) {
        size_t at = (size_t)(c * sched.ranks) * slice;

        v->first[c] = (sched_call_t){.op = SCHED_GATHER,
                                     .send = v->side->send + bytes((size_t)c * slice),
                                     .recv = v->side->recv + bytes(at),
                                     .bytes = bytes(slice)};
        v->second[c] =
            (sched_call_t){.op = SCHED_EXCHANGE, .send = partial(v, at), .recv = parts(v, at), .bytes = bytes(slice)};
    }
}

static void transformer_fill(const sched_variant_t *v)
{
    size_t all = block() * (size_t)sched.ranks;

    sched_fill(v->side->send, block(), sched.rank);
    sched_fill(partial(v, 0), all, WRONG_SEED);
    sched_fill(v->side->recv, 2 * all, WRONG_SEED);
    sched_fill(l.own, block(), WRONG_SEED);
}

static void transformer_whole(const sched_variant_t *v)
{
    two_products(partial(v, 0), v->side->recv, l.rows * (size_t)sched.ranks, 0);
}

static void transformer_own(const sched_variant_t *v, bool before)
{
    size_t half = bytes(block() / 2), at = before ? 0 : half;

    two_products(l.own + at, v->side->send + at, l.rows / 2, 0);
}

static void transformer_slice(const sched_variant_t *v, int c)
{
    size_t slice = block() / (size_t)v->slices;

    for (int r = 0; r < sched.ranks; r++) {
        size_t at = sched_at(v, r, c) * slice;

        if (r != sched.rank) {
            two_products(partial(v, at), v->side->recv + bytes(at), l.rows / (size_t)v->slices, 0);
        }
    }
}

/* The own part of the sum is where its products have put it. */
static char *sum_of(const sched_variant_t *v)
{
    return v->way == SCHED_WHOLE ? partial(v, (size_t)sched.rank * block()) : l.own;
}

static void transformer_finish(const sched_variant_t *v)
{
    size_t slice = block() / (size_t)v->slices;

    for (int c = 0; c < v->slices; c++) {
        for (int r = 0; r < sched.ranks; r++) {
            if (r != sched.rank) {
                sched_add(sum_of(v) + bytes((size_t)c * slice), parts(v, sched_at(v, r, c) * slice), slice);
            }
        }
    }
}

static void transformer_reference(const sched_side_t *side)
{
    char *term = side->send + bytes(block());

    for (int r = 0; r < sched.ranks; r++) {
        fill_weights(r, 1);
        two_products(r ? term : l.own, side->send, l.rows, 0);
        if (r) {
            sched_add(l.own, term, block());
        }
    }
    sched_expect(0, l.own, block());
    fill_weights(sched.rank, 1);
}

static void transformer_result(const sched_variant_t *v)
{
    sched_compare(0, sum_of(v), block());
}

const sched_work_t sched_transformer = {.name = "transformer",
                                        .arguments = "tokens x width x hidden",
                                        .has_first = true,
                                        .has_second = true,
                                        .size = transformer_size,
                                        .divides = transformer_divides,
                                        .rooms = transformer_rooms,
                                        .open = transformer_open,
                                        .close = layer_close,
                                        .calls = transformer_calls,
                                        .fill = transformer_fill,
                                        .whole = transformer_whole,
                                        .own = transformer_own,
                                        .slice = transformer_slice,
                                        .finish = transformer_finish,
                                        .reference = transformer_reference,
                                        .result = transformer_result,
                                        .tolerance = 0.1};

/*
 * ---- moe ----
 *
 * Rows are sorted by rank and then by expert, on both sides of the first collective, and come back in the same places.
 *
 *     send   own rows to all experts        results of the own experts, for all ranks
 *     recv   rows for the own experts       results of the own rows
 */

static struct {
    int experts;   /* of each rank */
    size_t to_own; /* rows that experts of a rank receive, at most */
    /* Rows from, to, expert. */
    size_t count[SCHED_RANKS][SCHED_RANKS][SCHED_EXPERTS];
} moe;

/* Experts with smaller numbers get more: the first one about three times as much as the last one. */
static void count_rows(int from)
{
    int all = sched.ranks * moe.experts;
    size_t weights[SCHED_RANKS * SCHED_EXPERTS], sum = 0, left = l.rows;

    for (int e = 0; e < all; e++) {
        weights[e] = (size_t)((3 * all - 2 * e) * (8 + (from * 5 + e * 3) % 5));
        sum += weights[e];
    }
    for (int e = all - 1; e >= 0; e--) {
        size_t rows = e ? l.rows * weights[e] / sum : left;

        moe.count[from][e / moe.experts][e % moe.experts] = rows;
        left -= rows;
    }
}

static bool moe_size(const long *arguments)
{
    l.rows = (size_t)arguments[0];
    l.width = (size_t)arguments[1];
    l.hidden = (size_t)arguments[2];
    moe.experts = (int)arguments[3];
    moe.to_own = 0;
    if (!l.rows || !l.width || !l.hidden || moe.experts < 2 || moe.experts > SCHED_EXPERTS) {
        return false;
    }
    for (int r = 0; r < sched.ranks; r++) {
        count_rows(r);
    }
    for (int to = 0; to < sched.ranks; to++) {
        size_t sum = 0;

        for (int from = 0; from < sched.ranks; from++) {
            for (int e = 0; e < moe.experts; e++) {
                sum += moe.count[from][to][e];
            }
        }
        moe.to_own = sum > moe.to_own ? sum : moe.to_own;
    }
    return true;
}

static bool moe_divides(int slices)
{
    return moe.experts % slices == 0;
}

static void moe_rooms(size_t *send, size_t *recv)
{
    *send = *recv = (l.rows + moe.to_own) * l.width;
}

static void moe_open(void)
{
    make((size_t)moe.experts, moe.to_own > l.rows ? moe.to_own : l.rows);
}

/* Values before those of an expert of a rank, among all that this rank sends. */
static size_t sent_at(int to, int expert)
{
    size_t rows = 0;

    for (int r = 0; r <= to; r++) {
        for (int e = 0; e < (r < to ? moe.experts : expert); e++) {
            rows += moe.count[sched.rank][r][e];
        }
    }
    return rows * l.width;
}

/* The same of a rank, among all that this rank's experts receive. */
static size_t received_at(int from, int expert)
{
    size_t rows = 0;

    for (int r = 0; r <= from; r++) {
        for (int e = 0; e < (r < from ? moe.experts : expert); e++) {
            rows += moe.count[r][sched.rank][e];
        }
    }
    return rows * l.width;
}

static char *results(const sched_side_t *side, size_t values)
{
    return side->send + bytes(l.rows * l.width + values);
}

static char *back(const sched_side_t *side, size_t values)
{
    return side->recv + bytes(moe.to_own * l.width + values);
}

static void moe_calls(sched_variant_t *v)
{
    int each = moe.experts / v->slices;

    for (int c = 0; c < v->slices; c++) {
        sched_call_t *there = &v->first[c], *home = &v->second[c];

        *there = (sched_call_t){.op = SCHED_EXCHANGE_V, .send = v->side->send, .recv = v->side->recv};
        *home = (sched_call_t){.op = SCHED_EXCHANGE_V, .send = results(v->side, 0), .recv = back(v->side, 0)};
        for (int r = 0; r < sched.ranks; r++) {
            bool sends = r != sched.rank || v->way == SCHED_WHOLE;
            size_t at = sent_at(r, c * each), from = received_at(r, c * each);

            there->v.send_at[r] = home->v.recv_at[r] = (int)bytes(at);
            there->v.recv_at[r] = home->v.send_at[r] = (int)bytes(from);
            if (sends) {
                there->v.send[r] = home->v.recv[r] = (int)bytes(sent_at(r, (c + 1) * each) - at);
                there->v.recv[r] = home->v.send[r] = (int)bytes(received_at(r, (c + 1) * each) - from);
            }
        }
    }
}

static void moe_fill(const sched_variant_t *v)
{
    size_t all = (l.rows + moe.to_own) * l.width;

    sched_fill(v->side->send, l.rows * l.width, sched.rank);
    sched_fill(results(v->side, 0), moe.to_own * l.width, WRONG_SEED);
    sched_fill(v->side->recv, all, WRONG_SEED);
}

static void experts_of_rank(const sched_variant_t *v, int from, int first, int last)
{
    for (int e = first; e < last; e++) {
        size_t at = received_at(from, e);

        two_products(results(v->side, at), v->side->recv + bytes(at), moe.count[from][sched.rank][e], (size_t)e);
    }
}

static void moe_whole(const sched_variant_t *v)
{
    for (int r = 0; r < sched.ranks; r++) {
        experts_of_rank(v, r, 0, moe.experts);
    }
}

/* The own rows are not sent: they are multiplied where they are, and their results are where they would come back. */
static void moe_own(const sched_variant_t *v, bool before)
{
    int half = moe.experts / 2;

    for (int e = before ? 0 : half; e < (before ? half : moe.experts); e++) {
        size_t at = sent_at(sched.rank, e);

        two_products(back(v->side, at), v->side->send + bytes(at), moe.count[sched.rank][sched.rank][e], (size_t)e);
    }
}

static void moe_slice(const sched_variant_t *v, int c)
{
    int each = moe.experts / v->slices;

    for (int r = 0; r < sched.ranks; r++) {
        if (r != sched.rank) {
            experts_of_rank(v, r, c * each, (c + 1) * each);
        }
    }
}

static void moe_finish(const sched_variant_t *v)
{
    (void)v;
}

static void moe_reference(const sched_side_t *side)
{
    for (int r = 0; r < sched.ranks; r++) {
        fill_weights(r, (size_t)moe.experts);
        for (int e = 0; e < moe.experts; e++) {
            size_t at = sent_at(r, e);

            two_products(back(side, at), side->send + bytes(at), moe.count[sched.rank][r][e], (size_t)e);
        }
        sched_synchronize();
    }
    sched_expect(0, back(side, 0), l.rows * l.width);
    fill_weights(sched.rank, (size_t)moe.experts);
}

static void moe_result(const sched_variant_t *v)
{
    sched_compare(0, back(v->side, 0), l.rows * l.width);
}

const sched_work_t sched_moe = {.name = "moe",
                                .arguments = "rows x width x hidden x experts",
                                .has_first = true,
                                .has_second = true,
                                .size = moe_size,
                                .divides = moe_divides,
                                .rooms = moe_rooms,
                                .open = moe_open,
                                .close = layer_close,
                                .calls = moe_calls,
                                .fill = moe_fill,
                                .whole = moe_whole,
                                .own = moe_own,
                                .slice = moe_slice,
                                .finish = moe_finish,
                                .reference = moe_reference,
                                .result = moe_result,
                                .tolerance = 0.1};
