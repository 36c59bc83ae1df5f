/* Who enters a call with device memory how, and how the ranks carry it out (device/decide.h): every combination of facts against
 * tables whose rows exclude each other, so that each combination has one row. */
#include "device/decide.h"
#include "libunit.h"

/* 0, 1, or ANY. In the column of votes: dma_vote_t, or ANY. */
#define ANY (-1)

static bool fits(int want, int is)
{
    return want == ANY || want == is;
}

/* ---- how a rank enters ---- */

typedef struct offer_row {
    int prepares, joins, served, rows, state, ready, slots;
    dma_offer_t offer;
} offer_row_t;

/* clang-format off */
static const offer_row_t offers[] = {
    /* prepares joins served rows state ready slots */
    {0, 1, ANY, ANY, 1,   ANY, ANY, DMA_OFFER_JOIN},
    {0, 1, ANY, ANY, 0,   ANY, ANY, DMA_OFFER_DATA},
    {0, 0, 1,   ANY, 1,   1,   ANY, DMA_OFFER_ENGINE},
    {0, 0, 1,   ANY, 1,   0,   1,   DMA_OFFER_SLOTS},
    {0, 0, 1,   ANY, 1,   0,   0,   DMA_OFFER_DATA},
    {0, 0, 1,   ANY, 0,   ANY, ANY, DMA_OFFER_DATA},
    {0, 0, 0,   1,   1,   ANY, 1,   DMA_OFFER_SLOTS},
    {0, 0, 0,   1,   1,   ANY, 0,   DMA_OFFER_DATA},
    {0, 0, 0,   1,   0,   ANY, ANY, DMA_OFFER_DATA},
    {0, 0, 0,   0,   ANY, ANY, ANY, DMA_OFFER_DATA},
    {1, ANY, ANY, ANY, ANY, 1,   ANY, DMA_OFFER_PREPARE},
    {1, ANY, ANY, ANY, ANY, 0,   ANY, DMA_OFFER_NOTHING},
};
/* clang-format on */

START_TEST(offer)
{
    for (int i = 0; i < 1 << 7; i++) {
        dma_facts_t f = {i & 64, i & 1, i & 2, i & 4, i & 8, i & 16, i & 32};
        const offer_row_t *row = NULL;
        int found = 0;

        for (const offer_row_t *o = offers; o < offers + sizeof(offers) / sizeof(offers[0]); o++) {
            if (fits(o->prepares, f.prepares) && fits(o->joins, f.joins) && fits(o->served, f.served) &&
                fits(o->rows, f.rows) && fits(o->state, f.state) && fits(o->ready, f.ready) &&
                fits(o->slots, f.slots)) {
                row = o;
                found++;
            }
        }
        ck_assert_msg(found == 1, "%d rows for facts %#x", found, (unsigned)i);
        ck_assert_msg(dma_device_offer(&f) == row->offer, "facts %#x: offer %d, not %d", (unsigned)i,
                      (int)dma_device_offer(&f), (int)row->offer);
    }
}
END_TEST

/* ---- how the ranks carry the call out ---- */

typedef struct mode_row {
    int data, joined, device, slots, repeats, vote, fresh, shapes, piece;
    dma_mode_t mode;
    dma_reason_t why;
} mode_row_t;

/* clang-format off */
static const mode_row_t modes[] = {
    /* data joined device slots repeats vote fresh shapes piece */
    {1, ANY, ANY, ANY, ANY, ANY,           ANY, ANY, ANY, DMA_MODE_HOST,   DMA_REASON_staged_peer},
    {0, 1,   0,   ANY, ANY, ANY,           ANY, ANY, ANY, DMA_MODE_HOST,   DMA_REASON_staged_peer},
    {0, 1,   1,   1,   ANY, ANY,           ANY, ANY, ANY, DMA_MODE_SLOTS,  DMA_REASON_staged_peer},
    {0, 0,   ANY, 1,   ANY, ANY,           ANY, ANY, ANY, DMA_MODE_SLOTS,  DMA_REASON_staged_peer},
    /* a rank that has joined has published SLOTS; the rest of its rows is what the function does all the same */
    {0, 1,   1,   0,   1,   ANY,           ANY, ANY, ANY, DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 0,   ANY, 0,   1,   ANY,           ANY, ANY, ANY, DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_NO,   ANY, ANY, ANY, DMA_MODE_SLOTS,  DMA_REASON_staged_peer},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_NO,   ANY, ANY, ANY, DMA_MODE_SLOTS,  DMA_REASON_staged_peer},
    {0, 1,   1,   0,   0,   DMA_VOTE_NONE, 1,   ANY, ANY, DMA_MODE_VOTE,   DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_NONE, 1,   ANY, ANY, DMA_MODE_VOTE,   DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_NONE, 0,   0,   ANY, DMA_MODE_VOTE,   DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_NONE, 0,   0,   ANY, DMA_MODE_VOTE,   DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_NONE, 0,   1,   0,   DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_NONE, 0,   1,   0,   DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_NONE, 0,   1,   1,   DMA_MODE_PIECES, DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_NONE, 0,   1,   1,   DMA_MODE_PIECES, DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_YES,  ANY, 0,   ANY, DMA_MODE_HOST,   DMA_REASON_staged_type},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_YES,  ANY, 0,   ANY, DMA_MODE_HOST,   DMA_REASON_staged_type},
    {0, 1,   1,   0,   0,   DMA_VOTE_YES,  ANY, 1,   0,   DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_YES,  ANY, 1,   0,   DMA_MODE_ENGINE, DMA_REASON_NONE},
    {0, 1,   1,   0,   0,   DMA_VOTE_YES,  ANY, 1,   1,   DMA_MODE_PIECES, DMA_REASON_NONE},
    {0, 0,   ANY, 0,   0,   DMA_VOTE_YES,  ANY, 1,   1,   DMA_MODE_PIECES, DMA_REASON_NONE},
};
/* clang-format on */

static bool row_fits(const mode_row_t *row, const dma_census_t *c)
{
    return fits(row->data, c->data) && fits(row->joined, c->joined) && fits(row->device, c->device) &&
           fits(row->slots, c->slots) && fits(row->repeats, c->repeats) && fits(row->vote, (int)c->vote) &&
           fits(row->fresh, c->fresh) && fits(row->shapes, c->shapes) && fits(row->piece, c->piece != 0);
}

/* The call of *_init: its starts are prepared if engines would carry the call out between the users' buffers. */
static void check_init(dma_census_t c, dma_mode_t mode)
{
    dma_mode_t wanted = mode == DMA_MODE_VOTE     ? DMA_MODE_VOTE
                        : mode == DMA_MODE_ENGINE ? DMA_MODE_PREPARE
                                                  : DMA_MODE_NOTHING;
    dma_decision_t decision;

    c.prepares = true;
    decision = dma_device_decide(&c);
    ck_assert_int_eq(decision.mode, wanted);
    ck_assert_int_eq(decision.why, wanted == DMA_MODE_NOTHING ? DMA_REASON_unprepared : DMA_REASON_NONE);
}

START_TEST(decide)
{
    for (int i = 0; i < 3 << 8; i++) {
        dma_census_t c = {.data = i & 1,
                          .joined = i & 2,
                          .device = i & 4,
                          .slots = i & 8,
                          .repeats = i & 16,
                          .fresh = i & 32,
                          .shapes = i & 64,
                          .piece = i & 128 ? 4096 : 0,
                          .vote = (dma_vote_t)(i >> 8)};
        dma_decision_t decision = dma_device_decide(&c);
        const mode_row_t *row = NULL;
        int found = 0;

        for (const mode_row_t *m = modes; m < modes + sizeof(modes) / sizeof(modes[0]); m++) {
            if (row_fits(m, &c)) {
                row = m;
                found++;
            }
        }
        ck_assert_msg(found == 1, "%d rows for census %#x", found, (unsigned)i);
        ck_assert_msg(decision.mode == row->mode && decision.why == row->why, "census %#x: mode %d, not %d",
                      (unsigned)i, (int)decision.mode, (int)row->mode);
        check_init(c, row->mode);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decide");

    unit_test(suite, offer, 5);
    unit_test(suite, decide, 5);
    return unit_main(suite);
}
