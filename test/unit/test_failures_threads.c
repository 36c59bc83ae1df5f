/*
 * Failures that were once handled wrongly in ranks with several threads: one thread fails the communicator while
 * another is in a call, and threads begin after the first call. One test per bug. Ranks are threads, too.
 */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

#define LIMIT 20 /* seconds; a test takes less than one */

/* Memory that messages may still write after a failure is left to them, and nobody tests these messages again. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_bootstrap_begin\n"
           "leak:dma_task_resolve\n"
           "leak:thread_isend\n"
           "leak:thread_irecv\n";
}

/* ---- failures noticed by another thread ---- */

/* A datatype. While an element of it is packed, something else happens to the communicator. */
typedef struct failing_type {
    vector_type_t vector;
    dma_comm_t *comm;
} failing_type_t;

static dma_status_t pack_and_fail(const void *buf, size_t count, void *type, void *packed, size_t bytes)
{
    const failing_type_t *t = type;

    dma_comm_lock(t->comm);
    dma_comm_fail(t->comm, DMA_ERR_PEER, "as in another thread's progress");
    dma_comm_unlock(t->comm);
    return threads_host.pack(buf, count, type, packed, bytes);
}

static void fails_in_between(rank_t *r)
{
    uint8_t send[32] = {0}, recv[2 * 16];
    dma_side_t from = data_buffer(send, 16), to = data_buffer(recv, 16);
    failing_type_t type = {.vector = {.piece = 4, .stride = 8}, .comm = r->comms[0]};
    dma_host_t host = threads_host;
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    host.pack = pack_and_fail;
    if (r->rank == 0) {
        from = (dma_side_t){.addr = send, .size = 4, .extent = 8, .count = 4, .type = &type};
        r->comms[0]->host = &host;
    }
    status = data_allgather(r->comms[0], &from, &to);
    must(r, status == DMA_ERR_PEER, "%s", dma_status_name(status));
}

/* A call that had passed the check of the state before the failure was queued after it. It never ended, or ended
 * with success. */
START_TEST(blocking_call_while_a_thread_fails_it)
{
    job_t job = threads_job(2, fails_in_between);

    job.threads = true;
    threads_run(&job);
}
END_TEST

/* Between two actions that must be close in time, if there are cores for both. */
static void pause_now_and_then(unsigned *turn)
{
    if (++*turn % 1000 == 0) {
        sched_yield();
    }
}

/* Rank 0 creates communicators and calls on them. Rank 1 is the thread that fails them. This is repeated so many
 * times, or, if others use the cores, as often as possible in some seconds. */
static void fails_often(rank_t *r)
{
    enum { N = 40000, LEAST = 400 };
    double until = dma_now() + 5;
    dma_comm_t *_Atomic *victim = (void *)r->job->arg;
    dma_comm_config_t config = {.nranks = 2, .threads = &(bool){true}, .text = "a communicator that fails"};
    data_gather_t gather;
    dma_comm_t *comm;
    unsigned turn = 0;

    for (int i = 0; r->rank == 0 && i < N && (i < LEAST || dma_now() < until); i++) {
        must(r, dma_comm_create(r->proc, &config, &comm) == DMA_OK, "dma_comm_create");
        *victim = comm;
        while (dma_comm_state(comm) != DMA_COMM_POISONED) {
            pause_now_and_then(&turn);
        }
        must(r, dma_comm_run(comm, data_gather(&gather)) == DMA_ERR_PEER, "call %d", i);
        while (*victim) {
            pause_now_and_then(&turn);
        }
        dma_comm_destroy(comm);
    }
    r->job->reached += r->rank == 0;
    while (r->rank == 1 && !r->job->reached) {
        if ((comm = *victim)) {
            dma_comm_lock(comm);
            dma_comm_fail(comm, DMA_ERR_PEER, "as in another thread's progress");
            dma_comm_unlock(comm);
            *victim = NULL;
        } else {
            pause_now_and_then(&turn);
        }
    }
}

/* The state was set to failed before the error was stored, so a call returned DMA_OK without data. */
START_TEST(failed_communicator_never_returns_ok)
{
    dma_comm_t *_Atomic victim = NULL;
    job_t job = threads_job(2, fails_often);

    job.arg = &victim;
    threads_run(&job);
}
END_TEST

/* ---- threads that come late ---- */

typedef struct late_threads {
    dma_comm_t *comm;
    volatile int inside;
    atomic_int begun, doubled;
} late_threads_t;

static void *take_turns(void *arg)
{
    late_threads_t *t = arg;
    double until;

    atomic_fetch_add(&t->begun, 1);
    while (atomic_load(&t->begun) < 2) {
        sched_yield();
    }
    for (until = dma_now() + 0.5; dma_now() < until;) {
        for (int i = 0; i < 10000; i++) {
            if (dma_comm_trylock(t->comm)) {
                if (++t->inside != 1) {
                    atomic_fetch_add(&t->doubled, 1);
                }
                t->inside--;
                dma_comm_unlock(t->comm);
            }
        }
    }
    return NULL;
}

/* A session with several threads begins when the communicator has been in use for a long time. From then on its
 * lock is a real lock. */
static void locks_late(rank_t *r)
{
    bool threads = false;
    dma_comm_config_t config = {
        .nranks = 2, .rank = r->rank, .threads = &threads, .text = "a communicator of one thread"};
    late_threads_t t = {0};
    pthread_t other;

    must(r, dma_comm_create(r->proc, &config, &t.comm) == DMA_OK, "dma_comm_create");
    must(r, dma_comm_trylock(t.comm) && !dma_comm_trylock(t.comm), "not locked");
    dma_comm_unlock(t.comm);
    threads = true;
    pthread_create(&other, NULL, take_turns, &t);
    take_turns(&t);
    pthread_join(other, NULL);
    must(r, atomic_load(&t.doubled) == 0, "two in it at once, %d times", t.doubled);
    dma_comm_destroy(t.comm);
}

START_TEST(threads_may_come_later)
{
    job_t job = threads_job(1, locks_late);

    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failures_threads");

    unit_test(suite, blocking_call_while_a_thread_fails_it, LIMIT);
    unit_test(suite, threads_may_come_later, 20);
    unit_test(suite, failed_communicator_never_returns_ok, LIMIT);
    return unit_main(suite);
}
