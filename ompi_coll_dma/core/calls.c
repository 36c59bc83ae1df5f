/* Calls of a communicator: those that block, those that are posted, and those of coll/dma's own. */
#include <stdio.h>
#include <string.h>

#include "core/comm.h"

#define SPIN_BUDGET      500 /* polls of the peers when a call begins: less than a microsecond */
#define MAX_MISSED_POSTS 8 /* after so many posts in a row in which the peers did not come, only each 8th post polls */

_Static_assert(sizeof(dma_task_t) <= DMA_TASK_BYTES && _Alignof(dma_task_t) <= DMA_TASK_ALIGN, "a task fits");

/* Fails the communicator on all ranks, because a call of this rank could not be resolved and its sequence number is
 * lost; with the lock. Peers find the poison while they wait. Before the set-up has ended there is no memory for the
 * poison. Then true is returned, and the communicator fails when the set-up ends. */
static bool fail_unresolved(dma_comm_t *comm, dma_status_t status)
{
    const char *format = status == DMA_ERR_TRUNCATE ? "a call on %s sends and receives different numbers of bytes"
                         : status == DMA_ERR_NOMEM  ? "no memory for a call on %s"
                                                    : "a call on %s could not begin: %s";

    if (dma_comm_begin(comm) == DMA_OK && comm->state == DMA_COMM_SETUP) {
        comm->pending_error = status;
        snprintf(comm->pending_reason, sizeof(comm->pending_reason), format, comm->text, dma_status_name(status));
        return true;
    }
    dma_comm_fail(comm, status, format, comm->text, dma_status_name(status));
    return false;
}

void dma_comm_fail_call(dma_comm_t *comm, dma_status_t status)
{
    dma_comm_lock(comm);
    fail_unresolved(comm, status);
    dma_comm_unlock(comm);
}

/* DMA_OK, or why no call can be posted; with the lock. */
static dma_status_t post_error(const dma_comm_t *comm)
{
    if (comm->parent && comm->parent->state == DMA_COMM_POISONED) {
        return comm->parent->error;
    }
    return comm->state == DMA_COMM_POISONED ? comm->error : comm->pending_error;
}

void dma_comm_count_below(dma_comm_t *comm, dma_form_t form, dma_coll_t coll)
{
    dma_comm_lock(comm);
    dma_comm_count(comm, (form == DMA_FORM_BLOCKING ? DMA_COUNT_BLOCKING : DMA_COUNT_NONBLOCKING) + (int)coll);
    dma_comm_count(comm, DMA_COUNT_calls_below);
    dma_comm_unlock(comm);
}

/* Inlined twice: without a trace it does nothing more. */
static inline __attribute__((always_inline)) dma_status_t run_call(dma_comm_t *comm, const dma_call_t *call,
                                                                   bool traced)
{
    uint64_t entered = traced ? dma_trace_now() : 0;
    dma_task_t task;
    dma_status_t status;

    if (dma_call_empty(call, comm->nranks)) {
        return DMA_OK;
    }
    if (__builtin_expect(comm->state != DMA_COMM_READY, 0)) {
        return comm->state == DMA_COMM_POISONED ? comm->error : DMA_UNSUPPORTED;
    }
    status = dma_task_init(comm, &task, call, comm->arrays);
    dma_comm_lock(comm);
    dma_comm_count(comm, DMA_COUNT_BLOCKING + (int)call->coll);
    if (__builtin_expect(status != DMA_OK, 0)) {
        fail_unresolved(comm, status);
    } else if (__builtin_expect(comm->state != DMA_COMM_READY, 0)) {
        status = comm->error; /* it failed in another thread's progress meanwhile */
    } else {
        task.run.spin_budget = comm->oversubscribed || comm->head ? 0 : SPIN_BUDGET;
        dma_task_post(comm, &task);
        dma_event_begin(comm, &task, DMA_FORM_BLOCKING);
        if (traced) {
            dma_task_trace_begin(&task, entered);
        }
        dma_tasks_advance(comm);
    }
    dma_comm_unlock(comm);
    if (__builtin_expect(status != DMA_OK, 0)) {
        dma_task_drop(&task);
        return status;
    }
    status = __builtin_expect(dma_task_done(&task), 1) ? task.status : dma_task_wait(&task);
    dma_event_end(&task);
    return status;
}

static __attribute__((noinline)) dma_status_t run_traced(dma_comm_t *comm, const dma_call_t *call)
{
    return run_call(comm, call, true);
}

dma_status_t dma_comm_run(dma_comm_t *comm, const dma_call_t *call)
{
    return dma_trace_on(comm->trace) ? run_traced(comm, call) : run_call(comm, call, false);
}

#define AGREE_NOTE 0x5eedu /* makes its sign differ from that of any call of the user's */

/* Counters are of the user's calls. All additions are modulo 2^64, so it does not matter who has read them meanwhile. */
static void uncount(dma_comm_t *comm, const dma_task_t *task)
{
#ifndef DMA_COUNT_NOTHING
    dma_comm_lock(comm);
    comm->counts.at[DMA_COUNT_VARIANT + (int)task->run.plan->variant]--;
    comm->counts.equal_bytes -= task->bytes;
    dma_comm_unlock(comm);
#else
    (void)comm;
    (void)task;
#endif
}

dma_status_t dma_comm_run_own(dma_comm_t *comm, dma_task_t *task, dma_status_t status)
{
    dma_comm_lock(comm);
    if (status != DMA_OK) {
        fail_unresolved(comm, status);
    } else if (comm->state != DMA_COMM_READY) {
        status = comm->error; /* it failed in another thread's progress meanwhile */
    } else {
        task->run.spin_budget = comm->oversubscribed || comm->head ? 0 : SPIN_BUDGET;
        task->began = 0;
        dma_task_post(comm, task); /* without its begin, a trace has no call of it */
        dma_tasks_advance(comm);
    }
    dma_comm_unlock(comm);
    if (status != DMA_OK) {
        dma_task_drop(task);
        return status;
    }
    return dma_task_wait(task);
}

dma_status_t dma_comm_agree(dma_comm_t *comm, const void *mine, void *all, size_t bytes)
{
    dma_side_t side = {.dense = true, .size = 1, .extent = 1, .ub = 1, .count = bytes};
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = side, .recv = side};
    dma_task_t task;
    dma_status_t status;

    call.send.addr = (void *)(uintptr_t)mine;
    call.recv.addr = all;
    status = dma_task_init(comm, &task, &call, NULL);
    task.run.sign ^= (uint64_t)AGREE_NOTE << 24;
    status = dma_comm_run_own(comm, &task, status);
    if (status == DMA_OK) {
        uncount(comm, &task);
    }
    return status;
}

dma_status_t dma_comm_prepare(dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST || comm->state == DMA_COMM_SETUP) {
        dma_comm_lock(comm);
        dma_comm_begin(comm);
        dma_comm_unlock(comm);
        dma_setup_wait(comm);
    }
    switch ((dma_comm_state_t)comm->state) { /* clang takes no atomic type here */
    case DMA_COMM_POISONED:
        return comm->error;
    case DMA_COMM_ASIDE:
        return DMA_UNSUPPORTED;
    default:
        return DMA_OK;
    }
}

/* How often a post may poll its peers: not at all if ranks share cores, or if earlier calls are under way. If the peers
 * have not come in several posts in a row, most posts do not poll. */
static uint32_t post_spin_budget(const dma_comm_t *comm)
{
    return comm->oversubscribed || comm->head ||
                   (comm->missed_posts >= MAX_MISSED_POSTS && comm->seq % MAX_MISSED_POSTS)
               ? 0
               : SPIN_BUDGET;
}

static void count_missed(dma_comm_t *comm, const dma_task_t *task)
{
    if (task->run.spin_budget) {
        comm->missed_posts = 0; /* the peers came before the budget was spent */
    } else if (comm->missed_posts < MAX_MISSED_POSTS) {
        comm->missed_posts++;
    }
}

/* A posted call is a start of its channel. What the cluster route posts on a node communicator is a part of a call. */
static void count_form(dma_comm_t *comm, dma_coll_t coll)
{
    if (!comm->inner) {
        dma_comm_count(comm, (int)coll + (comm->parent ? DMA_COUNT_PERSISTENT : DMA_COUNT_NONBLOCKING));
    }
}

/* Posts an initialised task. `status`: how its resolution ended. If the task completes before this returns, *outcome is
 * its status and `done` is not called. A task that could not be resolved during the set-up stays queued until the
 * set-up ends, and then fails: the caller has to keep the communicator until the peers, which wait in the set-up, have
 * seen the error. `entered`: when the call began, for the trace. */
static dma_status_t post(dma_comm_t *comm, dma_task_t *task, dma_status_t status, dma_done_t done, void *arg,
                         dma_status_t *outcome, uint64_t entered)
{
    dma_status_t refused;

    dma_comm_lock(comm);
    count_form(comm, task->coll);
    refused = post_error(comm);
    if (refused != DMA_OK) {
        status = refused;
    } else if (status != DMA_OK && fail_unresolved(comm, status)) {
        task->bytes = task->in_place = false; /* it never starts, but probes and events read both */
        status = DMA_OK;
    }
    if (status == DMA_OK && comm->state != DMA_COMM_READY) {
        status = dma_comm_begin(comm);
    }
    if (status == DMA_OK) {
        uint32_t budget = outcome ? post_spin_budget(comm) : 0;

        task->done = outcome ? NULL : done;
        task->arg = arg;
        task->run.spin_budget = budget;
        dma_task_post(comm, task);
        dma_event_begin(comm, task, comm->parent ? DMA_FORM_PERSISTENT : DMA_FORM_NONBLOCKING);
        if (dma_trace_on(comm->trace)) {
            dma_task_trace_begin(task, entered ? entered : dma_trace_now()); /* the trace may have begun meanwhile */
        }
        dma_comm_advance(comm);
        if (__builtin_expect(task->route && task->route->spin, 0)) {
            task->route->spin(comm, task);
        }
        if (outcome) {
            if (budget) {
                count_missed(comm, task);
            }
            task->run.spin_budget = 0;
            task->done = done;
            *outcome = dma_task_test(task);
            if (*outcome != DMA_AGAIN) {
                dma_event_end(task);
            }
        }
        dma_comm_set_active(comm, dma_comm_has_work(comm));
    }
    dma_comm_unlock(comm);
    if (status != DMA_OK) {
        dma_task_drop(task);
    }
    return status;
}

/* Completes an empty call. */
static void complete_empty(dma_task_t *task, dma_done_t done, void *arg, dma_status_t *outcome)
{
    task->status = DMA_OK;
    atomic_init(&task->state, DMA_TASK_COMPLETE);
    if (outcome) {
        *outcome = DMA_OK;
    } else if (done) {
        done(arg, DMA_OK);
    }
}

dma_status_t dma_comm_post_task(dma_comm_t *comm, const dma_call_t *call, void *arrays, dma_done_t done, void *arg,
                                dma_task_t *task, dma_status_t *outcome)
{
    uint64_t entered = dma_trace_begin(comm->trace);
    dma_status_t status;

    if (dma_call_empty(call, comm->nranks)) {
        complete_empty(task, done, arg, outcome);
        return DMA_OK;
    }
    status = dma_task_init(comm, task, call, arrays);
    if (status == DMA_OK) {
        task->run.sign ^= (uint64_t)call->note << 24;
    }
    return post(comm, task, status, done, arg, outcome, entered);
}

dma_status_t dma_comm_post_resolved(dma_comm_t *comm, dma_status_t status, dma_done_t done, void *arg, dma_task_t *task,
                                    dma_status_t *outcome)
{
    return post(comm, task, status, done, arg, outcome, dma_trace_begin(comm->trace));
}

dma_status_t dma_comm_post_in(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, void *memory,
                              dma_status_t *outcome)
{
    return dma_comm_post_task(comm, call, NULL, done, arg, memory, outcome);
}

dma_status_t dma_task_test(dma_task_t *task)
{
    return dma_task_done(task) ? task->status : DMA_AGAIN;
}
