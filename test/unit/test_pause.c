/* Pauses between the polls of a wait (node/pause.h): their system calls, with a clock that the test moves. */
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"
#include "node/pause.h"

/* ---- the kernel ---- */

static _Thread_local bool faked;
static _Thread_local double now, used, slept;
static _Thread_local long switches;
static _Thread_local unsigned yields, sleeps, judgements, yields_after_sleep;
/* Turns that the sleeps, and the last one, stand for; calls of progress that belong to them. */
static _Thread_local unsigned turns, last_turns, progress;
static _Thread_local const dma_comm_t *waiting;
static _Thread_local unsigned watched; /* its count of turns at the first sleep */
static _Atomic unsigned all_turns;     /* of all threads */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_getrusage(int who, struct rusage *usage);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!faked) {
        return __real_clock_gettime(clock, t);
    }
    t->tv_sec = (time_t)now;
    t->tv_nsec = (long)((now - (double)t->tv_sec) * 1e9);
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    unsigned more;

    slept = (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
    more = (unsigned)(slept / 0.0002);
    watched = waiting && !sleeps ? waiting->watched : watched;
    sleeps++;
    last_turns = 1 + more;
    turns += last_turns;
    progress += more < 8 ? 1 + more : 8;
    atomic_fetch_add(&all_turns, more);
    return faked ? 0 : __real_nanosleep(t, left);
}

int __wrap_sched_yield(void)
{
    yields++;
    yields_after_sleep += sleeps > 0;
    return faked ? 0 : __real_sched_yield();
}

int __wrap_getrusage(int who, struct rusage *usage)
{
    (void)who;
    judgements++;
    *usage = (struct rusage){.ru_nivcsw = switches};
    usage->ru_utime.tv_sec = (time_t)used;
    usage->ru_utime.tv_usec = (suseconds_t)((used - (double)usage->ru_utime.tv_sec) * 1e6);
    return 0;
}

static void fake(double at)
{
    faked = true;
    now = at;
    yields = sleeps = judgements = yields_after_sleep = 0;
}

/* From here on the clock runs by itself again, because libcheck reads it too. */
static void real(void)
{
    faked = false;
}

/* ---- waits that yield ---- */

static void slept_about(double seconds)
{
    ck_assert(slept > 0.9 * seconds && slept < 1.1 * seconds);
}

START_TEST(short_wait_yields_and_long_one_sleeps)
{
    dma_pause_t pause = {0};

    fake(1000);
    ck_assert(!dma_pause(&pause));
    now += 0.0019;
    ck_assert(!dma_pause(&pause));
    ck_assert_uint_eq(yields, 2);
    ck_assert_uint_eq(sleeps, 0);
    now += 0.0011;
    ck_assert(dma_pause(&pause));
    slept_about(0.003 / 32);
    now += 0.061;
    ck_assert(dma_pause(&pause));
    slept_about(0.064 / 32);
    now += 1;
    ck_assert(dma_pause(&pause));
    slept_about(0.005);
    ck_assert_uint_eq(yields, 2);
    real();
}
END_TEST

/* How often a rank looks that waits for a second. Many on a core that look more often take all of its time. */
START_TEST(long_wait_looks_seldom)
{
    dma_pause_t pause = {0};

    fake(1000);
    while (now < 1001) {
        slept = 0;
        now += dma_pause(&pause) ? slept : 0.0001;
    }
    ck_assert_uint_ge(sleeps, 200); /* none is longer than 5 ms */
    ck_assert_uint_le(sleeps, 400);
    ck_assert_uint_le(yields, 21);
    real();
}
END_TEST

/* ---- turns ---- */

START_TEST(sleep_counts_as_turns)
{
    dma_pause_t pause = {0};

    fake(1000);
    dma_pause(&pause);
    ck_assert_uint_eq(pause.turns, 0);
    now += 0.003;
    dma_pause(&pause);
    ck_assert_uint_eq(pause.turns, 0);
    now += 1;
    dma_pause(&pause);
    ck_assert_uint_ge(pause.turns, 24);
    ck_assert_uint_le(pause.turns, 25);
    real();
}
END_TEST

START_TEST(multiples_are_passed)
{
    unsigned count = 0;

    ck_assert(!dma_turns_count(&count, 7, 8));
    ck_assert(dma_turns_count(&count, 1, 8));
    ck_assert(!dma_turns_count(&count, 7, 8));
    ck_assert(dma_turns_count(&count, 26, 8));
    ck_assert_uint_eq(count, 41);
    ck_assert(dma_turns_count(&count, 1, 1));
    ck_assert(dma_turns_passed(UINT32_MAX, 0, 64)); /* the count begins anew */
}
END_TEST

START_TEST(wait_in_which_something_moves_is_short)
{
    dma_pause_t pause = {0};

    fake(1000);
    dma_pause(&pause);
    dma_pause_moved(&pause, 5);
    dma_pause(&pause);
    for (int i = 0; i < 3; i++) {
        now += 0.0015;
        dma_pause_moved(&pause, i < 2 ? 6 : 7);
        dma_pause(&pause);
    }
    ck_assert_uint_eq(sleeps, 0);
    now += 0.003;
    dma_pause_moved(&pause, 7);
    ck_assert(dma_pause(&pause));
    real();
}
END_TEST

/* ---- waits that spin ---- */

/* Does a wait that has lasted for a second sleep because others use the core? */
static bool is_shared(void)
{
    dma_pause_t pause = {.since = now - 1};

    return dma_pause_shared(&pause);
}

/* Moves the clock by 20 ms, in which the thread ran for this time and the kernel ran other threads so many times. */
static void pass(double running, int others)
{
    now += 0.02;
    used += running;
    switches += others;
}

START_TEST(shared_core_is_seen)
{
    fake(2000);
    is_shared(); /* from when on */
    pass(0.02, 0);
    ck_assert(!is_shared());
    pass(0.02, 1); /* a daemon */
    ck_assert(!is_shared());
    pass(0.01, 3); /* one neighbor: slices of 3 ms */
    ck_assert(is_shared());
    pass(0.002, 1); /* ten */
    ck_assert(is_shared());
    pass(0.02, 0);
    ck_assert(!is_shared());
    real();
}
END_TEST

START_TEST(kernel_is_asked_seldom)
{
    fake(3000);
    is_shared();
    judgements = 0;
    for (int i = 0; i < 1000; i++) {
        now += 0.0001;
        is_shared();
    }
    ck_assert_uint_ge(judgements, 8);
    ck_assert_uint_le(judgements, 11);
    real();
}
END_TEST

START_TEST(spinning_wait_sleeps_only_on_a_shared_core)
{
    for (int shared = 0; shared < 2; shared++) {
        dma_pause_t pause = {0};

        fake(4000 + 10 * shared);
        is_shared();
        pass(0.01, shared ? 4 : 0);
        sleeps = 0;
        ck_assert(!dma_pause_shared(&pause)); /* it has just begun */
        now += 0.00009;
        ck_assert(!dma_pause_shared(&pause));
        now += 0.001;
        ck_assert_int_eq(dma_pause_shared(&pause), shared);
        ck_assert_uint_eq(sleeps, (unsigned)shared);
        ck_assert_uint_eq(yields, 0);
    }
    real();
}
END_TEST

/* ---- a communicator ---- */

static void late_rank(rank_t *r)
{
    char mine = (char)r->rank, all[2] = {-1, -1};
    dma_call_t call = {.coll = DMA_ALLGATHER,
                       .send = {.addr = &mine, .dense = true, .size = 1, .extent = 1, .ub = 1, .count = 1},
                       .recv = {.addr = all, .dense = true, .size = 1, .extent = 1, .ub = 1, .count = 1}};
    dma_comm_t *comm = r->comms[0];

    threads_prepare(r, comm);
    comm->oversubscribed = true;
    threads_barrier(r);
    atomic_store(&all_turns, 0);
    threads_barrier(r);
    while (r->rank == 1 && atomic_load(&all_turns) < 60) { /* 30 to 80 ms */
        usleep(1000);
    }
    yields = sleeps = yields_after_sleep = turns = progress = 0;
    waiting = comm;
    must(r, dma_comm_run(comm, &call) == DMA_OK, "%s", dma_comm_reason(comm));
    must(r, all[0] == 0 && all[1] == 1, "wrong data");
    if (r->rank == 0) {
        /* the progress of libthreads yields once */
        must(r, yields_after_sleep <= progress, "%u yields although nothing moves", yields_after_sleep);
        must(r, yields_after_sleep >= progress, "%u calls of progress in %u turns", yields_after_sleep, turns);
        /* the call ends in the last look */
        must(r, comm->watched - watched >= turns - last_turns, "%u turns instead of %u", comm->watched - watched,
             turns);
    }
}

/* Then what it looks for at intervals is found no later than by a rank that does not sleep. */
START_TEST(rank_that_waits_long_sleeps)
{
    job_t job = threads_job(2, late_rank);

    threads_run(&job);
}
END_TEST

/* Only messages come in a set-up, and only progress receives them. */
static _Thread_local unsigned progressed;

static void count_progress(void)
{
    progressed++;
    threads_host.progress(); /* yields once */
}

static void waits_in_setup(rank_t *r)
{
    dma_comm_t *comm = r->comms[0];
    dma_host_t host = threads_host;

    host.progress = count_progress;
    comm->host = &host;
    if (r->rank == 1) {
        usleep(20000);
    } else {
        fake(5000);
    }
    threads_prepare(r, comm);
    comm->host = &threads_host;
    if (r->rank == 0) {
        must(r, progressed > 10, "the wait was short");
        must(r, yields <= 2 * progressed + 1, "%u calls of progress, %u yields", progressed, yields);
        real();
    }
}

START_TEST(progress_runs_at_each_look_of_a_setup)
{
    job_t job = threads_job(2, waits_in_setup);

    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pause");

    unit_test(suite, short_wait_yields_and_long_one_sleeps, 10);
    unit_test(suite, long_wait_looks_seldom, 10);
    unit_test(suite, sleep_counts_as_turns, 10);
    unit_test(suite, multiples_are_passed, 10);
    unit_test(suite, wait_in_which_something_moves_is_short, 10);
    unit_test(suite, shared_core_is_seen, 10);
    unit_test(suite, kernel_is_asked_seldom, 10);
    unit_test(suite, spinning_wait_sleeps_only_on_a_shared_core, 10);
    unit_test(suite, rank_that_waits_long_sleeps, 20);
    unit_test(suite, progress_runs_at_each_look_of_a_setup, 20);
    return unit_main(suite);
}
