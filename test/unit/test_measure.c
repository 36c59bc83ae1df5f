/* The measured costs of copies between processes: that they are measured, what they are used for, and what a peer
 * cannot do with them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "core/setup/measure.h"
#include "libthreads.h"
#include "libunit.h"

#define US UINT64_C(1000000) /* picoseconds */

static bool apply(dma_profile_t *profile, const dma_measured_t *measured, int n, bool oversubscribed)
{
    dma_measured_t mean = dma_measure_mean(measured, n);

    return dma_measure_apply(profile, &mean, oversubscribed);
}

START_TEST(something_is_measured)
{
    char *region = aligned_alloc(4096, DMA_MEASURE_BYTES);
    dma_measured_t m;

    dma_measure_write(region);
    m = dma_measure_read(region, getpid(), (uint64_t)(uintptr_t)region);
    ck_assert_uint_gt(m.copy, 0);
    ck_assert_uint_gt(m.pull, 0);
    ck_assert_uint_gt(m.cross, 0);
    ck_assert_uint_gt(m.page, 0);
    m = dma_measure_read(region, 0, (uint64_t)(uintptr_t)region);
    ck_assert(m.pull && !m.cross && !m.page);
    m = dma_measure_read(region, getppid(), 64); /* nothing is there */
    ck_assert(m.pull && !m.cross && !m.page);
    free(region);
}
END_TEST

/* A rank writes again to what its reader has read, and not earlier. */
START_TEST(written_again)
{
    char *own = aligned_alloc(4096, DMA_MEASURE_BYTES), *readers = aligned_alloc(4096, DMA_MEASURE_BYTES);
    char *before = malloc(DMA_MEASURE_BYTES);

    memset(readers, 255, DMA_MEASURE_BYTES); /* the content before a region was written */
    dma_measure_write(own);
    dma_measure_write(readers);
    memcpy(before, own, DMA_MEASURE_BYTES);
    ck_assert_uint_eq(dma_measure_rewrite(own, readers), 0);
    ck_assert(!memcmp(before, own, DMA_MEASURE_BYTES));
    dma_measure_set_read(readers);
    ck_assert_uint_gt(dma_measure_rewrite(own, readers), 0);
    ck_assert(memcmp(before, own, DMA_MEASURE_BYTES));
    ck_assert_uint_eq(dma_measure_rewrite(readers, own), 0); /* this rank's values have no influence */
    free(before);
    free(readers);
    free(own);
}
END_TEST

START_TEST(all_adopt_the_means)
{
    const dma_profile_t before = dma_profile_default();
    dma_profile_t profile = before;
    dma_measured_t m[2] = {{.copy = US / 2, .pull = US, .cross = 2 * US, .page = US / 2},
                           {.copy = US / 2, .pull = 3 * US, .cross = 4 * US, .page = US}};

    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.copy_mbps, 32768);
    ck_assert_uint_eq(profile.pull_mbps, 8192);
    ck_assert_uint_eq(profile.push_mbps, 8192 / 4 / 3);
    ck_assert_uint_eq(profile.slot_mbps, 8192 / 4 / 3);
    ck_assert_uint_eq(profile.cross_ps, 3 * US);
    ck_assert_uint_eq(profile.cross_mbps, 4096 * 4 / 3);
    ck_assert_uint_eq(profile.cross_page_ps, 0);
    ck_assert_uint_eq(profile.memory_mbps, before.memory_mbps);

    /* if ranks take turns on cores, no reader still has a line in its cache */
    profile = before;
    ck_assert(apply(&profile, m, 2, true));
    ck_assert_uint_eq(profile.pull_mbps, 8192);
    ck_assert_uint_eq(profile.push_mbps, 8192);
    ck_assert_uint_eq(profile.slot_mbps, 8192);

    /* the measured cost of writing again counts for slots, if all ranks have measured it */
    profile = before;
    m[0].push = US;
    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.slot_mbps, 8192 / 4 / 3);
    m[1].push = 3 * US;
    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.slot_mbps, 8192);
    ck_assert_uint_eq(profile.push_mbps, 8192 / 4 / 3);
    m[0].push = m[1].push = 1;
    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.slot_mbps, profile.copy_mbps);
    m[0].push = m[1].push = 0;

    /* another core's data does not arrive faster than the own core's */
    m[0].pull = m[1].pull = US / 4;
    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.pull_mbps, profile.copy_mbps);

    /* one rank cannot read the others' memory */
    profile = before;
    m[1].cross = m[1].page = 0;
    ck_assert(apply(&profile, m, 2, false));
    ck_assert_uint_eq(profile.copy_mbps, 32768);
    ck_assert_uint_eq(profile.cross_ps, before.cross_ps);
    ck_assert_uint_eq(profile.cross_mbps, before.cross_mbps);
    ck_assert_uint_eq(profile.cross_page_ps, before.cross_page_ps);
}
END_TEST

START_TEST(no_rank_alone)
{
    static const dma_measured_t wrong[] = {
        {0},
        {.copy = US},
        {.pull = US},
        {.copy = UINT64_MAX, .pull = US},
        {.copy = US, .pull = UINT64_MAX},
        {.copy = US, .pull = US, .cross = UINT64_MAX, .page = 1},
        {.copy = US, .pull = US, .cross = 1, .page = UINT64_MAX},
        {.copy = US, .pull = US, .push = UINT64_MAX},
    };
    dma_measured_t m[3] = {{.copy = US, .pull = US}, wrong[_i], {.copy = US, .pull = US}};
    const dma_profile_t before = dma_profile_default();
    dma_profile_t profile = before;

    ck_assert(!apply(&profile, m, 3, false));
    ck_assert(!memcmp(&profile, &before, sizeof(profile)));
}
END_TEST

/* No rate is 0, because rates are divisors. */
START_TEST(the_slowest_and_the_fastest)
{
    dma_measured_t m = {.copy = 1, .pull = (UINT64_C(1) << 40) - 1, .cross = 1, .page = (UINT64_C(1) << 40) - 1};
    dma_profile_t profile = dma_profile_default();

    ck_assert(apply(&profile, &m, 1, false));
    ck_assert(profile.copy_mbps && profile.pull_mbps && profile.push_mbps && profile.slot_mbps && profile.cross_mbps);
    ck_assert_uint_le(profile.copy_mbps, 1000000);
}
END_TEST

/* ---- between ranks ---- */

/* Blocks of all sizes around the limits of the choice. */
static void gathers(rank_t *r)
{
    enum { MOST = 150000 };
    uint8_t *send = malloc(MOST), *recv = malloc((size_t)r->n * MOST);
    dma_comm_t *comm = r->comms[0];

    threads_prepare(r, comm);
    for (uint64_t tag = 1; tag <= 100; tag++) {
        size_t bytes = (size_t)(tag * tag * tag) % MOST;
        dma_side_t from = data_buffer(send, bytes), to = data_buffer(recv, bytes);
        dma_status_t status;

        data_fill(send, tag, r->rank, bytes);
        status = data_allgather(comm, &from, &to);
        must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
        data_check(r, recv, tag, bytes);
    }
    free(send);
    free(recv);
}

static void no_region_of_rank_1(int rank, dma_params_t *params)
{
    params->measure = rank != 1;
}

static void not_wanted_by_rank_0(int rank, dma_params_t *params)
{
    params->measure = rank != 0;
}

/* The measured costs differ from run to run, and so do the plans. They do not differ from rank to rank. */
START_TEST(ranks_choose_alike)
{
    void (*const tunes[])(int rank, dma_params_t *params) = {NULL, no_region_of_rank_1, not_wanted_by_rank_0};
    static const int ranks[] = {2, 3, 4, 7};

    for (int i = 0; i < 4; i++) {
        job_t job = threads_job(ranks[i], gathers);

        job.params.measure = 1;
        job.params.arena_bytes = 8u << 20;
        job.tune = tunes[_i];
        threads_run(&job);
        ck_assert_int_eq(reports_count("measured"), _i ? 0 : job.ncomms);
    }
}
END_TEST

/* What the ranks know of each other is found out once. A set-up takes two exchanges, and one if all ranks know it alike. */
static void sets_up_again(rank_t *r)
{
    int rounds = 0, sent[4];

    for (int n = 1; n < r->n; n *= 2) {
        rounds++;
    }
    for (int i = 0; i < 4; i++) {
        threads_barrier(r);
        sent[i] = group_sends(r->job->groups[i], r->rank);
        if (i == 2 && r->rank == r->n - 1) {
            r->proc->known[0]
                .number++; /* something else, as after a set-up that has ended elsewhere in another order */
        }
        threads_prepare(r, r->comms[i]);
        sent[i] = group_sends(r->job->groups[i], r->rank) - sent[i];
        must(r, sent[i] == (i % 2 ? 1 : 2) * rounds, "set-up %d: %d messages", i, sent[i]);
        must(r, !memcmp(&r->comms[i]->profile, &r->comms[i & 2]->profile, sizeof(dma_profile_t)), "set-up %d", i);
        must(r, r->comms[i]->req.cross_memory == r->comms[0]->req.cross_memory, "set-up %d", i);
    }
    gathers(r);
}

START_TEST(found_out_once)
{
    static const int ranks[] = {2, 3, 4, 7};

    for (int i = 0; i < 4; i++) {
        job_t job = threads_job(ranks[i], sets_up_again);

        job.ncomms = 4;
        job.params.measure = 1;
        job.params.arena_bytes = 8u << 20;
        threads_run(&job);
        ck_assert_int_eq(reports_count("measured"), 4);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measure");

    unit_test(suite, something_is_measured, 10);
    unit_test(suite, written_again, 10);
    unit_test(suite, all_adopt_the_means, 4);
    unit_loop(suite, no_rank_alone, 0, 8, 4);
    unit_test(suite, the_slowest_and_the_fastest, 4);
    unit_loop(suite, ranks_choose_alike, 0, 3, 20);
    unit_test(suite, found_out_once, 20);
    return unit_main(suite);
}
