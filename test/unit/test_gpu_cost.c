/* The cost model of DMA engines: what it counts, what it never does, and what is chosen by it. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libunit.h"
#include "plan/gpu/cost.h"
#include "plan/profile.h"

#define KIB  UINT64_C(1024)
#define MIB  (KIB * KIB)
#define MOST (UINT64_C(1) << 40) /* of a constant */

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 17) % below;
}

/* Times of any size up to the largest, and rates. */
static dma_gpu_profile_t any_profile(void)
{
    dma_gpu_profile_t p;

#define ANY(name, value, help) p.name = 1 + draw(UINT64_C(1) << (1 + draw(40)));
    DMA_GPU_PROFILE_FIELDS(ANY)
#undef ANY
    return p;
}

static dma_gpu_shape_t any_shape(int most_ranks)
{
    return (dma_gpu_shape_t){.family = (dma_gpu_family_t)draw(DMA_GPU_FAMILY_COUNT),
                             .nranks = 1 + (int)draw((uint64_t)most_ranks),
                             .queues = (int)draw(20),
                             .bytes = draw(UINT64_C(1) << (1 + draw(46))),
                             .own_block = draw(2),
                             .prelaunch = draw(2)};
}

static dma_gpu_profile_t uniform(uint64_t time, uint64_t rate)
{
    dma_gpu_profile_t p;

#define SAME(name, value, help) p.name = strstr(#name, "_mbps") ? rate : time;
    DMA_GPU_PROFILE_FIELDS(SAME)
#undef SAME
    return p;
}

static uint64_t cost(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    dma_gpu_work_t work = dma_gpu_work(profile, shape);
    dma_gpu_phases_t phases = dma_gpu_phases(profile, &work, shape->prelaunch);

    return dma_gpu_phases_sum(&phases);
}

/* ---- what is counted ---- */

/* Everything costs 0 except what the test sets, so that a cost is a count. */
static uint64_t count(size_t member, dma_gpu_shape_t shape)
{
    dma_gpu_profile_t p = uniform(0, MOST);
    uint64_t one = 1;

    memcpy((char *)&p + member, &one, sizeof(one));
    return cost(&p, &shape);
}
#define COUNT(name, shape) count(offsetof(dma_gpu_profile_t, name), shape)

typedef struct counts {
    dma_gpu_family_t family;
    int nranks, queues;
    bool own;
    uint64_t packets, started, completions, further;
} counts_t;

static void check_counts(const counts_t *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const counts_t *w = &want[i];
        dma_gpu_shape_t s = {.family = w->family, .nranks = w->nranks, .queues = w->queues, .own_block = w->own};
        uint64_t runs = w->started > 0;

        ck_assert_uint_eq(COUNT(build_ps, s), w->packets);
        ck_assert_uint_eq(COUNT(doorbell_ps, s), w->started);
        ck_assert_uint_eq(COUNT(observe_ps, s), w->completions);
        ck_assert_uint_eq(COUNT(packet_ps, s), w->further);
        ck_assert_uint_eq(COUNT(fetch_ps, s), runs);
        ck_assert_uint_eq(COUNT(first_ps, s), runs);
        ck_assert_uint_eq(COUNT(fence_ps, s), runs);
        ck_assert_uint_eq(COUNT(trigger_ps, s), 0);
        ck_assert_uint_eq(COUNT(armed_ps, s), 0);
        if (w->started == w->own) { /* nothing can be prelaunched */
            continue;
        }
        /* Prelaunched: triggers of all ranks instead of packets and doorbells, and a condition for each queue. Where engines take
         * no time, all that is written is late: for the next call one more packet for each queue. */
        s.prelaunch = true;
        ck_assert_uint_eq(COUNT(build_ps, s), w->packets + w->started - w->own);
        ck_assert_uint_eq(COUNT(doorbell_ps, s), w->started);
        ck_assert_uint_eq(COUNT(fetch_ps, s), w->own);
        ck_assert_uint_eq(COUNT(trigger_ps, s), runs);
        ck_assert_uint_eq(COUNT(armed_ps, s), w->started - w->own);
        ck_assert_uint_eq(COUNT(observe_ps, s), w->completions + (unsigned)w->nranks - 1);
        ck_assert_uint_eq(COUNT(packet_ps, s), w->further + 1);
        ck_assert_uint_eq(COUNT(first_ps, s), runs);
        ck_assert_uint_eq(COUNT(fence_ps, s), runs);
    }
}

/* A process per GPU: its own packets and queues, and one line for each peer whose queue writes here. A swap has one
 * line for both sides. */
START_TEST(counts_of_a_process_per_gpu)
{
    static const counts_t want[] = {
        {DMA_GPU_COPY, 8, 7, false, 7, 7, 14, 0},  {DMA_GPU_COPY, 8, 1, false, 7, 1, 8, 6},
        {DMA_GPU_COPY, 8, 4, false, 7, 4, 11, 1},  {DMA_GPU_BCST, 8, 4, false, 4, 4, 11, 0},
        {DMA_GPU_BCST, 8, 3, false, 4, 3, 10, 1},  {DMA_GPU_SWAP, 8, 4, false, 4, 4, 7, 0},
        {DMA_GPU_SWAP, 8, 1, false, 4, 1, 4, 3},   {DMA_GPU_HALVES, 8, 7, false, 7, 7, 14, 0},
        {DMA_GPU_COPY, 8, 7, true, 8, 8, 15, 0},   {DMA_GPU_COPY, 8, 1, true, 8, 2, 9, 6},
        {DMA_GPU_BCST, 8, 4, true, 5, 5, 12, 0},   {DMA_GPU_SWAP, 2, 1, false, 1, 1, 1, 0},
        {DMA_GPU_COPY, 1, 1, false, 0, 0, 0, 0},   {DMA_GPU_COPY, 1, 1, true, 1, 1, 1, 0},
        {DMA_GPU_COPY, 8, 99, false, 7, 7, 14, 0}, {DMA_GPU_COPY, 8, 0, false, 7, 1, 8, 6},
    };

    check_counts(want, sizeof(want) / sizeof(want[0]));
}
END_TEST

/* The rate that limits a plan: the picoseconds of a million bytes if only this rate is finite. */
static uint64_t moved(size_t member, dma_gpu_shape_t shape)
{
    dma_gpu_profile_t p = uniform(0, MOST);
    uint64_t rate = 1000;

    memcpy((char *)&p + member, &rate, sizeof(rate));
    shape.bytes = 1000000;
    shape.nranks = 8;
    return cost(&p, &shape) / 1000000; /* in microseconds: 1000 for each time that the block passes */
}
#define MOVED(name, ...) moved(offsetof(dma_gpu_profile_t, name), (dma_gpu_shape_t){__VA_ARGS__})

START_TEST(bytes_per_engine_and_link)
{
    /* a queue with one copy is limited by its link; several queues share an engine; a link never carries less than
     * a block */
    ck_assert_uint_eq(MOVED(link_mbps, .family = DMA_GPU_COPY, .queues = 7), 1000);
    ck_assert_uint_eq(MOVED(chain_mbps, .family = DMA_GPU_COPY, .queues = 7), 0);
    ck_assert_uint_eq(MOVED(chain_mbps, .family = DMA_GPU_COPY, .queues = 4), 2000);
    ck_assert_uint_eq(MOVED(chain_mbps, .family = DMA_GPU_COPY, .queues = 1), 7000);
    ck_assert_uint_eq(MOVED(link_mbps, .family = DMA_GPU_COPY, .queues = 1), 1000);
    ck_assert_uint_eq(MOVED(bcst_mbps, .family = DMA_GPU_BCST, .queues = 4), 2000);
    ck_assert_uint_eq(MOVED(bcst_mbps, .family = DMA_GPU_BCST, .queues = 2), 4000);
    ck_assert_uint_eq(MOVED(link_mbps, .family = DMA_GPU_BCST, .queues = 4), 1000);
    ck_assert_uint_eq(MOVED(swap_mbps, .family = DMA_GPU_SWAP, .queues = 4), 2000);
    ck_assert_uint_eq(MOVED(swap_mbps, .family = DMA_GPU_HALVES, .queues = 7), 1000);
    ck_assert_uint_eq(MOVED(swap_mbps, .family = DMA_GPU_HALVES, .queues = 1), 7000);
    ck_assert_uint_eq(MOVED(link_mbps, .family = DMA_GPU_HALVES, .queues = 7), 1000);
    /* the own block is copied beside the others */
    ck_assert_uint_eq(MOVED(own_mbps, .family = DMA_GPU_COPY, .queues = 7), 0);
    ck_assert_uint_eq(MOVED(own_mbps, .family = DMA_GPU_COPY, .queues = 7, .own_block = true), 1000);
    ck_assert_uint_eq(MOVED(link_mbps, .family = DMA_GPU_COPY, .queues = 7, .own_block = true), 1000);
    dma_gpu_profile_t both = uniform(0, 1000);
    dma_gpu_shape_t out_of_place = {.nranks = 8, .queues = 7, .bytes = 1000000, .own_block = true};
    ck_assert_uint_eq(cost(&both, &out_of_place), UINT64_C(1000000000));
}
END_TEST

/* ---- what it never does ---- */

static void check_monotone(const dma_gpu_profile_t *profile, dma_gpu_shape_t shape)
{
    uint64_t last = 0;

    for (int bit = 0; bit <= 64; bit++) {
        shape.bytes = bit == 64 ? UINT64_MAX : UINT64_C(1) << bit;
        uint64_t now = cost(profile, &shape);
        ck_assert_msg(now >= last,
                      "family %d, %d ranks, %d queues: %" PRIu64 " bytes cost %" PRIu64 " ps, fewer %" PRIu64,
                      (int)shape.family, shape.nranks, shape.queues, shape.bytes, now, last);
        last = now;
    }
}

/* More bytes never cost less, whatever a profile contains. A sum that wraps would make the worst candidate look
 * like the best. */
START_TEST(cost_is_monotone_and_never_wraps)
{
    dma_gpu_profile_t extremes[] = {uniform(0, MOST), uniform(0, 1), uniform(MOST, MOST), uniform(MOST, 1),
                                    dma_gpu_profile_default()};

    for (int i = 0; i < 5000; i++) {
        dma_gpu_profile_t p = i % 2 ? any_profile() : extremes[i / 2 % 5];
        check_monotone(&p, any_shape(i % 3 ? 64 : INT32_MAX));
    }
    dma_gpu_shape_t huge = {.nranks = INT32_MAX, .queues = 1, .bytes = UINT64_MAX};
    ck_assert_uint_eq(cost(&extremes[3], &huge), UINT64_MAX);
}
END_TEST

/* Every product of a count and a constant has enough bits. */
START_TEST(no_product_wraps)
{
    dma_gpu_shape_t all = {.nranks = INT32_MAX, .queues = INT32_MAX}, one = all, armed = all;
    dma_gpu_profile_t p;

    one.queues = 1;
    armed.prelaunch = true;
#define FULL(name, shape)                                                                                              \
    p = uniform(0, MOST);                                                                                              \
    p.name = MOST;                                                                                                     \
    ck_assert_msg(cost(&p, &(shape)) == UINT64_MAX, #name);
    FULL(build_ps, all);
    FULL(doorbell_ps, all);
    FULL(observe_ps, all);
    FULL(armed_ps, armed);
    FULL(packet_ps, one);
#undef FULL
}
END_TEST

/* An odd number of bytes costs at least as much as the even number below it and at most as much as the one above it. */
START_TEST(no_step_down_between_sizes)
{
    for (int i = 0; i < 50000; i++) {
        dma_gpu_profile_t p = any_profile();
        dma_gpu_shape_t less = any_shape(64), more = less;
        more.bytes += draw(1 + draw(10000));
        ck_assert_uint_le(cost(&p, &less), cost(&p, &more));
    }
}
END_TEST

/* With all times doubled and all rates halved, the cost is doubled. So ratios of times cannot show the scale. */
START_TEST(has_no_scale_of_its_own)
{
    for (int i = 0; i < 20000; i++) {
        dma_gpu_profile_t p = any_profile(), twice;
        dma_gpu_shape_t s = any_shape(64);
#define SCALE(name, value, help)                                                                                       \
    if (strstr(#name, "_mbps")) {                                                                                      \
        twice.name = p.name;                                                                                           \
        p.name *= 2;                                                                                                   \
    } else {                                                                                                           \
        twice.name = 2 * p.name;                                                                                       \
    }
        DMA_GPU_PROFILE_FIELDS(SCALE)
#undef SCALE
        if (cost(&twice, &s) == UINT64_MAX) {
            continue; /* more than the type can hold */
        }
        /* each division may lose less than a picosecond, and a chain multiplies the loss */
        double once = (double)cost(&p, &s), both = (double)cost(&twice, &s);
        ck_assert_double_le(both, 2 * once * (1 + 1e-12) + 4 * s.nranks);
        ck_assert_double_ge(both, 2 * once * (1 - 1e-12) - 4 * s.nranks);
    }
}
END_TEST

/* Without a swap, an exchange is three copies that wait for each other. */
START_TEST(exchanges_by_copies)
{
    dma_gpu_profile_t p = dma_gpu_profile_default();

    for (int i = 0; i < 200; i++) {
        dma_gpu_family_t family = i % 2 ? DMA_GPU_SWAP : DMA_GPU_HALVES;
        dma_gpu_shape_t s = {
            .family = family, .nranks = 2 + (int)draw(15), .bytes = 2 * draw(1 << 20), .prelaunch = draw(2)};
        dma_gpu_work_t swap, copies;
        uint64_t swaps, by_copies;

        s.queues = s.nranks;
        swap = dma_gpu_work(&p, &s);
        swaps = cost(&p, &s);
        s.by_copies = true;
        copies = dma_gpu_work(&p, &s);
        by_copies = cost(&p, &s);
        ck_assert_uint_eq(copies.packets, 3 * swap.packets);
        ck_assert_uint_eq(copies.chain, 3 * swap.chain);
        ck_assert_uint_eq(copies.queues, swap.queues);
        ck_assert_uint_eq(copies.completions, swap.completions);
        ck_assert_uint_gt(by_copies, swaps + 3 * p.fence_ps);
        /* nothing else is exchanged */
        s.family = DMA_GPU_COPY;
        by_copies = cost(&p, &s);
        s.by_copies = false;
        ck_assert_uint_eq(by_copies, cost(&p, &s));
    }
}
END_TEST

/* ---- the choice ---- */

static dma_plan_req_t any_request(const dma_gpu_profile_t *profile)
{
    dma_gpu_shape_t s = any_shape(20);

    return (dma_plan_req_t){.coll = (dma_coll_t)draw(DMA_COLL_COUNT),
                            .nranks = s.nranks,
                            .in_place = draw(2),
                            .bytes = s.bytes,
                            .gpu = profile,
                            .prelaunch = draw(2),
                            .bcst = draw(2),
                            .max_queues = 1 + (uint32_t)draw(10)};
}

/* Whether a variant may carry out the request. */
static bool may(const dma_plan_req_t *req, const char *name)
{
    bool gathers = dma_coll_gathers(req->coll);

    if (!strcmp(name, "swap") || !strcmp(name, "halves")) {
        return !gathers && req->in_place;
    }
    if (!strcmp(name, "bcst")) {
        return gathers && req->bcst && req->max_queues >= (uint32_t)req->nranks / 2;
    }
    if (!strcmp(name, "pcpy")) {
        return (gathers || !req->in_place) && req->max_queues + 1 >= (uint32_t)req->nranks;
    }
    return !strcmp(name, "b2b") && (gathers || !req->in_place);
}

/* Programs are armed exactly where that takes less time than to write the packets at the start. */
static void check_prelaunch(const dma_profile_t *host, dma_plan_req_t req, int v, const dma_choice_t *choice)
{
    dma_choice_t written;
    const char *reason;

    req.prelaunch = false;
    ck_assert_int_eq(dma_plan_choose(host, &req, v, &written, &reason), DMA_OK);
    ck_assert(!written.prelaunch);
    if (choice->prelaunch) {
        ck_assert_uint_lt(choice->cost_ps, written.cost_ps);
    } else {
        ck_assert_uint_eq(choice->cost_ps, written.cost_ps);
    }
}

START_TEST(the_cheapest_that_may)
{
    dma_profile_t host = dma_profile_default();
    size_t several = 0;

    for (int i = 0; i < 5000; i++) {
        dma_gpu_profile_t p = i % 2 ? any_profile() : dma_gpu_profile_default();
        dma_plan_req_t req = any_request(&p);
        dma_choice_t best, one;
        const char *reason;

        req.nranks = req.nranks < 2 ? 2 : req.nranks;
        ck_assert_int_eq(dma_plan_choose(&host, &req, -1, &best, &reason), DMA_OK);
        ck_assert(may(&req, dma_variants[best.variant]->name));
        ck_assert(req.prelaunch || !best.prelaunch);
        for (int v = 0; dma_variants[v]; v++) {
            const char *name = dma_variants[v]->name;

            if (may(&req, name)) {
                ck_assert_int_eq(dma_plan_choose(&host, &req, v, &one, &reason), DMA_OK);
                ck_assert_uint_eq(one.variant, (unsigned)v);
                ck_assert_uint_le(best.cost_ps, one.cost_ps);
                check_prelaunch(&host, req, v, &one);
            }
        }
        for (int q = 1; may(&req, "b2b") && q < req.nranks && q <= (int)req.max_queues; q++) {
            dma_gpu_shape_t s = {.nranks = req.nranks,
                                 .queues = q,
                                 .bytes = req.bytes,
                                 .own_block = !req.in_place,
                                 .prelaunch = req.prelaunch};
            ck_assert_uint_le(best.cost_ps, cost(&p, &s));
        }
        several += !strcmp(dma_variants[best.variant]->name, "b2b") && best.queues > 1;
    }
    ck_assert_uint_gt(several, 100);
}
END_TEST

static const char *chosen(dma_coll_t coll, uint64_t bytes, bool in_place, bool prelaunch)
{
    dma_profile_t host = dma_profile_default();
    dma_gpu_profile_t p = dma_gpu_profile_default();
    dma_plan_req_t req = {.coll = coll,
                          .nranks = 8,
                          .in_place = in_place,
                          .bytes = bytes,
                          .gpu = &p,
                          .prelaunch = prelaunch,
                          .bcst = true,
                          .max_queues = 8};
    dma_choice_t choice;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&host, &req, -1, &choice, &reason), DMA_OK);
    return dma_variants[choice.variant]->name;
}

/* Packets that do more are chosen where fixed costs dominate, and one engine per link where bytes do. */
START_TEST(golden)
{
    ck_assert_str_eq(chosen(DMA_ALLGATHER, 4 * MIB, true, false), "pcpy");
    ck_assert_str_eq(chosen(DMA_ALLGATHER, 1 * KIB, true, false), "bcst");
    ck_assert_str_eq(chosen(DMA_ALLGATHER, 64 * MIB, true, true), "pcpy");
    ck_assert_str_eq(chosen(DMA_ALLTOALL, 1 * KIB, true, false), "swap");
    ck_assert_str_eq(chosen(DMA_ALLTOALL, 1 * KIB, false, false), "b2b");
    ck_assert_str_eq(chosen(DMA_ALLTOALL, 4 * MIB, false, false), "pcpy");
}
END_TEST

static bool is_armed(const dma_gpu_profile_t *p, const char *variant, int nranks, bool in_place, uint64_t bytes)
{
    bool swaps = !strcmp(variant, "swap") || !strcmp(variant, "halves");
    dma_profile_t host = dma_profile_default();
    dma_plan_req_t req = {.coll = swaps ? DMA_ALLTOALL : DMA_ALLGATHER,
                          .nranks = nranks,
                          .in_place = in_place || swaps,
                          .bytes = bytes,
                          .gpu = p,
                          .prelaunch = true,
                          .bcst = true,
                          .max_queues = 32,
                          .queues = !strcmp(variant, "b2b")};
    dma_choice_t choice;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&host, &req, dma_variant_find(variant), &choice, &reason), DMA_OK);
    ck_assert_str_eq(dma_variants[choice.variant]->name, variant);
    return choice.prelaunch;
}

/* With the built-in profile from five queues in place, and four if the own block has one more, whatever the size. If waiting takes
 * no time, always: coll_dma_accept and tests arm programs so. */
START_TEST(armed_from_some_queues_on)
{
    static const struct {
        const char *variant;
        int in_place, out; /* the fewest ranks */
    } least[] = {{"pcpy", 6, 5}, {"bcst", 12, 8}, {"swap", 12, 12}, {"halves", 6, 6}, {"b2b", 99, 99}};
    dma_gpu_profile_t p = dma_gpu_profile_default(), free_of_charge = p;

    free_of_charge.trigger_ps = free_of_charge.armed_ps = 0;
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
        for (int n = 2; n <= 16; n++) {
            for (uint64_t bytes = 64; bytes <= 64 * MIB; bytes *= 16) {
                ck_assert_int_eq(is_armed(&p, least[i].variant, n, true, bytes), n >= least[i].in_place);
                ck_assert_int_eq(is_armed(&p, least[i].variant, n, false, bytes), n >= least[i].out);
                ck_assert(is_armed(&free_of_charge, least[i].variant, n, true, bytes));
                ck_assert(is_armed(&free_of_charge, least[i].variant, n, false, bytes));
            }
        }
    }
}
END_TEST

/* ---- the profile as text ---- */

static void text_of(const dma_gpu_profile_t *p, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");

    ck_assert_ptr_nonnull(out);
#define PRINT(name, value, help) fprintf(out, "%s %" PRIu64 " # %s\n", #name, p->name, help);
    DMA_GPU_PROFILE_FIELDS(PRINT)
#undef PRINT
    fclose(out);
}

START_TEST(profile_round_trip)
{
    for (int i = 0; i < 200; i++) {
        dma_gpu_profile_t a = i ? any_profile() : dma_gpu_profile_default(), b;
        char text[4000], error[100] = "";
        text_of(&a, text, sizeof(text));
        ck_assert_msg(dma_gpu_profile_load(unit_file(text), &b, error, sizeof(error)) == DMA_OK, "%s", error);
        ck_assert_mem_eq(&a, &b, sizeof(a));
    }
}
END_TEST

static void refuse(const char *text, const char *says)
{
    dma_gpu_profile_t p, before;
    char error[100] = "";

    memset(&p, 0x3c, sizeof(p));
    before = p;
    ck_assert_int_eq(dma_gpu_profile_load(unit_file(text), &p, error, sizeof(error)), DMA_ERR_ARG);
    ck_assert_msg(strstr(error, says) != NULL, "expected \"%s\", got \"%s\"", says, error);
    ck_assert_mem_eq(&p, &before, sizeof(p));
}

/* The parser is that of the host profile, whose test has more cases. Here: these names, no others, all of them, and
 * no rate is 0. */
START_TEST(profile_errors)
{
    dma_gpu_profile_t a = dma_gpu_profile_default();
    char text[3000], other[4000], error[100] = "";

    text_of(&a, text, sizeof(text));
    refuse("", "build_ps is missing");
    refuse("enter_ps 5\n", "line 1: unknown name");
    snprintf(other, sizeof(other), "%sbuild_ps 5\n", text);
    refuse(other, "given twice");
    *strstr(text, "own_mbps") = '\0';
    refuse(text, "own_mbps is missing");
    snprintf(other, sizeof(other), "%sown_mbps 0\n", text);
    refuse(other, "line 14: a rate cannot be 0");
    ck_assert_int_eq(dma_gpu_profile_load("/", &a, error, sizeof(error)), DMA_ERR_ARG);
    ck_assert_str_ne(error, "");
}
END_TEST

/* A profile fits into the head of a record, and on a page. */
START_TEST(at_most_fourteen_constants)
{
    ck_assert_uint_le(sizeof(dma_gpu_profile_t), 14 * sizeof(uint64_t));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_cost");

    state = unit_seed();
    unit_test(suite, counts_of_a_process_per_gpu, 10);
    unit_test(suite, bytes_per_engine_and_link, 10);
    unit_test(suite, cost_is_monotone_and_never_wraps, 20);
    unit_test(suite, no_product_wraps, 10);
    unit_test(suite, no_step_down_between_sizes, 10);
    unit_test(suite, has_no_scale_of_its_own, 10);
    unit_test(suite, exchanges_by_copies, 10);
    unit_test(suite, the_cheapest_that_may, 20);
    unit_test(suite, golden, 10);
    unit_test(suite, armed_from_some_queues_on, 10);
    unit_test(suite, profile_round_trip, 10);
    unit_test(suite, profile_errors, 10);
    unit_test(suite, at_most_fourteen_constants, 10);
    return unit_main(suite);
}
