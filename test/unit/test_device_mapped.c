/*
 * Collectives in virtually mapped memory: on the engines where its owner can share it, by scratch memory where not. What comes out
 * is right whatever the owners map, unmap and map again.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

#define RANKS 3

static char session[64];

/* A job whose ranks can give each other file descriptors. */
static job_t mapped_job(int n, void (*body)(rank_t *r), const void *arg)
{
    job_t job = call_job(n, body, NULL);

    snprintf(session, sizeof(session), "/tmp/dma-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(session));
    job.session_dir = session;
    job.arg = (void *)(uintptr_t)arg;
    return job;
}

/* Nothing is left, in the directory either, and all went well. */
static void run_mapped_job(job_t *job)
{
    call_run_job(job);
    ck_assert_int_eq(rmdir(session), 0);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_memory_vmm) + reasons_count(DMA_REASON_memory_unshared), 0);
}

static void prepare(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
}

/* ---- all calls, all ranks or some ---- */

static const call_spec_t specs[] = {
    {.coll = DMA_ALLGATHER, .elements = 5003},
    {.coll = DMA_ALLGATHER, .elements = 5003, .in_place = true},
    {.coll = DMA_ALLTOALL, .elements = 7001},
    {.coll = DMA_ALLTOALL, .elements = 7001, .in_place = true},
    {.coll = DMA_ALLGATHERV, .elements = 9000, .sizes = 3},
    {.coll = DMA_ALLTOALLV, .elements = 9000, .sizes = 5},
    {.coll = DMA_ALLGATHER, .elements = 3000, .vector = true},
    {.coll = DMA_ALLTOALL, .elements = 1},
};

typedef struct mix {
    size_t spec;
    unsigned mask; /* ranks whose buffers are mapped; the others' are plain device memory */
} mix_t;

static void some_mapped(rank_t *r)
{
    const mix_t *mix = r->job->arg;
    call_spec_t spec = specs[mix->spec];
    call_t *c;
    uint32_t runs;

    spec.send = spec.recv = mix->mask >> r->rank & 1 ? PLACE_MAPPED : PLACE_DEVICE;
    c = call_make(r, &spec);
    prepare(r);
    for (uint64_t tag = 1; tag <= 5; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    runs = call_runs(r->comms[0]);
    must(r, runs == 5, "the engine has run %u times", runs);
    threads_barrier(r);
    call_free(c);
}

START_TEST(every_call)
{
    static const unsigned masks[] = {7, 2, 5};

    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        mix_t mix = {.spec = (size_t)_i, .mask = masks[i]};
        job_t job = mapped_job(RANKS, some_mapped, &mix);

        run_mapped_job(&job);
    }
}
END_TEST

/* ---- memory that its owner maps anew ---- */

static const call_spec_t all_to_all = {
    .coll = DMA_ALLTOALL, .elements = 7001, .send = PLACE_DEVICE, .recv = PLACE_MAPPED};

/* At the same addresses all parts, or one of them, on all ranks or on one. Ids of buffers and bases of ranges stay. */
static void map_again(rank_t *r)
{
    const int *how = r->job->arg;
    call_t *c = call_make(r, &all_to_all);

    prepare(r);
    for (uint64_t tag = 1; tag <= 2 * DEVICE_SLOTS + 3; tag++) {
        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        if (*how & 1 || r->rank == 1) {
            if (*how & 2) {
                call_move(r, c, true);
            } else {
                fake_gpu_remap(c->recv.base, (unsigned)tag % 5);
            }
        }
        threads_barrier(r);
    }
    must(r, call_runs(r->comms[0]) == 2 * DEVICE_SLOTS + 3, "not all on the engine");
    threads_barrier(r);
    call_free(c);
}

START_TEST(mapped_again_at_the_same_addresses)
{
    job_t job = mapped_job(RANKS, map_again, &_i);

    run_mapped_job(&job);
}
END_TEST

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* What has been unmapped is given back: neither file descriptors nor mappings add up. */
static void many_rounds(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_MAPPED};
    call_t *c = call_make(r, &spec);
    int first = 0;

    prepare(r);
    for (uint64_t tag = 1; tag <= 1000; tag++) {
        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        if (tag == 10) {
            first = open_files();
        }
        threads_barrier(r);
        call_move(r, c, true);
        threads_barrier(r);
    }
    /* of another rank, the answer's last message may still be under way */
    must(r, open_files() <= first + 40, "%d files are open, %d were", open_files(), first);
    threads_barrier(r);
    call_free(c);
}

START_TEST(file_descriptors_do_not_add_up)
{
    job_t job = mapped_job(2, many_rounds, NULL);

    run_mapped_job(&job);
}
END_TEST

/* Two buffers that have parts in common, in turn: each is opened once. */
static void in_common(rank_t *r)
{
    enum { BYTES = 6000, PARTS = 7 };
    char *memory = fake_gpu_map(r->rank, PARTS * 4096, 4096, true),
         *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES);
    dma_side_t from = {.addr = send, .dense = true, .width = 1, .size = 1, .extent = 1, .ub = 1, .count = BYTES},
               to = from;
    dma_call_t call = {.coll = DMA_ALLGATHER};

    prepare(r);
    for (int i = 0; i < 40; i++) {
        char *at = memory + (i % 2 ? 2 * 4096 + 77 : 11);

        memset(send, 16 * r->rank + i, BYTES);
        to.addr = at;
        call.send = from;
        call.recv = to;
        must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        for (int b = 0; b < r->n * BYTES; b++) {
            must(r, at[b] == (char)(16 * (b / BYTES) + i), "byte %d of call %d is %d", b, i, at[b]);
        }
        threads_barrier(r);
    }
    threads_barrier(r);
    fake_gpu_unmap(memory);
    fake_gpu_free(send);
}

START_TEST(parts_in_common)
{
    job_t job = mapped_job(2, in_common, NULL);
    unsigned imports;

    threads_run(&job);
    imports = fake_gpu_calls("map_import");
    engine_end();
    fake_gpu_stop();
    ck_assert_int_eq(rmdir(session), 0);
    ck_assert_uint_eq(imports, 2 * (3 + 3)); /* 11 .. 12010 and 8269 .. 20268 */
}
END_TEST

/* ---- what cannot be shared ---- */

static void without_handles(rank_t *r)
{
    enum { BYTES = 6000 };
    char *recv = fake_gpu_map(r->rank, RANKS * BYTES, 4096, r->rank != 1);
    char *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES);
    dma_side_t side = {.addr = send, .dense = true, .width = 1, .size = 1, .extent = 1, .ub = 1, .count = BYTES};
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = side, .recv = side};

    prepare(r);
    call.recv.addr = recv;
    memset(send, 'a' + r->rank, BYTES);
    must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    for (int b = 0; b < RANKS * BYTES; b++) {
        must(r, recv[b] == 'a' + b / BYTES, "byte %d is %d", b, recv[b]);
    }
    must(r, call_runs(r->comms[0]) == 1, "not on the engine");
    threads_barrier(r);
    fake_gpu_unmap(recv);
    fake_gpu_free(send);
}

START_TEST(made_without_handles)
{
    job_t job = mapped_job(RANKS, without_handles, NULL);

    call_run_job(&job);
    ck_assert_int_eq(rmdir(session), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_memory_vmm), 1);
}
END_TEST

static void few_calls(rank_t *r)
{
    const uint32_t *least = r->job->arg;
    call_t *c = call_make(r, &all_to_all);
    uint32_t runs;

    prepare(r);
    for (uint64_t tag = 1; tag <= 8; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    runs = call_runs(r->comms[0]);
    must(r, runs == *least, "the engine has run %u times", runs);
    threads_barrier(r);
    call_free(c);
}

START_TEST(no_directory)
{
    static const uint32_t all = 8;
    job_t job = call_job(RANKS, few_calls, NULL);

    job.arg = (void *)(uintptr_t)&all;
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_memory_unshared), RANKS * 8);
}
END_TEST

/* One rank fails to import once, or to export: that call goes through the host, and all ranks use scratch memory from then on. */
START_TEST(cannot_be_opened)
{
    static const char *const functions[] = {"map_import", "map_export", "reserve"};
    static const uint32_t most = 7;
    job_t job = mapped_job(RANKS, few_calls, &most);

    fake_gpu_fail(functions[_i % 3], _i / 3 ? 4 : 0, DMA_UNSUPPORTED);
    call_run_job(&job);
    ck_assert_int_eq(rmdir(session), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_open_failed), 1);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_peer), RANKS);
    ck_assert_uint_eq(reasons_count(DMA_REASON_memory_unshared), RANKS * 7);
    ck_assert_int_eq(reports_count("device off"), 0);
}
END_TEST

/* ---- the end ---- */

/* The kernel may show a thread for a moment after it was joined. */
static bool are_there_threads(const char *names, bool wanted)
{
    char command[100];

    snprintf(command, sizeof(command), "grep -qxE '%s' /proc/%d/task/*/comm", names, (int)getpid());
    for (int tries = 0; tries < 100 && (system(command) == 0) != wanted; tries++) {
        usleep(20000);
    }
    return system(command) == 0;
}

/* The process object stays because of a communicator, and the code is unmapped. No rank can ask any more. */
static void abandon(rank_t *r)
{
    call_t *c = call_make(r, &all_to_all);

    prepare(r);
    call_run(r, r->comms[0], c, 1);
    must(r, are_there_threads("coll_dma fds", true), "no giver");
    threads_barrier(r);
    dma_proc_abandon(r->proc);
    threads_barrier(r);
    must(r, !are_there_threads("coll_dma( fds)?", false), "a thread is left");
    must(r, !dma_ipc_shares_mapped(r->proc->ipc), "it still gives");
    threads_barrier(r);
    call_free(c);
}

START_TEST(abandoned)
{
    job_t job = mapped_job(RANKS, abandon, NULL);

    run_mapped_job(&job);
}
END_TEST

/* ---- what it costs ---- */

/* Plain memory: nothing. Mapped memory: one question for each part that the buffer touches. */
static void counted(rank_t *r)
{
    const call_place_t *place = r->job->arg;
    call_spec_t spec = {.coll = DMA_ALLGATHER, .in_place = true, .elements = 5000, .send = *place, .recv = *place};
    call_t *c = call_make(r, &spec);
    unsigned before, asked, parts = *place == PLACE_MAPPED ? 3 : 0; /* 10000 bytes at 96 or 97 */

    prepare(r);
    call_run(r, r->comms[0], c, 1);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    before = fake_gpu_calls("mapping");
    threads_barrier(r);
    for (uint64_t tag = 3; tag <= 12; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    threads_barrier(r);
    asked = fake_gpu_calls("mapping") - before;
    must(r, asked == 2 * 10 * parts, "asked %u times", asked);
    must(r, fake_gpu_calls("map_export") == 2 * parts, "exported %u times", fake_gpu_calls("map_export"));
    threads_barrier(r);
    call_free(c);
}

START_TEST(questions)
{
    static const call_place_t places[] = {PLACE_DEVICE, PLACE_MAPPED};
    job_t job = mapped_job(2, counted, &places[_i]);

    run_mapped_job(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_mapped");

    unit_loop(s, every_call, 0, (int)(sizeof(specs) / sizeof(specs[0])), 60);
    unit_loop(s, mapped_again_at_the_same_addresses, 0, 4, 60);
    unit_test(s, file_descriptors_do_not_add_up, 90);
    unit_test(s, parts_in_common, 30);
    unit_test(s, made_without_handles, 30);
    unit_test(s, no_directory, 30);
    unit_loop(s, cannot_be_opened, 0, 6, 30);
    unit_test(s, abandoned, 30);
    unit_loop(s, questions, 0, 2, 30);
    return unit_main(s);
}
