/*
 * Every row of the table of variants with each of its operations: the plan interpreter runs it over ranks, sizes, in
 * place or not, and seeds. What the engine does with the same plans is in test_forms.c, except a CHECK that fails.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dma/plan.h"
#include "libinterp.h"
#include "libthreads.h"
#include "libunit.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"

extern const dma_variant_t dma_variant_swap, dma_variant_halves, dma_variant_host_reach;

#define MAX_RANKS 17
#define MAX_CALLS 12
#define CALLS     4
#define CHUNK     64    /* bytes per trip here: many chunks in few bytes */
#define GUESS     65536 /* of the blocks of an all-to-all-v */
#define MAX_SIZES 64

/* How the ranks of a call pass their buffers. MIXED: only all-gathers. */
typedef enum placing { OUT_OF_PLACE, IN_PLACE, MIXED, PLACINGS } placing_t;

/* One call of all ranks. */
typedef struct scene {
    int variant, n;
    uint32_t ways; /* of a GPU plan; 0: what the cost model chooses */
    uint64_t head; /* the longest block that may go through a slot; 0: the longest that fits */
    dma_coll_t coll;
    placing_t placing;
    dma_geom_t geom;
    uint64_t chunk;
    uint64_t bytes[MAX_RANKS * MAX_RANKS];
    const dma_plan_t *plans[MAX_RANKS];
} scene_t;

static uint64_t next_seed;

static uint32_t draw(uint32_t below)
{
    static uint64_t state;
    uint64_t x = state = (state ? state : unit_seed()) * 6364136223846793005u + 1442695040888963407u;

    return (uint32_t)((x >> 33) % below);
}

static bool uneven(dma_coll_t coll)
{
    return dma_coll_sizes(coll) != DMA_SIZES_EQUAL;
}

static bool placed(placing_t placing, int rank)
{
    return placing == IN_PLACE || (placing == MIXED && (rank * 7 + 3) % 5 < 2);
}

static const char *coll_name(dma_coll_t coll)
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_FUNCTION)};

    return names[coll];
}

static dma_geom_t geometry(uint32_t ring_depth, uint32_t depth)
{
    return (dma_geom_t){.ring_depth = ring_depth,
                        .slot_bytes = 256,
                        .chunk_bytes = 4096,
                        .chunk_depth = depth,
                        .pair_bytes = 256 * depth,
                        .pair_depth = depth};
}

static uint64_t largest(const scene_t *s)
{
    uint64_t most = 0;

    for (int i = 0; i < s->n * s->n; i++) {
        most = s->bytes[i] > most ? s->bytes[i] : most;
    }
    return most;
}

static dma_plan_req_t request(const scene_t *s)
{
    static dma_gpu_profile_t gpu;

    gpu = dma_gpu_profile_default();
    return (dma_plan_req_t){.coll = s->coll,
                            .nranks = s->n,
                            .in_place = s->placing == IN_PLACE && !dma_coll_gathers(s->coll),
                            .bytes = dma_coll_sizes(s->coll) == DMA_SIZES_OWN ? GUESS : largest(s),
                            .cross_memory = true,
                            .ranks_per_core_x16 = 16,
                            .geom = s->geom,
                            .head = s->head,
                            .gpu = dma_variants[s->variant]->gpu ? &gpu : NULL,
                            .bcst = true,
                            .max_queues = (uint32_t)s->n,
                            .queues = s->ways};
}

/* The blocks of a call: all of `bytes`. In a v-operation, with `mixed`, some are empty and some have other sizes. */
static void fill(scene_t *s, uint64_t bytes, bool mixed)
{
    int n = s->n;

    for (int i = 0; i < n * n; i++) {
        uint32_t kind = mixed ? draw(6) : 5;
        s->bytes[i] = kind == 0   ? 0
                      : kind == 1 ? 1
                      : kind == 2 ? bytes / 2
                      : kind == 3 ? draw((uint32_t)bytes + 1)
                                  : bytes;
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            if (dma_coll_gathers(s->coll)) {
                s->bytes[i * n + k] = s->bytes[i * n];
            } else if (s->placing == IN_PLACE && k < i) {
                s->bytes[i * n + k] = s->bytes[k * n + i];
            }
        }
    }
}

/* The plans of all ranks. False if the variant says that it does not fit. */
static bool build_plans(scene_t *s)
{
    dma_profile_t profile = dma_profile_default();
    dma_plan_req_t req = request(s);
    dma_choice_t choice;
    const char *reason = NULL;

    if (!dma_coll_is_served(s->coll, dma_variants[s->variant]->serves) || dma_variants[s->variant]->unfit(&req)) {
        return false;
    }
    ck_assert_int_eq(dma_plan_choose(&profile, &req, s->variant, &choice, &reason), DMA_OK);
    ck_assert_int_eq(choice.variant, s->variant);
    ck_assert_uint_le(choice.chunk, 1u << 20);
    for (int r = 0; r < s->n; r++) {
        dma_plan_t *plan = NULL;
        dma_status_t status;
        req.in_place = placed(s->placing, r);
        status = dma_plan_build(&req, &choice, r, &plan);
        ck_assert_msg(status == DMA_OK, "%s: rank %d of %d: %s", dma_variants[s->variant]->name, r, s->n,
                      dma_status_name(status));
        ck_assert_uint_eq(plan->variant, choice.variant);
        ck_assert_int_eq(plan->coll, s->coll);
        ck_assert_int_eq(plan->in_place, req.in_place);
        ck_assert_int_eq(plan->gpu, dma_variants[s->variant]->gpu);
        ck_assert_uint_le(plan->nprogs, 2 * (unsigned)s->n + 1); /* the core has room for this number of cursors */
        s->plans[r] = plan;
    }
    return true;
}

static void free_plans(scene_t *s)
{
    for (int r = 0; r < s->n; r++) {
        dma_plan_free((dma_plan_t *)s->plans[r]);
    }
}

static interp_call_t call_of(const scene_t *s)
{
    return (interp_call_t){.plans = s->plans, .chunk = s->chunk, .bytes = s->bytes};
}

static void run(const scene_t *s, interp_job_t *job, interp_error_t expected)
{
    interp_report_t report;

    job->seed = next_seed++;
    interp_run(job, &report);
    if (report.error != expected) {
        interp_print_plan(stdout, s->plans[0]);
    }
    ck_assert_msg(report.error == expected,
                  "%s, %s, %d ranks, up to %" PRIu64 " bytes, %s, ring %u, %u buffers, chunk %" PRIu64
                  ": expected %s, got %s",
                  dma_variants[s->variant]->name, coll_name(s->coll), s->n, largest(s),
                  s->placing == IN_PLACE ? "in place"
                  : s->placing == MIXED  ? "mixed"
                                         : "out of place",
                  s->geom.ring_depth, s->geom.chunk_depth, s->chunk, interp_error_name(expected), report.text);
}

/* Several calls of one variant and operation on one communicator. v-operations have other counts in every call. */
static bool run_calls(const scene_t *pattern, uint64_t bytes, int seeds)
{
    static scene_t scenes[CALLS];
    interp_call_t calls[CALLS];
    interp_job_t job = {.nranks = pattern->n, .geom = pattern->geom, .calls = calls, .ncalls = CALLS};

    for (int c = 0; c < CALLS; c++) {
        scenes[c] = *pattern;
        fill(&scenes[c], bytes, uneven(pattern->coll) && c);
        if (!build_plans(&scenes[c])) {
            ck_assert_int_eq(c, 0); /* smaller blocks fit where larger ones fit */
            return false;
        }
        calls[c] = call_of(&scenes[c]);
    }
    for (int i = 0; i < seeds; i++) {
        job.outstanding = 1 + i % 2 * (int)pattern->geom.ring_depth;
        job.flags = i % 4 == 3 ? INTERP_STRONG : 0;
        run(&scenes[0], &job, INTERP_OK);
    }
    for (int c = 0; c < CALLS; c++) {
        free_plans(&scenes[c]);
    }
    return true;
}

static int count_variants(void)
{
    int n = 0;

    while (dma_variants[n]) {
        n++;
    }
    return n;
}

static size_t around(uint64_t *sizes, size_t n, uint64_t limit)
{
    for (uint64_t b = limit ? limit - 1 : 0; b <= limit + 1; b++) {
        bool known = false;
        for (size_t i = 0; i < n; i++) {
            known |= sizes[i] == b;
        }
        if (!known) {
            ck_assert_uint_lt(n, MAX_SIZES);
            sizes[n++] = b;
        }
    }
    return n;
}

/* Sizes around every limit of a variant in an operation of n ranks. */
static size_t interesting(dma_coll_t coll, int n, dma_geom_t geom, uint64_t limit, uint64_t *sizes)
{
    uint64_t others = n > 1 ? (uint64_t)n - 1 : 1, slot = geom.slot_bytes / others / 8 * 8, head = 0;
    size_t k = around(sizes, 0, 0);

    if (dma_coll_gathers(coll)) {
        k = around(sizes, around(sizes, k, 32), DMA_LINE_BYTES);
        k = around(sizes, k, geom.slot_bytes);
    } else {
        head = (dma_coll_sizes(coll) == DMA_SIZES_OWN ? slot - 16 : slot) / 16 * 16;
        head = limit && limit < head ? limit : head;
        k = around(sizes, around(sizes, k, DMA_LINE_BYTES / others / 8 * 8), slot);
        k = around(sizes, k, head);
    }
    k = around(sizes, around(sizes, k, head + CHUNK), head + 2 * CHUNK);
    sizes[k++] = head + 5 * CHUNK + 7;
    sizes[k++] = head + 12 * CHUNK;
    return k;
}

static bool only_in_place(int variant)
{
    return dma_variants[variant] == &dma_variant_swap || dma_variants[variant] == &dma_variant_halves;
}

static bool only_out_of_place(int variant, dma_coll_t coll)
{
    const dma_variant_t *v = dma_variants[variant];

    return !dma_coll_gathers(coll) && (v == &dma_variant_host_reach || (v->gpu && !only_in_place(variant)));
}

/* All variants, operations, ranks and placings. */
START_TEST(every_variant)
{
    scene_t s = {.variant = _i / DMA_COLL_COUNT, .coll = (dma_coll_t)(_i % DMA_COLL_COUNT), .chunk = CHUNK};
    unsigned ran[PLACINGS] = {0}, unfit = 0;
    const char *name = dma_variants[s.variant]->name;

    if (!dma_coll_is_served(s.coll, dma_variants[s.variant]->serves)) {
        return;
    }
    for (s.n = 1; s.n <= MAX_RANKS; s.n++) {
        uint64_t sizes[MAX_SIZES];
        size_t nsizes, share = s.n > 9 ? 9 * UNIT_SHARE : s.n > 5 ? 4 * UNIT_SHARE : s.n > 2 ? UNIT_SHARE : 1;
        s.geom = geometry(2, s.n % 2 ? 2 : 4);
        s.ways = draw((uint32_t)s.n);
        s.head = s.n % 3 ? 0 : 1 + draw(40);
        nsizes = interesting(s.coll, s.n, s.geom, s.head, sizes);
        for (size_t k = 0; k < nsizes; k++) {
            for (int p = 0; p < (dma_coll_gathers(s.coll) ? PLACINGS : MIXED); p++) {
                if ((k + (size_t)s.n + (size_t)p) % share) {
                    continue;
                }
                s.placing = (placing_t)p;
                if (run_calls(&s, sizes[k], s.n <= 4 ? 4 : s.n <= 9 ? 2 : 1)) {
                    ran[p]++;
                } else {
                    unfit++;
                }
            }
        }
    }
    printf("%-10s %-10s ran %u out of place, %u in place, %u mixed; did not fit %u\n", name, coll_name(s.coll),
           ran[OUT_OF_PLACE], ran[IN_PLACE], ran[MIXED], unfit);
    ck_assert_msg(ran[OUT_OF_PLACE] >= 15 / UNIT_SHARE || only_in_place(s.variant), "%s, %s hardly ran", name,
                  coll_name(s.coll));
    if (!only_out_of_place(s.variant, s.coll)) {
        ck_assert_msg(ran[IN_PLACE] >= 15 / UNIT_SHARE, "%s, %s hardly ran in place", name, coll_name(s.coll));
    }
    if (dma_coll_gathers(s.coll)) {
        ck_assert_msg(ran[MIXED] >= 15 / UNIT_SHARE, "%s, %s hardly ran mixed", name, coll_name(s.coll));
    }
}
END_TEST

static bool is_of_a_peer(const dma_plan_t *plan, const dma_operand_t *o)
{
    return o->rank != plan->rank && (o->base == DMA_BASE_SEND || o->base == DMA_BASE_RECV);
}

/* A core may read a peer's buffers where a loop has a fallback path, and may not write any. The interpreter would
 * allow more. */
START_TEST(peers_buffers)
{
    const dma_variant_t *v = dma_variants[_i / DMA_COLL_COUNT];
    dma_plan_req_t req = {.coll = (dma_coll_t)(_i % DMA_COLL_COUNT), .nranks = 4, .bytes = 16, .cross_memory = true};

    req.geom = geometry(2, 4);
    for (int in_place = 0; in_place < 2; in_place++) {
        dma_plan_t *plan;

        req.in_place = in_place;
        if (v->gpu || !dma_coll_is_served(req.coll, v->serves) || v->unfit(&req)) {
            continue;
        }
        ck_assert_int_eq(v->build(&req, 1, &plan), DMA_OK);
        for (uint32_t p = 0; p < plan->nprogs; p++) {
            for (uint32_t i = 0; i < plan->progs[p].nops; i++) {
                const dma_op_t *op = &plan->progs[p].ops[i];

                ck_assert(op->code > DMA_OP_SWAP || !is_of_a_peer(plan, &op->dst[0]));
                ck_assert(op->code != DMA_OP_COPY2 || !is_of_a_peer(plan, &op->dst[1]));
                ck_assert(op->code > DMA_OP_SWAP || op->flags & DMA_OP_DIRECT || !is_of_a_peer(plan, &op->src));
            }
        }
        dma_plan_free(plan);
    }
}
END_TEST

/* Rings and buffers of other depths, and chunks of one byte. */
START_TEST(every_geometry)
{
    static const uint32_t rings[] = {1, 2, 8}, depths[] = {1, 2, 4, 8};
    unsigned ran[DMA_COLL_COUNT] = {0};

    for (int i = 0; i < 3 * 4 * DMA_COLL_COUNT; i++) {
        scene_t s = {.variant = _i,
                     .coll = (dma_coll_t)(i / 12),
                     .geom = geometry(rings[i % 3], depths[i / 3 % 4]),
                     .placing = OUT_OF_PLACE};
        for (s.n = 1; s.n <= 5; s.n += 2) {
            s.chunk = 16;
            ran[s.coll] += run_calls(&s, 77, 2);
            s.placing = IN_PLACE;
            s.chunk = 1;
            ran[s.coll] += run_calls(&s, 9, 2);
            s.chunk = 256;
            ran[s.coll] += run_calls(&s, 256 + (dma_coll_gathers(s.coll) ? 0 : 300), 2);
            s.placing = OUT_OF_PLACE;
        }
    }
    for (int c = 0; c < DMA_COLL_COUNT; c++) {
        ck_assert_msg(ran[c] || !dma_coll_is_served((dma_coll_t)c, dma_variants[_i]->serves), "%s, %s",
                      dma_variants[_i]->name, coll_name((dma_coll_t)c));
    }
}
END_TEST

/* Calls of all operations and variants and of changing sizes, one after the other, on one communicator. */
START_TEST(mixed_calls)
{
    static const uint64_t sizes[] = {0, 8, 96, 64, 250, 700};
    static scene_t scenes[MAX_CALLS];
    const int variants = count_variants();
    interp_call_t calls[MAX_CALLS];

    for (int n = 1; n <= 6; n++) {
        for (int round = 0; round < 16; round++) {
            dma_geom_t geom = geometry(round % 2 ? 4 : 2, round % 3 ? 2 : 4);
            interp_job_t job = {.nranks = n, .geom = geom, .calls = calls, .ncalls = MAX_CALLS};

            for (int c = 0; c < MAX_CALLS; c++) {
                scene_t *s = &scenes[c];
                *s = (scene_t){.variant = (int)draw((uint32_t)variants),
                               .n = n,
                               .coll = (dma_coll_t)draw(DMA_COLL_COUNT),
                               .geom = geom,
                               .chunk = c % 2 ? 32 : CHUNK};
                s->placing = (placing_t)draw(dma_coll_gathers(s->coll) ? PLACINGS : MIXED);
                fill(s, sizes[draw(6)], uneven(s->coll));
                while (!build_plans(s)) {
                    s->variant = (s->variant + 1) % variants;
                }
                calls[c] = call_of(s);
            }
            for (int i = 0; i < 3; i++) {
                job.outstanding = i + 1;
                run(&scenes[0], &job, INTERP_OK);
            }
            for (int c = 0; c < MAX_CALLS; c++) {
                free_plans(&scenes[c]);
            }
        }
    }
}
END_TEST

/* One rank expects a byte more or less than another rank sends. It gets the error, whichever rank runs first. */
START_TEST(unequal_sides)
{
    unsigned ran = 0;

    for (int i = 0; i < DMA_COLL_COUNT * 6 * 2 * 2; i++) {
        static const uint64_t sizes[] = {1, 31, 32, 90, 200, 500};
        scene_t s = {.variant = _i,
                     .n = 2 + i % 3,
                     .coll = (dma_coll_t)(i / 24),
                     .geom = geometry(2, 2),
                     .placing = i / 12 % 2 ? IN_PLACE : OUT_OF_PLACE,
                     .chunk = CHUNK};
        int n = s.n, src = (int)draw((uint32_t)n), dst = (src + 1 + (int)draw((uint32_t)n - 1)) % n;
        uint64_t takes[MAX_RANKS * MAX_RANKS], bytes = sizes[i / 2 % 6];
        interp_call_t call;
        interp_job_t job = {.nranks = n, .geom = s.geom, .calls = &call, .ncalls = 1, .outstanding = 1};

        fill(&s, bytes, false);
        if (!build_plans(&s)) {
            continue;
        }
        for (int k = 0; k < n * n; k++) {
            takes[k] = s.bytes[k % n * n + k / n];
        }
        takes[dst * n + src] += i % 2 && (s.placing == OUT_OF_PLACE || uneven(s.coll)) ? 1 : (uint64_t)-1;
        if (s.placing == IN_PLACE &&
            !dma_coll_gathers(s.coll)) { /* one buffer: the plans of `dst` must still match it */
            s.bytes[dst * n + src] = takes[dst * n + src];
        }
        call = call_of(&s);
        call.takes = takes;
        for (int seed = 0; seed < 20; seed++) {
            run(&s, &job, INTERP_SIZE);
        }
        free_plans(&s);
        ran++;
    }
    ck_assert_uint_ge(ran, 10);
}
END_TEST

/* A plan as text. The caller frees it. */
static char *words(const scene_t *pattern, uint64_t bytes, int rank)
{
    scene_t s = *pattern;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    fill(&s, bytes, false);
    if (build_plans(&s)) {
        interp_print_plan(out, s.plans[rank]);
        free_plans(&s);
    }
    fclose(out);
    return text;
}

/* The core keeps one plan for each operation and variant, in place and out of place, for all sizes. */
START_TEST(one_plan_for_all_sizes)
{
    for (int i = 0; i < DMA_COLL_COUNT * 2 * 5; i++) {
        static const uint64_t sizes[] = {1, 7, 24, 90, 5000};
        scene_t s = {.variant = _i,
                     .n = 2 + i % 5,
                     .coll = (dma_coll_t)(i / 10),
                     .placing = i / 5 % 2 ? IN_PLACE : OUT_OF_PLACE,
                     .geom = geometry(2, 2)};
        char *first = words(&s, 0, 1);
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            char *other = words(&s, sizes[k], 1);
            ck_assert(!*other || !strcmp(first, other));
            free(other);
        }
        free(first);
    }
}
END_TEST

/* The table refuses a request by name, and no plan for it is asked for. */
START_TEST(limits)
{
    scene_t s = {.n = 4, .geom = geometry(2, 2)};
    dma_plan_req_t req = request(&s);
    struct {
        const char *name;
        dma_coll_t coll;
        uint64_t fits;
    } cases[] = {{"host_line", DMA_ALLGATHER, DMA_LINE_BYTES},
                 {"host_line", DMA_ALLGATHERV, DMA_LINE_BYTES},
                 {"host_line", DMA_ALLTOALL, 32},
                 {"host_slot", DMA_ALLGATHER, 256},
                 {"host_slot", DMA_ALLGATHERV, 256},
                 {"host_slot", DMA_ALLTOALL, 80}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int v = dma_variant_find(cases[i].name);
        req.coll = cases[i].coll;
        req.bytes = cases[i].fits;
        ck_assert_int_ge(v, 0);
        ck_assert_ptr_null(dma_variants[v]->unfit(&req));
        req.bytes++;
        ck_assert_ptr_nonnull(dma_variants[v]->unfit(&req));
    }
    req.bytes = 1000;
    req.coll = DMA_ALLGATHER;
    req.cross_memory = false;
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_reach")]->unfit(&req));
    req.geom.chunk_depth = 0;
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_pipe")]->unfit(&req));
    req.coll = DMA_ALLTOALLV;
    ck_assert_ptr_null(dma_variants[dma_variant_find("host_pair")]->unfit(&req));
    req.geom.pair_bytes = 0;
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_pair")]->unfit(&req));
    req = (dma_plan_req_t){.coll = DMA_ALLTOALL, .nranks = 4, .in_place = true, .cross_memory = true};
    ck_assert_ptr_nonnull(dma_variants[dma_variant_find("host_reach")]->unfit(&req));
    ck_assert_int_eq(dma_variant_find("host_pip"), -1);
    ck_assert_int_eq(dma_variant_find(""), -1);
}
END_TEST

/* Rank 0 expects a byte more or less than rank 1 sends. Rank 1 may succeed, or get the error. */
static void unequal_body(rank_t *r)
{
    const int *wrong = r->job->arg;
    static const int displs[] = {0, 400};
    const int send_counts[] = {300, 300}, recv_counts[] = {300, 300 + (r->rank == 0 ? *wrong : 0)};
    uint8_t *send = calloc(2, 800), *recv = send + 800;
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(send, 0), .recv = data_buffer(recv, 0)};
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    call.send.counts = send_counts;
    call.recv.counts = recv_counts;
    call.send.displs = call.recv.displs = displs;
    status = dma_comm_run(r->comms[0], &call);
    must(r, r->rank || status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
    must(r, recv[300] == 0 && recv[700 + 1] == 0, "written beside a block");
    threads_barrier(r);
    free(send);
}

START_TEST(unequal_by_the_core)
{
    static const int wrong[] = {1, -1};
    job_t job = threads_job(2, unequal_body);

    job.arg = &wrong[_i];
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plans");

    next_seed = 1000 * unit_seed();
    unit_loop(suite, every_variant, 0, count_variants() * DMA_COLL_COUNT, 60);
    unit_loop(suite, peers_buffers, 0, count_variants() * DMA_COLL_COUNT, 10);
    unit_loop(suite, every_geometry, 0, count_variants(), 60);
    unit_test(suite, mixed_calls, 60);
    unit_loop(suite, unequal_sides, 0, count_variants(), 60);
    unit_loop(suite, one_plan_for_all_sizes, 0, count_variants(), 60);
    unit_test(suite, limits, 60);
    unit_loop(suite, unequal_by_the_core, 0, 2, 20);
    return unit_main(suite);
}
