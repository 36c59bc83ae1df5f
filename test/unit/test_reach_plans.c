/*
 * Plans that read blocks at the address that their owner publishes (host_reach): with mistakes, which the interpreter
 * must find; and when they are chosen.
 */
#include <check.h>

#include "core/comm.h"
#include "dma/plan.h"
#include "libinterp.h"
#include "libunit.h"
#include "plan/profile.h"

extern const dma_variant_t dma_variant_host_pair, dma_variant_host_reach;

#define N     3
#define CALLS 2

/* ---- plans with mistakes ---- */

static const dma_geom_t geom = {
    .ring_depth = 2, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2, .pair_bytes = 512, .pair_depth = 2};

static dma_plan_t *plan_of(dma_coll_t coll, int rank)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = {.coll = coll,
                          .nranks = N,
                          .bytes = DMA_ALLTOALLV_BYTES,
                          .cross_memory = true,
                          .ranks_per_core_x16 = 16,
                          .geom = geom};
    dma_choice_t choice;
    dma_plan_t *plan;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&profile, &req, dma_variant_find("host_reach"), &choice, &reason), DMA_OK);
    ck_assert_ptr_null(reason);
    ck_assert_int_eq(dma_plan_build(&req, &choice, rank, &plan), DMA_OK);
    return plan;
}

static bool tells(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->src.base == DMA_BASE_BYTES;
}

static bool reads(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && op->flags & DMA_OP_DIRECT;
}

static bool waits_landed(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_LANDED;
}

static bool signals_landed(const dma_op_t *op)
{
    return op->code == DMA_OP_SIGNAL && op->flag.kind == DMA_FLAG_LANDED;
}

static bool waits_produced(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_PAIR_PRODUCED;
}

static bool waits_entry(const dma_op_t *op)
{
    return op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_ENTRY;
}

static void not_awaited(dma_op_t *op)
{
    op->value = 0;
}

static void other_word(dma_op_t *op)
{
    op->src.offset -= 8;
}

static void other_block(dma_op_t *op)
{
    op->src.block = (op->src.block + 1) % N;
}

static void own_block(dma_op_t *op)
{
    op->src.block = (op->dst[0].rank + 1) % N; /* the right one for one peer, the wrong one for the other */
}

static void three_words(dma_op_t *op)
{
    op->len.len = 24;
}

static void one_word(dma_op_t *op)
{
    op->len.len = 8;
}

static void in_each_trip(dma_op_t *op)
{
    op->flags &= (uint8_t)~DMA_OP_LAST;
}

static void in_no_way(dma_op_t *op)
{
    op->flags &= (uint8_t) ~(DMA_OP_DIRECT | DMA_OP_FALLBACK);
}

static void in_both_ways(dma_op_t *op)
{
    op->flags |= DMA_OP_DIRECT | DMA_OP_FALLBACK;
}

static void as_head(dma_op_t *op)
{
    op->len.part = DMA_HEAD;
}

static void about_another(dma_op_t *op)
{
    op->flag.peer = (op->flag.peer + 1) % N;
    op->flag.rank = (op->flag.rank + 1) % N;
}

static const struct {
    bool (*where)(const dma_op_t *op);
    void (*what)(dma_op_t *op);
    interp_error_t expected, other;
    bool refused; /* found where a rank is refused */
} faults[] = {
    {waits_landed, not_awaited, INTERP_USER, INTERP_DATA, false},
    {waits_entry, not_awaited, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED, false},
    {waits_produced, not_awaited, INTERP_CHUNK, INTERP_CHUNK, true},
    {reads, other_word, INTERP_BOUNDS, INTERP_BOUNDS, false},
    {reads, other_block, INTERP_PLAN, INTERP_PLAN, false},
    {tells, own_block, INTERP_SIZE, INTERP_BOUNDS, false},
    {tells, one_word, INTERP_BOUNDS, INTERP_BOUNDS, false},
    {tells, three_words, INTERP_PLAN, INTERP_PLAN, false},
    {signals_landed, in_each_trip, INTERP_PLAN, INTERP_PLAN, false},
    {signals_landed, about_another, INTERP_PLAN, INTERP_PLAN, false},
    {waits_landed, about_another, INTERP_PLAN, INTERP_PLAN, false},
    {waits_landed, in_no_way, INTERP_PLAN, INTERP_PLAN, false},
    {waits_produced, in_both_ways, INTERP_PLAN, INTERP_PLAN, false},
    {reads, in_no_way, INTERP_PLAN, INTERP_PLAN, false},
    {reads, as_head, INTERP_PLAN, INTERP_PLAN, false},
};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Only an all-to-all-v publishes the addresses of blocks to peers. */
static bool is_there(dma_coll_t coll, size_t fault)
{
    return dma_coll_sizes(coll) == DMA_SIZES_OWN || faults[fault].where != tells;
}

static dma_plan_t *faulty_plan(dma_coll_t coll, int rank, size_t fault)
{
    dma_plan_t *plan = plan_of(coll, rank);
    unsigned found = 0;

    for (uint32_t p = 0; p < plan->nprogs; p++) {
        for (uint32_t i = 0; i < plan->progs[p].nops; i++) {
            dma_op_t *op = (dma_op_t *)&plan->progs[p].ops[i];

            if (faults[fault].where(op)) {
                faults[fault].what(op);
                found++;
            }
        }
    }
    ck_assert_uint_gt(found, 0);
    return plan;
}

static void interpret(dma_coll_t coll, const dma_plan_t *const *plans, uint64_t seed, interp_report_t *report)
{
    uint64_t bytes[N * N];
    interp_call_t call[CALLS];
    interp_job_t job = {
        .nranks = N, .geom = geom, .calls = call, .ncalls = CALLS, .outstanding = 1, .flags = 0, .seed = seed};

    for (int i = 0; i < N * N; i++) {
        bytes[i] = dma_coll_sizes(coll) == DMA_SIZES_OWN ? (uint64_t)(700 + 50 * i) : 900;
    }
    for (int c = 0; c < CALLS; c++) {
        call[c] = (interp_call_t){.plans = plans, .chunk = 100, .bytes = bytes};
    }
    interp_run(&job, report);
}

START_TEST(faults_are_found)
{
    dma_coll_t coll = (dma_coll_t)((size_t)_i / FAULTS);
    size_t fault = (size_t)_i % FAULTS;
    dma_plan_t *plans[N];
    interp_report_t report;
    int found = 0;

    if (!is_there(coll, fault)) {
        return;
    }
    for (int r = 0; r < N; r++) {
        plans[r] = faulty_plan(coll, r, fault);
    }
    for (uint64_t i = 0; i < 40; i++) {
        interpret(coll, (const dma_plan_t *const *)plans, 2 * (500 * unit_seed() + i) + faults[fault].refused, &report);
        ck_assert_msg(report.error == faults[fault].expected || report.error == faults[fault].other ||
                          (faults[fault].refused && report.error == INTERP_OK),
                      "operation %d, fault %zu: expected %s, got: %s", coll, fault,
                      interp_error_name(faults[fault].expected), report.error ? report.text : "nothing");
        found += report.error != INTERP_OK;
    }
    ck_assert_int_gt(found, 30);
    for (int r = 0; r < N; r++) {
        dma_plan_free(plans[r]);
    }
}
END_TEST

/* A plan that reads peers' memory must say so. */
START_TEST(it_streams)
{
    dma_plan_t *plan = plan_of(DMA_ALLGATHER, 0);
    char text[200];

    ck_assert(interp_check_plan(plan, &geom, text, sizeof(text)));
    plan->streams = false;
    ck_assert(!interp_check_plan(plan, &geom, text, sizeof(text)));
    dma_plan_free(plan);
}
END_TEST

/* What a program does outside of its loop must also be done if the loop has no trips, unless another program does it. */
START_TEST(loops_alone)
{
    for (dma_coll_t coll = DMA_ALLGATHER; coll < DMA_COLL_COUNT; coll++) {
        dma_plan_t *plan = plan_of(coll, 0);
        unsigned alone = 0;
        char text[200];

        ck_assert_msg(interp_check_plan(plan, &geom, text, sizeof(text)), "%s", text);
        for (uint32_t p = 0; p < plan->nprogs; p++) {
            bool was = plan->progs[p].loop_only;

            alone += was;
            plan->progs[p].loop_only = true;
            ck_assert_int_eq(interp_check_plan(plan, &geom, text, sizeof(text)), was);
            plan->progs[p].loop_only = was;
        }
        ck_assert_uint_eq(alone, dma_coll_gathers(coll) ? N - 1 : 2 * (N - 1));
        dma_plan_free(plan);
    }
}
END_TEST

START_TEST(fits)
{
    const dma_variant_t *v = &dma_variant_host_reach;
    dma_plan_req_t good = {.coll = DMA_ALLTOALLV, .nranks = 4, .cross_memory = true, .geom = geom}, req = good;

    ck_assert_ptr_null(v->unfit(&req));
    req.in_place = true;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.coll = DMA_ALLTOALL;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.coll = DMA_ALLGATHER;
    ck_assert_ptr_null(v->unfit(&req));
    for (req.nranks = 2; req.nranks <= 256; req.nranks++) { /* the geometry of a persistent call */
        req.geom = (dma_geom_t){.ring_depth = 4, .slot_bytes = 64, .pair_depth = 4, .pair_bytes = 1024};
        ck_assert_ptr_null(v->unfit(&req));
    }
    req = good;
    req.cross_memory = false;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req = good;
    req.geom.pair_bytes = 0; /* a tail that is refused needs pair buffers */
    ck_assert_ptr_nonnull(v->unfit(&req));
    req = good;
    req.geom.slot_bytes = 3 * 8;
    ck_assert_ptr_nonnull(v->unfit(&req));
    req.geom.slot_bytes = 3 * 16;
    ck_assert_ptr_null(v->unfit(&req));
}
END_TEST

/* The choice is made for blocks of 64 KiB, with the costs of copies there. */
START_TEST(chosen_where_copies_are_dear)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = {.coll = DMA_ALLTOALLV,
                          .nranks = 2,
                          .bytes = DMA_ALLTOALLV_BYTES,
                          .cross_memory = true,
                          .ranks_per_core_x16 = 16,
                          .geom = {.ring_depth = 8, .slot_bytes = 8192, .pair_bytes = 262144, .pair_depth = 4}};
    dma_choice_t choice;
    const char *reason;

    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_pair);
    profile.copy_mbps /= 8;
    profile.pull_mbps /= 8;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_reach);
    ck_assert_uint_eq(choice.chunk, 1 << 20);
    req.in_place = true;
    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
    ck_assert_ptr_eq(dma_variants[choice.variant], &dma_variant_host_pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reach_plans");

    unit_loop(suite, faults_are_found, 0, DMA_COLL_COUNT * (int)FAULTS, 20);
    unit_test(suite, it_streams, 10);
    unit_test(suite, loops_alone, 5);
    unit_test(suite, fits, 10);
    unit_test(suite, chosen_where_copies_are_dear, 10);
    return unit_main(suite);
}
