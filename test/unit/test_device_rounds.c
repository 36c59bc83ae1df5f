/*
 * Rounds of allocate, call, free: nothing grows. Descriptors, mappings, device memory, pinned memory, shared memory and what
 * peers keep open are as large after many rounds as after few. COLL_DMA_TEST_ROUNDS: how many rounds; the suite `rounds` of
 * ./check has 10000.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

enum { RANKS = 2, FEW = 12 * DMA_COLL_COUNT, ROUNDS = 4 * FEW };

static unsigned long count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned long n = 0;

    for (int c; f && (c = fgetc(f)) != EOF;) {
        n += c == '\n';
    }
    if (f) {
        fclose(f);
    }
    return n;
}

static unsigned long count_files(const char *path)
{
    DIR *d = opendir(path);
    unsigned long n = 0;

    while (d && readdir(d)) {
        n++;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* What the process has. */
typedef struct have {
    unsigned long files, maps;
    uint64_t device, pinned, kept, arena;
} have_t;

static have_t look(const rank_t *r)
{
    have_t have = {.files = count_files("/proc/self/fd"),
                   .maps = count_lines("/proc/self/maps"),
                   .pinned = fake_gpu_pinned(),
                   .kept = fake_gpu_kept()};

    for (int d = 0; d < RANKS; d++) {
        have.device += fake_gpu_given(d);
    }
    have.arena = dma_proc_left(r->proc);
    return have;
}

static int rounds(void)
{
    const char *text = getenv("COLL_DMA_TEST_ROUNDS");
    int n = text ? atoi(text) : 0;

    return n > FEW ? n : ROUNDS;
}

/* New buffers in every round, and the operations, places and sizes in turn. Every seventh round uses a communicator of its
 * own until it has ended. */
static void body(rank_t *r)
{
    bool staged = *(const int *)r->job->arg;
    int n = rounds();
    have_t few = {0}, now;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < n; i++) {
        call_spec_t spec = {.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                            .in_place = i / DMA_COLL_COUNT % 2,
                            .sizes = (uint64_t)(i % 12),
                            .elements = i % 3 == 0 ? 60000 : 3000,
                            .send = PLACE_DEVICE,
                            .recv = staged || i % 2 ? PLACE_DEVICE : PLACE_FINE};
        call_t *c = call_make(r, &spec);

        call_run(r, r->comms[0], c, (uint64_t)i + 1);
        threads_barrier(r);
        call_free(c);
        threads_barrier(r);
        if (i + 1 == FEW) {
            few = look(r);
        }
        threads_barrier(r);
    }
    now = look(r);
    must(r, now.files <= few.files + 4, "%lu descriptors, %lu before", now.files, few.files);
    must(r, now.maps <= few.maps + 16, "%lu mappings, %lu before", now.maps, few.maps);
    must(r, now.device <= few.device, "%lu bytes of devices, %lu before", now.device, few.device);
    must(r, now.pinned <= few.pinned, "%lu bytes pinned, %lu before", now.pinned, few.pinned);
    must(r, now.kept <= few.kept + 2 * RANKS * UINT64_C(200000), "%lu bytes kept open, %lu before", now.kept, few.kept);
    must(r, now.arena == few.arena, "%lu bytes of shared memory left, %lu before", now.arena, few.arena);
    threads_barrier(r);
}

static void run_rounds(int staged)
{
    job_t job = call_job(RANKS, body, NULL);

    job.arg = &staged;
    job.params.scratch_bytes = 120000;
    job.params.pinned_bytes = 1u << 20;
    if (staged) {
        snprintf(job.params.engine, sizeof(job.params.engine), "none");
    }
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}

START_TEST(nothing_grows)
{
    run_rounds(_i);
    ck_assert_uint_gt(counts_sum(_i ? DMA_COUNT_calls_staged : DMA_COUNT_calls_pieces), 0);
}
END_TEST

/* Communicators come and go, too. */
static void comings(rank_t *r)
{
    int n = rounds() / 12;
    have_t few = {0}, now;

    for (int i = 0; i < n + 4; i++) {
        call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 30000, .send = PLACE_DEVICE, .recv = PLACE_FINE};
        dma_comm_t *comm = i ? threads_comm(r, 1) : r->comms[0];
        call_t *c = call_make(r, &spec);

        must(r, dma_comm_prepare(comm) == DMA_OK, "set-up");
        call_run(r, comm, c, (uint64_t)i + 1);
        threads_barrier(r);
        call_free(c);
        if (i) {
            dma_comm_destroy(comm);
        }
        threads_barrier(r);
        if (i == 3) {
            few = look(r);
        }
        threads_barrier(r);
    }
    now = look(r);
    must(r, now.files <= few.files + 4 && now.maps <= few.maps + 16,
         "%lu descriptors, %lu before; %lu mappings, %lu before", now.files, few.files, now.maps, few.maps);
    must(r, now.device <= few.device && now.pinned <= few.pinned, "device %lu, %lu before; pinned %lu, %lu before",
         now.device, few.device, now.pinned, few.pinned);
    threads_barrier(r);
}

START_TEST(communicators_come_and_go)
{
    job_t job = call_job(RANKS, comings, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_rounds");

    unit_loop(suite, nothing_grows, 0, 2, 580);
    unit_test(suite, communicators_come_and_go, 300);
    return unit_main(suite);
}
