/*
 * What calls in device memory cost beside the data, in things that can be counted: questions to the runtime, allocations,
 * openings; and that ranks with several communicators, or several threads, share what they have opened.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

/* ---- counters ---- */

static _Thread_local unsigned allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    allocations++;
    return __real_calloc(n, bytes);
}

static const char *const questions[] = {"query",      "enter",         "ipc_export", "ipc_open",
                                        "ipc_close",  "host_register", "copy",       "copy_async",
                                        "device_pci", "device_count",  "copy_batch"};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* All but what is of address `query`: that is counted apart. */
static unsigned asked(void)
{
    unsigned all = 0;

    for (size_t i = 1; i < QUESTIONS; i++) {
        all += fake_gpu_calls(questions[i]);
    }
    return all;
}

static void prepare(rank_t *r, dma_comm_t *comm)
{
    dma_status_t status = dma_comm_prepare(comm);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
}

/* ---- in the steady state ---- */

enum { WARM = 4, CALLS = 20 };

static bool sends_something(const rank_t *r, const call_t *c)
{
    int all = 0;

    for (int d = 0; d < r->n; d++) {
        all += c->send_counts[d]; /* an all-gather has one */
    }
    return all > 0;
}

static void again_and_again(rank_t *r)
{
    const call_spec_t *spec = r->job->arg;
    call_t *c = call_make(r, spec);
    unsigned queries, others, before;
    dma_status_t status;

    prepare(r, r->comms[0]);
    /* a side in which there is nothing is nobody's memory */
    atomic_fetch_add(&r->job->reached, 1 + (!spec->in_place && sends_something(r, c)));
    for (uint64_t tag = 1; tag <= WARM; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    threads_barrier(r);
    queries = fake_gpu_calls("query");
    others = asked();
    threads_barrier(r);
    call_fill(r, c, 99);
    before = allocations;
    for (int k = 0; k < CALLS; k++) {
        status = dma_comm_run(r->comms[0], &c->call);
        must(r, status == DMA_OK, "%s", dma_status_name(status));
    }
    must(r, allocations - before <= CALLS, "%u allocations in %d calls", allocations - before, CALLS);
    threads_barrier(r);
    queries = fake_gpu_calls("query") - queries;
    must(r, queries == (unsigned)(CALLS * atomic_load(&r->job->reached)), "%u queries", queries);
    must(r, asked() == others, "%u other questions", asked() - others);
    threads_barrier(r);
    call_free(c);
}

START_TEST(calls_ask_what_an_address_is)
{
    call_spec_t spec = {.coll = (dma_coll_t)(_i / 2),
                        .in_place = _i % 2 && _i / 2 < 2, /* in place an all-to-all is done over the same data */
                        .elements = 3000,
                        .send = PLACE_DEVICE,
                        .recv = PLACE_DEVICE};
    job_t job = call_job(3, again_and_again, NULL);

    job.arg = &spec;
    call_run_job(&job);
}
END_TEST

static void ended(void *arg, dma_status_t status)
{
    atomic_store((_Atomic int *)arg, status == DMA_OK ? 1 : -1);
}

static void start_and_wait(rank_t *r, dma_channel_t *ch, _Atomic int *flag)
{
    atomic_store(flag, 0);
    must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
    dma_channel_prepare_next(ch);
    while (!atomic_load(flag)) {
        threads_host.progress();
    }
    must(r, atomic_load(flag) == 1, "failed");
}

static void persistent(rank_t *r)
{
    const call_spec_t *spec = r->job->arg;
    call_t *c = call_make(r, spec);
    unsigned queries, others, before;
    _Atomic int flag;
    dma_channel_t *ch;

    must(r, dma_channel_create(r->comms[0], &c->call, ended, &flag, &ch) == DMA_OK, "create");
    call_fill(r, c, 1);
    start_and_wait(r, ch, &flag);
    threads_barrier(r);
    queries = fake_gpu_calls("query");
    others = asked();
    threads_barrier(r);
    before = allocations;
    for (int k = 0; k < CALLS; k++) {
        start_and_wait(r, ch, &flag);
    }
    must(r, allocations == before, "%u allocations", allocations - before);
    threads_barrier(r);
    must(r, fake_gpu_calls("query") == queries && asked() == others, "starts have asked the runtime");
    threads_barrier(r);
    call_verify(r, c);
    dma_channel_destroy(ch);
    threads_barrier(r);
    call_free(c);
}

START_TEST(starts_ask_nothing)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 3000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    job_t job = call_job(3, persistent, NULL);

    job.arg = &spec;
    job.params.prelaunch = _i;
    call_run_job(&job);
}
END_TEST

/* ---- shared ---- */

/* The same memory on all communicators of a job: opened once by every peer, and closed at the end. */
static void on_all_communicators(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = 100, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    uint64_t tag = 0;

    for (int i = 0; i < r->job->ncomms; i++) {
        prepare(r, r->comms[i]);
        call_run(r, r->comms[i], c, ++tag);
        call_run(r, r->comms[i], c, ++tag);
    }
    threads_barrier(r);
    must(r, fake_gpu_calls("ipc_open") == (unsigned)(r->n * (r->n - 1)), "opened %u times", fake_gpu_calls("ipc_open"));
    threads_barrier(r);
    for (int i = 0; i < r->job->ncomms - 1; i++) {
        dma_comm_destroy(r->comms[i]);
        r->comms[i] = NULL;
    }
    must(r, fake_gpu_calls("ipc_close") == 0, "closed while a communicator has it open");
    threads_barrier(r);
    call_run(r, r->comms[r->job->ncomms - 1], c, ++tag);
    threads_barrier(r);
    call_free(c);
}

START_TEST(openings_are_shared)
{
    job_t job = call_job(3, on_all_communicators, NULL);
    unsigned opened, closed;

    job.ncomms = 3;
    threads_run(&job);
    engine_end();
    opened = fake_gpu_calls("ipc_open");
    closed = fake_gpu_calls("ipc_close");
    ck_assert_uint_eq(opened, closed);
    ck_assert_uint_eq(fake_gpu_calls("host_register"), fake_gpu_calls("host_unregister"));
    fake_gpu_stop();
}
END_TEST

/* ---- several threads of each rank ---- */

typedef struct helper {
    rank_t *rank;
    int index;
} helper_t;

static void *on_its_own_communicator(void *arg)
{
    helper_t *h = arg;
    rank_t *r = h->rank, mine = *r; /* random numbers of its own */
    dma_comm_t *comm = r->comms[h->index];

    mine.rng += (uint64_t)h->index * 99;
    threads_enter(r->proc);
    prepare(r, comm);
    for (uint64_t tag = 1; tag <= 25; tag++) {
        call_spec_t spec = {.coll = (dma_coll_t)(tag % DMA_COLL_COUNT),
                            .in_place = tag % 3 == 0,
                            .sizes = tag,
                            .elements = (size_t)(tag * 150),
                            .send = PLACE_DEVICE,
                            .recv = threads_random(&mine, 5) ? PLACE_DEVICE : PLACE_HOST};
        call_t *c = call_make(&mine, &spec);

        call_run(&mine, comm, c, tag + (uint64_t)h->index * 1000);
        call_free(c);
    }
    return NULL;
}

static void many_threads(rank_t *r)
{
    pthread_t threads[4];
    helper_t helpers[4];

    for (int i = 0; i < r->job->ncomms; i++) {
        helpers[i] = (helper_t){.rank = r, .index = i};
        pthread_create(&threads[i], NULL, on_its_own_communicator, &helpers[i]);
    }
    for (int i = 0; i < r->job->ncomms; i++) {
        pthread_join(threads[i], NULL);
    }
}

START_TEST(threads_on_communicators_of_their_own)
{
    job_t job = call_job(2 + _i, many_threads, NULL);

    job.ncomms = 4;
    job.threads = true;
    job.params.arena_bytes = 8u << 20;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- without shared memory ---- */

static void posted(rank_t *r)
{
    for (uint64_t tag = 1; tag <= 12; tag++) {
        call_place_t place = (call_place_t)threads_random(r, PLACES);
        call_spec_t spec = {.coll = (dma_coll_t)(tag % DMA_COLL_COUNT),
                            .in_place = tag % 3 == 0,
                            .sizes = tag,
                            .elements = (size_t)(tag * 99),
                            .send = place,
                            .recv = (call_place_t)threads_random(r, PLACES)};
        call_t *c = call_make(r, &spec);
        dma_task_t *task;
        dma_status_t status;

        call_fill(r, c, tag);
        must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
        while ((status = dma_task_test(task)) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
        call_verify(r, c);
        task_free(task);
        call_free(c);
    }
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_ASIDE, "not aside");
}

static void no_arena(int rank, dma_params_t *params)
{
    params->arena_bytes = rank ? params->arena_bytes : 0;
}

/* A communicator that is not for us: calls already posted are done by messages, and those know nothing of devices. */
START_TEST(by_messages)
{
    job_t job = call_job(2 + _i, posted, NULL);

    job.tune = no_arena;
    call_run_job(&job);
    ck_assert_uint_eq(engine_calls(ENGINE_START), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_cost");

    unit_loop(s, calls_ask_what_an_address_is, 0, 8, 10);
    unit_loop(s, starts_ask_nothing, 0, 2, 10);
    unit_test(s, openings_are_shared, 10);
    unit_loop(s, threads_on_communicators_of_their_own, 0, 2, 60);
    unit_loop(s, by_messages, 0, 3, 20);
    return unit_main(s);
}
