/* Communicators: life, calls, failure. Waiting is in wait.c, tasks in task.c, the set-up in setup.c. */
#include "task/comm.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned variant_count(void)
{
    unsigned n = 0;

    while (dma_variants[n]) {
        n++;
    }
    return n;
}

dma_status_t dma_comm_create(dma_proc_t *proc, const dma_comm_config_t *config, dma_comm_t **result)
{
    dma_comm_t *comm = calloc(1, sizeof(*comm));

    if (!comm) {
        return DMA_ERR_NOMEM;
    }
    comm->proc = proc;
    comm->host = proc->host;
    comm->handle = config->handle;
    comm->rank = config->rank;
    comm->nranks = config->nranks;
    comm->threads = config->threads;
    comm->engine = &dma_engine_host;
    comm->plans = calloc(2 * variant_count(), sizeof(*comm->plans));
    comm->text = strdup(config->text ? config->text : "a communicator");
    if (!comm->plans || !comm->text) {
        free(comm->plans);
        free(comm->text);
        free(comm);
        return DMA_ERR_NOMEM;
    }
    *result = comm;
    return DMA_OK;
}

void dma_comm_lock_slow(dma_comm_t *comm)
{
    while (!dma_comm_trylock(comm)) {
        sched_yield(); /* another thread is in progress with our tasks: it does not wait for anything */
    }
}

void dma_comm_destroy(dma_comm_t *comm)
{
    dma_comm_lock(comm);
    dma_comm_busy(comm, false);
    dma_setup_drop(comm);
    if (comm->window.peers) {
        dma_window_leave(&comm->window, &comm->proc->lock);
        free(comm->window.peers);
        free(comm->window.acks);
    }
    if (comm->file_arena) {
        dma_proc_retire_file(comm->proc, comm->file_arena);
    }
    for (unsigned i = 0; i < 2 * variant_count(); i++) {
        dma_plan_free(comm->plans[i]);
    }
    free(comm->plans);
    free(comm->stream);
    free(comm->text);
    free(comm);
}

dma_comm_state_t dma_comm_state(const dma_comm_t *comm)
{
    return comm->state;
}

const char *dma_comm_reason(const dma_comm_t *comm)
{
    return comm->reason;
}

void dma_comm_fail(dma_comm_t *comm, dma_status_t status, const char *format, ...)
{
    dma_task_t *task, *next;
    va_list args;

    if (comm->state == DMA_COMM_POISONED) {
        return;
    }
    va_start(args, format);
    vsnprintf(comm->reason, sizeof(comm->reason), format, args);
    va_end(args);
    comm->state = DMA_COMM_POISONED;
    comm->error = status;
    if (comm->window.own) {
        dma_window_poison(&comm->window, status);
    }
    dma_proc_report(comm->proc, DMA_REPORT_ERROR, "failed", "%s", comm->reason);
    comm->streaming = NULL;
    task = comm->head;
    comm->head = comm->tail = NULL;
    for (; task; task = next) {
        next = task->next;
        dma_task_complete(task, status);
    }
    dma_comm_busy(comm, false);
}

void dma_comm_advance(dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_SETUP) {
        dma_status_t status = dma_setup_advance(comm);

        if (status == DMA_AGAIN) {
            return;
        }
        if (status != DMA_OK) {
            dma_comm_fail(comm, status, "the set-up of %s failed: %s", comm->text, dma_status_name(status));
        }
    }
    if (comm->state == DMA_COMM_READY) {
        dma_tasks_advance(comm);
    } else if (comm->state == DMA_COMM_ASIDE && comm->head) {
        dma_comm_fail(comm, DMA_ERR_NOMEM, "calls were posted on %s before its set-up failed: %s", comm->text,
                      comm->reason);
    }
    if (comm->is_busy && !comm->head && comm->state != DMA_COMM_SETUP) {
        dma_comm_busy(comm, false);
    }
}

/* The states in which a call cannot be posted. */
static dma_status_t refuse(const dma_comm_t *comm)
{
    switch (comm->state) {
    case DMA_COMM_POISONED: return comm->error;
    case DMA_COMM_ASIDE: return DMA_UNSUPPORTED;
    default: return DMA_OK;
    }
}

/* A rank whose two sides disagree fails the call for all: the peers find the poison in their wait. */
static dma_status_t check(dma_comm_t *comm, const dma_buffer_t *send, const dma_buffer_t *recv)
{
    dma_status_t status = refuse(comm);

    if (__builtin_expect(status == DMA_OK && send && send->bytes != recv->bytes, 0)) {
        dma_comm_fail(comm, DMA_ERR_TRUNCATE, "a call on %s sends blocks of %zu bytes and receives blocks of %zu",
                      comm->text, send->bytes, recv->bytes);
        status = DMA_ERR_TRUNCATE;
    }
    return status;
}

dma_status_t dma_comm_allgather(dma_comm_t *comm, const dma_buffer_t *send, const dma_buffer_t *recv)
{
    dma_task_t task;
    dma_status_t status;

    if (!recv->bytes && (!send || !send->bytes)) {
        return DMA_OK;
    }
    dma_comm_lock(comm);
    status = check(comm, send, recv);
    if (status == DMA_OK) {
        status = dma_task_init(comm, &task, DMA_ALLGATHER, send, recv);
        if (__builtin_expect(status != DMA_OK, 0)) {
            dma_comm_fail(comm, status, "no memory to pack the data of a call on %s", comm->text);
            dma_task_complete(&task, status);
        } else {
            dma_task_post(comm, &task);
            dma_tasks_advance(comm);
        }
    }
    dma_comm_unlock(comm);
    if (status != DMA_OK) {
        return status;
    }
    return __builtin_expect(task.state == DMA_TASK_COMPLETE, 0) ? task.status : dma_task_wait(&task);
}

/* Begins the set-up at the first call. */
static dma_status_t begin(dma_comm_t *comm)
{
    dma_status_t status = DMA_OK;

    if (comm->state == DMA_COMM_NEW) {
        status = dma_setup_begin(comm);
        if (status != DMA_OK) {
            dma_comm_fail(comm, status, "no memory for the set-up of %s", comm->text);
        } else {
            dma_comm_busy(comm, true);
        }
    }
    return status;
}

dma_status_t dma_comm_prepare(dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_SETUP) {
        dma_comm_lock(comm);
        begin(comm);
        dma_comm_unlock(comm);
        dma_setup_wait(comm);
    }
    return refuse(comm);
}

dma_status_t dma_comm_iallgather(dma_comm_t *comm, const dma_buffer_t *send, const dma_buffer_t *recv,
                                 dma_task_t **result)
{
    dma_task_t *task = calloc(1, sizeof(*task));
    dma_status_t status;

    if (!task) {
        return DMA_ERR_NOMEM;
    }
    task->comm = comm;
    task->state = DMA_TASK_COMPLETE;
    dma_comm_lock(comm);
    status = check(comm, send, recv);
    if (status == DMA_OK && (recv->bytes || (send && send->bytes))) {
        status = begin(comm);
        if (status == DMA_OK && (status = dma_task_init(comm, task, DMA_ALLGATHER, send, recv)) == DMA_OK) {
            dma_task_post(comm, task);
            dma_comm_busy(comm, true);
            dma_comm_advance(comm);
        }
    }
    dma_comm_unlock(comm);
    if (status != DMA_OK) {
        free(task->staging);
        free(task);
        return status;
    }
    *result = task;
    return DMA_OK;
}

dma_status_t dma_task_test(dma_task_t *task)
{
    return dma_task_done(task) ? task->status : DMA_AGAIN;
}

void dma_task_free(dma_task_t *task)
{
    free(task);
}
