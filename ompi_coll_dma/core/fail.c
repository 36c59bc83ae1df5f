/* The failure of a communicator. */
#include <stdarg.h>
#include <stdio.h>

#include "core/comm.h"

void dma_comm_fail(dma_comm_t *comm, dma_status_t status, const char *format, ...)
{
    bool in_setup = comm->state != DMA_COMM_READY;
    dma_task_t *task, *next;
    va_list args;

    if (comm->state == DMA_COMM_POISONED) {
        return;
    }
    if (status >= DMA_OK) { /* an answer: peers would take it for the result of a set-up */
        status = DMA_ERR_ARG;
    }
    va_start(args, format);
    vsnprintf(comm->reason, sizeof(comm->reason), format, args);
    va_end(args);
    if (comm->route->explain) {
        comm->route->explain(comm, status);
    }
    comm->error = status;
    comm->state = DMA_COMM_POISONED; /* after `reason` and `error`, which other threads read when they see this state */
    dma_state_update(comm);
    dma_setup_poison(comm, status);
    if (comm->window.own) {
        dma_window_poison(&comm->window, status);
    }
    /* A rank whose start has completed waits in the next call on the communicator. Its lock may be held by this thread. In the
     * set-up of a channel no rank has begun a start, and its failure is a channel's alone. */
    if (!in_setup && comm->parent && comm->parent->window.own) {
        dma_window_poison(&comm->parent->window, status);
    }
    dma_proc_report(comm->proc, DMA_REPORT_ERROR, "failed", "%s", comm->reason);
    /* stop all copies before callers get their buffers back */
    if (comm->attached) {
        comm->attached->stop(comm, status);
    }
    if (comm->route->stop) {
        comm->route->stop(comm, status);
    }
    dma_comm_set_polled(comm, false);
    comm->streaming = NULL;
    task = comm->head;
    comm->head = comm->tail = NULL;
    for (; task; task = next) {
        next = task->next;
        dma_task_complete(task, status);
    }
    dma_comm_set_active(comm, false);
}
