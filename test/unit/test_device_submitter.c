/*
 * Posted calls in device memory whose ranks do not arrive together: a thread starts the copies while the application computes.
 * With ranks, devices and engines that are threads. Meant to be run plain and under the address and thread sanitizers.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

static _Atomic unsigned wakes;                   /* bells of others that the thread of a late rank has rung */
static _Thread_local const dma_bell_t *own_bell; /* of a late rank */
static _Atomic(dma_bell_t *) first_bell;         /* of rank 0 */

void __real_dma_bell_wake(dma_bell_t *bell);
void __wrap_dma_bell_wake(dma_bell_t *bell);

void __wrap_dma_bell_wake(dma_bell_t *bell)
{
    atomic_fetch_add(&wakes, own_bell && bell != own_bell);
    __real_dma_bell_wake(bell);
}

#define LONG_US 120000000 /* nothing that works takes so long, even on a busy machine */
#define SOME_US 300000    /* time enough for what must not happen */

static const call_spec_t gather = {.coll = DMA_ALLGATHER, .elements = 900, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

static void prepare(rank_t *r, dma_comm_t *comm)
{
    dma_status_t status = dma_comm_prepare(comm);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
}

/* Threads of the submitter in this program: they have a name. */
static int submitters(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while (tasks && (entry = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        if ((file = fopen(path, "r"))) {
            n += fgets(name, sizeof(name), file) && !strcmp(name, "coll_dma\n");
            fclose(file);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
    return n;
}

/* Waits without progress, as an application that computes. */
static bool computed_until(rank_t *r, int value, unsigned us)
{
    double until = dma_now() + us * 1e-6;

    while (atomic_load(&r->job->reached) < value) {
        if (dma_now() > until) {
            return false;
        }
        usleep(50);
    }
    return true;
}

static void reach(rank_t *r)
{
    atomic_fetch_add(&r->job->reached, 1);
}

/* ---- posts ---- */

typedef struct posted {
    call_t *call;
    dma_task_t *task;
} posted_t;

static posted_t post(rank_t *r, dma_comm_t *comm, const call_spec_t *spec, uint64_t tag)
{
    posted_t p = {.call = call_make(r, spec)};
    dma_status_t status;

    call_fill(r, p.call, tag);
    status = task_post(comm, &p.call->call, NULL, NULL, &p.task);
    must(r, status == DMA_OK, "%s", dma_status_name(status));
    return p;
}

static dma_status_t finish(const posted_t *p)
{
    dma_status_t status;

    while ((status = dma_task_test(p->task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(p->task);
    return status;
}

static void finish_well(rank_t *r, const posted_t *p)
{
    dma_status_t status = finish(p);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
    call_verify(r, p->call);
}

/* The communicator knows the device, and the peers each other's memory, after a first call. */
static void warm_up(rank_t *r, dma_comm_t *comm)
{
    call_t *c = call_make(r, &gather);

    prepare(r, comm);
    call_run(r, comm, c, 1);
    threads_barrier(r);
    call_free(c);
}

/* ---- the first rank computes, the others are late ---- */

/* The argument: how many calls rank 0 posts, one behind the other, and whether the others get their data meanwhile. */
typedef struct late {
    int posts;
    bool overlap;
} late_t;

static void first_rank_computes(rank_t *r)
{
    const late_t *want = r->job->arg;
    posted_t p[3];

    warm_up(r, r->comms[0]);
    own_bell = r->rank ? dma_arena_bell(dma_arena_base(r->proc->arena)) : NULL;
    if (r->rank == 0) {
        atomic_store(&first_bell, dma_arena_bell(dma_arena_base(r->proc->arena)));
    }
    threads_barrier(r);
    if (r->rank) {
        usleep(20000 + threads_random(r, 20000));
        while (want->overlap && !atomic_load(&atomic_load(&first_bell)->listening)) {
            usleep(50); /* rank 0's thread does not sleep yet */
        }
    }
    for (int i = 0; i < want->posts; i++) {
        p[i] = post(r, r->comms[0], &gather, (uint64_t)(10 + i));
    }
    if (r->rank == 0) {
        bool others = computed_until(r, r->n - 1, want->overlap ? LONG_US : SOME_US);

        must(r, others == want->overlap, others ? "others were done" : "the others still wait");
    }
    for (int i = 0; i < want->posts; i++) {
        finish_well(r, &p[i]);
    }
    reach(r);
    threads_barrier(r);
    for (int i = 0; i < want->posts; i++) {
        call_free(p[i].call);
    }
}

START_TEST(copies_start_while_the_application_computes)
{
    for (int n = 2; n <= 4; n++) {
        late_t want = {.posts = 1 + _i, .overlap = true};
        engine_options_t options = {.seed = unit_seed(), .max_ways = 16, .again = _i == 1};
        job_t job = call_job(n, first_rank_computes, &options);

        job.arg = &want;
        wakes = 0;
        call_run_job(&job);
        ck_assert_int_eq(submitters(), 0);
        ck_assert_uint_ge(wakes, 1); /* else it has found the late rank when its time was over */
    }
}
END_TEST

START_TEST(without_the_thread_they_wait)
{
    late_t want = {.posts = 1, .overlap = false};
    job_t job = call_job(2, first_rank_computes, NULL);

    job.params.progress_thread = 0;
    job.arg = &want;
    call_run_job(&job);
}
END_TEST

/* ---- starts of a persistent call ---- */

static _Atomic int starts_ended[16];

static void start_ended(void *arg, dma_status_t status)
{
    atomic_store(&starts_ended[*(const int *)arg], status == DMA_OK ? 1 : -1);
}

static void start_is_late(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_channel_t *channel;

    prepare(r, r->comms[0]);
    must(r, dma_channel_create(r->comms[0], &c->call, start_ended, &r->rank, &channel) == DMA_OK, "init");
    for (int round = 0; round < 3; round++) {
        atomic_store(&starts_ended[r->rank], 0);
        call_fill(r, c, (uint64_t)(20 + round));
        threads_barrier(r);
        if (r->rank) {
            usleep(20000);
            own_bell = dma_arena_bell(dma_arena_base(r->proc->arena));
        }
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
        dma_channel_prepare_next(channel);
        if (r->rank == 0) {
            must(r, computed_until(r, (round + 1) * r->n - 1, LONG_US), "the others still wait for start %d", round);
        }
        while (!atomic_load(&starts_ended[r->rank])) {
            threads_host.progress();
        }
        must(r, atomic_load(&starts_ended[r->rank]) == 1, "start %d", round);
        call_verify(r, c);
        reach(r);
        threads_barrier(r);
    }
    dma_channel_destroy(channel);
    threads_barrier(r);
    call_free(c);
}

START_TEST(starts_begin_while_the_application_computes)
{
    engine_options_t options = {.seed = unit_seed(), .max_ways = 16};
    job_t job = call_job(2, start_is_late, &options);

    wakes = 0;
    call_run_job(&job);
    ck_assert_uint_ge(wakes, 1);
}
END_TEST

/* The engine of the late rank has its programs already, so it has nothing to submit itself. */
START_TEST(an_armed_start_wakes_the_others)
{
    engine_options_t options = {.seed = unit_seed(), .features = DMA_GPU_PRELAUNCH, .max_ways = 16};
    job_t job = call_job(2, start_is_late, &options);

    engine_refuse(ENGINE_ARM, 0, 1);
    wakes = 0;
    call_run_job(&job);
    ck_assert_uint_gt(engine_armed(), 0);
    ck_assert_uint_ge(wakes, 1);
}
END_TEST

/* ---- events ---- */

#ifdef DMA_HAVE_EVENTS
static _Thread_local bool is_application;
static _Thread_local int begun, ended;
static _Atomic int raised_elsewhere;

static void note_begin(const dma_event_t *event)
{
    begun += event->status == 0;
    raised_elsewhere += !is_application;
}

static void note_end(const dma_event_t *event)
{
    ended += event->status == 0 && event->bytes == gather.elements && event->ns > 0;
    raised_elsewhere += !is_application;
}

static void count_done(void *arg, dma_status_t status)
{
    *(int *)arg += status == DMA_OK;
}

/* The thread ends all calls of rank 0 but the last, as the next one could not begin otherwise. */
static void a_listener_hears(rank_t *r)
{
    enum { POSTS = 3 };
    static const volatile int32_t one = 1;
    static const dma_events_t events = {
        .begin_listeners = &one, .end_listeners = &one, .raise_begin = note_begin, .raise_end = note_end};
    dma_comm_t *comm = r->comms[0];
    dma_task_t *tasks[POSTS];
    call_t *calls[POSTS];
    int done = 0;

    warm_up(r, comm);
    is_application = true;
    r->proc->events = &events;
    comm->begin_listeners = comm->end_listeners = &one;
    threads_barrier(r);
    if (r->rank) {
        usleep(20000);
    }
    for (int i = 0; i < POSTS; i++) {
        calls[i] = call_make(r, &gather);
        call_fill(r, calls[i], (uint64_t)(10 + i));
        must(r, task_post(comm, &calls[i]->call, count_done, &done, &tasks[i]) == DMA_OK, "post %d", i);
    }
    if (r->rank == 0) {
        must(r, computed_until(r, r->n - 1, LONG_US), "the others still wait");
        must(r, ended == 0, "%d ends while the application computes", ended);
    }
    while (done < POSTS) {
        must(r, ended >= done, "%d ends of %d calls", ended, done);
        threads_host.progress();
    }
    must(r, begun == POSTS && ended == POSTS, "%d begins, %d ends", begun, ended);
    reach(r);
    threads_barrier(r);
    call_run(r, comm, calls[0], 20);
    must(r, begun == POSTS + 1 && ended == POSTS + 1, "a blocking call: %d begins, %d ends", begun, ended);
    for (int i = 0; i < POSTS; i++) {
        task_free(tasks[i]);
    }
    threads_barrier(r);
    for (int i = 0; i < POSTS; i++) {
        call_free(calls[i]);
    }
}

START_TEST(events_come_in_threads_of_the_application)
{
    engine_options_t options = {.seed = unit_seed(), .max_ways = 16};
    job_t job = call_job(2, a_listener_hears, &options);

    raised_elsewhere = 0;
    call_run_job(&job);
    ck_assert_int_eq(raised_elsewhere, 0);
}
END_TEST
#endif

/* ---- what the thread leaves to the caller ---- */

static unsigned copies(void)
{
    return fake_gpu_calls("copy") + fake_gpu_calls("copy_async") + fake_gpu_calls("copy2d_async") +
           fake_gpu_calls("copy_batch");
}

/* A late rank has host memory, so the data go through the host, and the copies are made by the threads of the ranks. */
static void late_rank_has_host_memory(rank_t *r)
{
    call_spec_t spec = gather;
    posted_t p;

    warm_up(r, r->comms[0]);
    threads_barrier(r);
    if (r->rank) {
        usleep(20000);
        spec.send = spec.recv = PLACE_HOST;
    }
    p = post(r, r->comms[0], &spec, 10);
    if (r->rank == 0) {
        unsigned before = copies();

        must(r, !computed_until(r, 1, SOME_US) && copies() == before, "the thread has copied to host memory");
    }
    finish_well(r, &p);
    reach(r);
    threads_barrier(r);
    call_free(p.call);
}

START_TEST(host_memory_is_left_to_the_caller)
{
    job_t job = call_job(2, late_rank_has_host_memory, NULL);

    call_run_job(&job);
}
END_TEST

/* ---- errors ---- */

static _Atomic pthread_t reporter;

static void note_thread(dma_report_t level, const char *topic, const char *text)
{
    if (!strcmp(topic, "open")) {
        atomic_store(&reporter, pthread_self());
    }
    threads_host.report(level, topic, text);
}

static dma_host_t noting_host;

/* The memory of the late rank cannot be opened: the submitter finds that, and the caller's thread prints it. */
static void late_rank_has_new_memory(rank_t *r)
{
    call_t *c = call_make(r, &gather), *used = c;
    dma_task_t *task;

    prepare(r, r->comms[0]);
    call_run(r, r->comms[0], c, 1);
    r->proc->host = &noting_host;
    threads_barrier(r);
    if (r->rank) {
        usleep(20000);
        used = call_make(r, &gather);
        fake_gpu_fail("ipc_open", 0, DMA_UNSUPPORTED);
    }
    call_fill(r, used, 10);
    must(r, task_post(r->comms[0], &used->call, NULL, NULL, &task) == DMA_OK, "post");
    if (r->rank == 0) {
        (void)computed_until(r, 1, SOME_US);
        must(r, !reports_count("open"), "a thread that is not the application's has printed");
    }
    while (dma_task_test(task) == DMA_AGAIN) {
        threads_host.progress();
    }
    must(r, dma_task_test(task) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    task_free(task);
    call_verify(r, used);
    if (r->rank == 0) {
        must(r, reports_count("open") == 1 && pthread_equal(atomic_load(&reporter), pthread_self()),
             "the report is lost");
    }
    reach(r);
    threads_barrier(r);
    r->proc->host = &threads_host;
    if (used != c) {
        call_free(used);
    }
    call_free(c);
}

START_TEST(reports_are_printed_by_the_caller)
{
    job_t job = call_job(2, late_rank_has_new_memory, NULL);

    noting_host = threads_host;
    noting_host.report = note_thread;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("open"), 1);
}
END_TEST

/* Rank 0 posts and computes, and the late rank posts: the submitter finds an error, and the callers get it. */
static void late_call_fails(rank_t *r, const call_spec_t *late, dma_status_t expected)
{
    posted_t p;
    dma_status_t status;

    threads_barrier(r);
    if (r->rank) {
        usleep(20000);
    }
    p = post(r, r->comms[0], r->rank ? late : &gather, 10);
    if (r->rank == 0) {
        usleep(SOME_US);
        must(r, dma_comm_state(r->comms[0]) == DMA_COMM_READY, "a thread that is not the application's has failed it");
    }
    status = finish(&p);
    must(r, status == expected, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(p.call);
}

static void late_rank_calls_another_operation(rank_t *r)
{
    call_spec_t spec = gather;

    warm_up(r, r->comms[0]);
    spec.coll = DMA_ALLTOALL;
    late_call_fails(r, &spec, DMA_ERR_MISMATCH);
}

START_TEST(disagreements_reach_the_caller)
{
    job_t job = call_job(2, late_rank_calls_another_operation, NULL);

    call_run_job(&job);
    ck_assert_int_gt(reports_count("failed"), 0);
}
END_TEST

/* The engine of rank 0 takes no copies, once. The caller must not try again: part of them may be in the engine. */
static void engine_refuses_the_copies(rank_t *r)
{
    warm_up(r, r->comms[0]);
    if (r->rank == 0) {
        engine_refuse(ENGINE_START, 0, 1);
    }
    late_call_fails(r, &gather, DMA_ERR_ENGINE);
}

START_TEST(errors_reach_the_caller)
{
    job_t job = call_job(2, engine_refuses_the_copies, NULL);

    call_run_job(&job);
    ck_assert_int_gt(reports_count("failed"), 0);
}
END_TEST

/* ---- the thread's life ---- */

static void host_memory_alone(rank_t *r)
{
    call_spec_t spec = gather;

    spec.send = spec.recv = PLACE_HOST;
    prepare(r, r->comms[0]);
    for (int i = 0; i < 20; i++) {
        posted_t p;

        usleep(threads_random(r, 3000));
        p = post(r, r->comms[0], &spec, (uint64_t)(10 + i));
        must(r, submitters() == 0, "a thread for host memory");
        finish_well(r, &p);
        threads_barrier(r);
        call_free(p.call);
    }
}

START_TEST(host_memory_has_no_thread)
{
    job_t job = call_job(3, host_memory_alone, NULL);

    call_run_job(&job);
}
END_TEST

static void idle_for_long(rank_t *r)
{
    for (int round = 0; round < 2; round++) {
        double until = dma_now() + LONG_US * 1e-6;
        posted_t p;

        prepare(r, r->comms[0]);
        if (r->rank) {
            must(r, computed_until(r, 2 * round + 1, LONG_US), "rank 0 has no thread");
        }
        p = post(r, r->comms[0], &gather, (uint64_t)(10 + round));
        while (r->rank == 0 && submitters() != 1) { /* it has its name a moment after it begins */
            must(r, dma_now() < until, "%d threads for a call that waits", submitters());
        }
        reach(r);
        finish_well(r, &p);
        threads_barrier(r);
        while (submitters() && dma_now() < until) {
            usleep(10000);
        }
        must(r, submitters() == 0, "a thread that has nothing to do");
        threads_barrier(r);
        call_free(p.call);
    }
}

START_TEST(an_idle_thread_ends)
{
    job_t job = call_job(2, idle_for_long, NULL);

    call_run_job(&job);
}
END_TEST

/* ---- at random ---- */

/* Several communicators, with calls of all kinds in flight on each; each rank computes, looks or waits when it likes. */
static void at_random(rank_t *r)
{
    enum { COMMS = 3, ROUNDS = 40, BEHIND = 2 };
    uint64_t shared = unit_seed();

    for (int i = 0; i < COMMS; i++) {
        prepare(r, r->comms[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        posted_t p[COMMS][BEHIND];

        for (int i = 0; i < COMMS; i++) {
            for (int k = 0; k < BEHIND; k++) {
                call_spec_t spec = {.elements = 1 + (shared >> 8) % 3000, .sizes = shared >> 3};
                bool gathers;

                shared = shared * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                spec.coll = (dma_coll_t)(shared >> 33) % DMA_COLL_COUNT;
                gathers = dma_coll_gathers(spec.coll);
                spec.in_place = gathers ? threads_random(r, 2) : shared >> 40 & 1;
                spec.send = threads_random(r, 8) ? PLACE_DEVICE : (call_place_t)threads_random(r, PLACES);
                spec.recv = threads_random(r, 8) ? PLACE_DEVICE : (call_place_t)threads_random(r, PLACES);
                if (threads_random(r, 3) == 0) {
                    usleep(threads_random(r, 400));
                }
                p[i][k] = post(r, r->comms[i], &spec, (uint64_t)(round * 100 + i * 10 + k));
            }
        }
        if (threads_random(r, 2)) {
            usleep(threads_random(r, 2000));
        }
        for (int i = 0; i < COMMS; i++) {
            for (int k = 0; k < BEHIND; k++) {
                finish_well(r, &p[i][k]);
            }
        }
        threads_barrier(r);
        for (int i = 0; i < COMMS; i++) {
            for (int k = 0; k < BEHIND; k++) {
                call_free(p[i][k].call);
            }
        }
    }
}

START_TEST(random_calls)
{
    job_t job = call_job(2 + _i, at_random, NULL);

    job.ncomms = 3;
    job.params.ring_depth = _i == 2 ? 4 : 8;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_submitter");

    unit_loop(suite, copies_start_while_the_application_computes, 0, 3, 120);
    unit_test(suite, without_the_thread_they_wait, 60);
    unit_test(suite, starts_begin_while_the_application_computes, 120);
    unit_test(suite, an_armed_start_wakes_the_others, 120);
#ifdef DMA_HAVE_EVENTS
    unit_test(suite, events_come_in_threads_of_the_application, 60);
#endif
    unit_test(suite, host_memory_is_left_to_the_caller, 60);
    unit_test(suite, reports_are_printed_by_the_caller, 60);
    unit_test(suite, disagreements_reach_the_caller, 60);
    unit_test(suite, errors_reach_the_caller, 60);
    unit_test(suite, host_memory_has_no_thread, 60);
    unit_test(suite, an_idle_thread_ends, 60);
    unit_loop(suite, random_calls, 0, 3, 120);
    return unit_main(suite);
}
