/* Every row of the algorithm table, run by the plan interpreter over ranks, sizes, in place or not, and seeds. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp.h"
#include "libunit.h"
#include "plan/profile.h"

#define MAX_RANKS 17
#define CALLS     4
#define CHUNK     64 /* bytes per trip here: many chunks in few bytes */

/* How the ranks of a call pass their buffers. */
typedef enum placing { OUT_OF_PLACE, IN_PLACE, MIXED, PLACINGS } placing_t;

typedef struct sweep {
    int variant;
    unsigned ran, unfit;
} sweep_t;

static uint64_t next_seed;

static bool placed(placing_t placing, int rank)
{
    return placing == IN_PLACE || (placing == MIXED && (rank * 7 + 3) % 5 < 2);
}

/* The plans of all ranks for one block size; false where the variant says that it does not fit. */
static bool build_plans(int variant, dma_plan_req_t req, placing_t placing, const dma_plan_t **plans)
{
    dma_profile_t profile = dma_profile_default();
    dma_choice_t choice;
    const char *reason = NULL;
    dma_status_t status;

    if (dma_variants[variant]->unfit(&req)) {
        return false;
    }
    status = dma_plan_choose(&profile, &req, variant, &choice, &reason);
    ck_assert_int_eq(status, DMA_OK);
    ck_assert_int_eq(choice.variant, variant);
    ck_assert_uint_le(choice.chunk, 1u << 20);
    for (int r = 0; r < req.nranks; r++) {
        dma_plan_t *plan = NULL;
        req.in_place = placed(placing, r);
        status = dma_plan_build(&req, &choice, r, &plan);
        ck_assert_msg(status == DMA_OK, "%s: rank %d of %d: %s", dma_variants[variant]->name, r, req.nranks,
                      dma_status_name(status));
        ck_assert_uint_eq(plan->variant, choice.variant);
        ck_assert_int_eq(plan->in_place, req.in_place);
        plans[r] = plan;
    }
    return true;
}

static void free_plans(const dma_plan_t **plans, int n)
{
    for (int r = 0; r < n; r++) {
        dma_plan_free((dma_plan_t *)plans[r]);
    }
}

static dma_geom_t geometry(uint32_t ring_depth, uint32_t chunk_depth)
{
    return (dma_geom_t){.ring_depth = ring_depth, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = chunk_depth};
}

static dma_plan_req_t request(int n, uint64_t bytes, dma_geom_t geom)
{
    return (dma_plan_req_t){.coll = DMA_ALLGATHER,
                            .nranks = n,
                            .bytes = bytes,
                            .cross_memory = true,
                            .ranks_per_core_x16 = 16,
                            .geom = geom};
}

static void run(const char *what, interp_job_t *job)
{
    interp_report_t report;

    job->seed = next_seed++;
    interp_run(job, &report);
    if (report.error) {
        interp_print_plan(stdout, job->calls[0].plans[0]);
    }
    ck_assert_msg(report.error == INTERP_OK, "%s: %s", what, report.text);
}

/* Several calls of one variant and size on one communicator. */
static void sweep_one(sweep_t *s, int n, uint64_t bytes, placing_t placing, dma_geom_t geom, uint64_t chunk, int seeds)
{
    const dma_plan_t *plans[MAX_RANKS];
    uint64_t sizes[MAX_RANKS * MAX_RANKS];
    interp_call_t calls[CALLS];
    interp_job_t job = {.nranks = n, .geom = geom, .calls = calls, .ncalls = CALLS};
    char what[160];

    if (!build_plans(s->variant, request(n, bytes, geom), placing, plans)) {
        s->unfit++;
        return;
    }
    s->ran++;
    for (int i = 0; i < n * n; i++) {
        sizes[i] = bytes;
    }
    for (int c = 0; c < CALLS; c++) {
        calls[c] = (interp_call_t){.plans = plans, .chunk = chunk, .bytes = sizes};
    }
    snprintf(what, sizeof(what), "%s, %d ranks, %" PRIu64 " bytes, %s, ring %u, chunks %u x %" PRIu64,
             dma_variants[s->variant]->name, n, bytes,
             placing == IN_PLACE ? "in place"
             : placing == MIXED  ? "mixed"
                                 : "out of place",
             geom.ring_depth, geom.chunk_depth, chunk);
    for (int i = 0; i < seeds; i++) {
        job.outstanding = 1 + i % 2 * (int)geom.ring_depth;
        job.flags = i % 4 == 3 ? INTERP_STRONG : 0;
        run(what, &job);
    }
    free_plans(plans, n);
}

static int count_variants(void)
{
    int n = 0;

    while (dma_variants[n]) {
        n++;
    }
    return n;
}

/* All variants, ranks and placings; sizes around every limit that a variant has. */
START_TEST(every_variant)
{
    static const uint64_t sizes[] = {
        0,         1, 3, 31, 32, 33, 95, 96, 97, 255, 256, 257, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 7,
        12 * CHUNK};
    sweep_t s = {.variant = _i};

    for (int n = 1; n <= MAX_RANKS; n++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            if (n > 9 && (k + (size_t)n) % 3) {
                continue;
            }
            for (int placing = 0; placing < PLACINGS; placing++) {
                sweep_one(&s, n, sizes[k], (placing_t)placing, geometry(2, 2), CHUNK, n <= 4 ? 6 : n <= 9 ? 2 : 1);
            }
        }
    }
    ck_assert_msg(s.ran >= 3 * 9 * 8, "%s ran %u times only", dma_variants[_i]->name, s.ran);
    printf("%-12s ran %u, did not fit %u\n", dma_variants[_i]->name, s.ran, s.unfit);
}
END_TEST

/* Rings and chunk buffers of other depths, and chunks of one byte. */
START_TEST(every_geometry)
{
    static const uint32_t rings[] = {1, 2, 8}, depths[] = {1, 2, 4, 8};
    sweep_t s = {.variant = _i};

    for (size_t r = 0; r < 3; r++) {
        for (size_t d = 0; d < 4; d++) {
            for (int n = 1; n <= 5; n += 2) {
                sweep_one(&s, n, 77, MIXED, geometry(rings[r], depths[d]), 16, 4);
                sweep_one(&s, n, 9, OUT_OF_PLACE, geometry(rings[r], depths[d]), 1, 4);
                sweep_one(&s, n, 256, IN_PLACE, geometry(rings[r], depths[d]), 4096, 4);
            }
        }
    }
    ck_assert_uint_gt(s.ran, 0);
}
END_TEST

/* Calls of all variants and of changing sizes, one after the other on one communicator. */
START_TEST(mixed_calls)
{
    enum { MANY = 12 };
    static const uint64_t sizes[] = {0, 8, 96, 64, 250, 700};
    const int variants = count_variants();

    for (int n = 1; n <= 6; n++) {
        for (int round = 0; round < 12; round++) {
            const dma_plan_t *plans[MANY][MAX_RANKS];
            uint64_t bytes[MANY][MAX_RANKS * MAX_RANKS];
            interp_call_t calls[MANY];
            dma_geom_t geom = geometry(round % 2 ? 4 : 2, round % 3 ? 2 : 4);
            interp_job_t job = {.nranks = n, .geom = geom, .calls = calls, .ncalls = MANY};
            char what[80];

            for (int c = 0; c < MANY; c++) {
                int variant = (c * 5 + round * 3) % variants;
                uint64_t size = sizes[(c * 7 + round) % 6];
                while (!build_plans(variant, request(n, size, geom), (placing_t)((c + round) % PLACINGS), plans[c])) {
                    variant = (variant + 1) % variants;
                }
                for (int i = 0; i < n * n; i++) {
                    bytes[c][i] = size;
                }
                calls[c] = (interp_call_t){.plans = plans[c], .chunk = c % 2 ? 32 : CHUNK, .bytes = bytes[c]};
            }
            snprintf(what, sizeof(what), "mixed calls, round %d", round);
            for (int i = 0; i < 4; i++) {
                job.outstanding = i + 1;
                run(what, &job);
            }
            for (int c = 0; c < MANY; c++) {
                free_plans(plans[c], n);
            }
        }
    }
}
END_TEST

/* A request that the table refuses is refused by name, and a plan for it is never asked for. */
START_TEST(limits)
{
    dma_geom_t geom = geometry(2, 2);
    struct {
        const char *name;
        uint64_t fits, too_much;
    } cases[] = {{"host_line", DMA_LINE_BYTES, DMA_LINE_BYTES + 1}, {"host_slot", 256, 257}};

    for (size_t i = 0; i < 2; i++) {
        int v = dma_variant_find(cases[i].name);
        dma_plan_req_t req = request(4, cases[i].fits, geom);
        ck_assert_int_ge(v, 0);
        ck_assert_ptr_null(dma_variants[v]->unfit(&req));
        req.bytes = cases[i].too_much;
        ck_assert_ptr_nonnull(dma_variants[v]->unfit(&req));
    }
    dma_plan_req_t req = request(4, 1000, geom);
    req.cross_memory = false;
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_cross")]->unfit(&req));
    req.geom.chunk_depth = 0;
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_pipe")]->unfit(&req));
    ck_assert_int_eq(dma_variant_find("host_pip"), -1);
    ck_assert_int_eq(dma_variant_find(""), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plans");

    next_seed = 1000 * unit_seed();
    unit_loop(suite, every_variant, 0, count_variants(), 60);
    unit_loop(suite, every_geometry, 0, count_variants(), 60);
    unit_test(suite, mixed_calls, 60);
    unit_test(suite, limits, 60);
    return unit_main(suite);
}
