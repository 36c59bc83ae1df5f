/* Moves a communicator on: its set-up, then its tasks. */
#include <stdio.h>
#include <stdlib.h>

#include "core/comm.h"

/* Does progress have to advance the communicator? */
bool dma_comm_has_work(const dma_comm_t *comm)
{
    return comm->head || comm->state == DMA_COMM_SETUP ||
           (comm->attached && comm->attached->holds && comm->attached->holds(comm));
}

static void note_setup_begin(dma_comm_t *comm)
{
    comm->plain = dma_proc_plain(comm->proc);
    dma_state_take(comm);
    dma_comm_count(comm, DMA_COUNT_setups);
    DMA_PROBE4(setup_begin, comm, comm->rank, comm->nranks, comm->text);
}

static void note_setup_end(dma_comm_t *comm)
{
    dma_state_update(comm);
    /* The cast takes what is atomic off the type, which clang finds no kind of argument for. */
    DMA_PROBE3(setup_end, comm, (dma_comm_state_t)comm->state, comm->identity);
    dma_comm_begin_trace(comm);
}

static void report_failure(dma_comm_t *comm, const dma_task_t *task, dma_status_t status)
{
    if (status == DMA_ERR_TRUNCATE || status == DMA_ERR_MISMATCH) {
        char who[32] = "a rank";

        if (task->run.failed_rank >= 0) {
            snprintf(who, sizeof(who), "rank %d", task->run.failed_rank);
        }
        dma_comm_fail(comm, status, "%s of %s has called %s with %s in call %llu", who, comm->text,
                      status == DMA_ERR_TRUNCATE ? "this operation" : "another operation",
                      status == DMA_ERR_TRUNCATE ? "another number of bytes" : "different arguments",
                      (unsigned long long)task->run.seq);
    } else {
        dma_comm_fail(comm, status, "call %llu on %s failed: %s", (unsigned long long)task->run.seq, comm->text,
                      dma_status_name(status));
    }
}

int dma_tasks_advance(dma_comm_t *comm)
{
    int completed = 0;
    dma_task_t *before = NULL, *task = comm->head, *next;

    for (; task; task = next) {
        dma_status_t status =
            __builtin_expect(task->route != NULL, 0) ? task->route->advance(comm, task) : dma_host_advance(comm, task);

        next = task->next;
        if (status == DMA_AGAIN) {
            if (dma_task_state(task) == DMA_TASK_QUEUED) {
                break; /* those behind it wait too: calls start in order */
            }
            before = task;
        } else if (status == DMA_OK) {
            dma_task_end(comm, task, before);
            completed++;
        } else {
            report_failure(comm, task, status);
            return completed + 1;
        }
    }
    return completed;
}

/* Before and in the set-up. */
static int advance_unready(dma_comm_t *comm)
{
    dma_status_t status;

    if (comm->state != DMA_COMM_SETUP || (status = comm->route->setup_advance(comm)) == DMA_AGAIN) {
        return 0;
    }
    if (status != DMA_OK) {
        dma_comm_fail(comm, status, "the set-up of %s failed: %s", comm->text, dma_status_name(status));
    }
    note_setup_end(comm);
    return 1;
}

int dma_comm_advance(dma_comm_t *comm)
{
    int completed = comm->state != DMA_COMM_READY ? advance_unready(comm) : 0;

    if (comm->pending_error && (comm->state == DMA_COMM_READY || comm->state == DMA_COMM_ASIDE)) {
        dma_comm_fail(comm, comm->pending_error, "%s", comm->pending_reason);
    }
    if (comm->state == DMA_COMM_READY || comm->state == DMA_COMM_ASIDE) {
        completed += dma_tasks_advance(comm);
    }
    if (comm->is_active && !dma_comm_has_work(comm)) {
        dma_comm_set_active(comm, false);
    }
    return completed;
}

/* ---- the first call ---- */

dma_status_t dma_comm_begin(dma_comm_t *comm)
{
    dma_status_t status = DMA_OK;

    if (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST) {
        note_setup_begin(comm);
        comm->arrays = malloc(dma_arrays_total(comm));
        status = comm->arrays ? comm->route->setup_begin(comm) : DMA_ERR_NOMEM;
        if (status != DMA_OK) {
            dma_comm_fail(comm, status, "no memory for the set-up of %s", comm->text);
        } else {
            dma_comm_set_active(comm, true);
        }
        dma_state_update(comm);
        dma_comm_begin_trace(comm); /* of one rank */
    }
    return comm->state == DMA_COMM_POISONED ? comm->error : status;
}

void dma_comm_begin_ready(dma_comm_t *comm)
{
    dma_comm_lock(comm);
    note_setup_begin(comm);
    comm->state = DMA_COMM_READY;
    note_setup_end(comm);
    dma_comm_unlock(comm);
}
