/* Traces of communicators: opened when the first communicator of the process is ready (trace/trace.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/comm.h"

/* With the lock of the process. */
static dma_trace_t *open_trace(dma_proc_t *proc)
{
    dma_trace_config_t config = {
        .dir = proc->params.trace, .job = proc->job, .rank = proc->world_rank, .bytes = proc->params.trace_bytes};
    const char *what;

    if (!proc->trace_tried) {
        proc->trace_tried = true;
        if (dma_trace_open(&config, &proc->trace, &what) != DMA_OK) {
            proc->trace = NULL;
            dma_proc_report(proc, DMA_REPORT_WARN, "trace", "nothing is traced: %s in %s: %s", what, config.dir,
                            strerror(errno));
        }
    }
    return proc->trace;
}

void dma_comm_begin_trace(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;
    dma_trace_t *trace;

    if (!proc->params.trace || comm->trace || (comm->state != DMA_COMM_READY && comm->state != DMA_COMM_ASIDE)) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    trace = open_trace(proc);
    pthread_mutex_unlock(&proc->lock);
    if (trace &&
        dma_trace_add(trace, &comm->traced, comm->rank, comm->nranks, comm->inner, comm->identity, comm->text)) {
        comm->trace = comm->window.trace = &comm->traced;
        comm->engine = &dma_engine_host_traced;
    }
}

void dma_task_trace_begin(const dma_task_t *task, uint64_t entered)
{
    dma_trace_event_t event = {.at = entered,
                               .kind = DMA_TRACE_BEGIN,
                               .detail = (uint8_t)task->coll,
                               .seq = (uint32_t)task->run.seq,
                               .a = task->bytes};

    dma_trace_put(task->comm->trace, &event);
}
