/* Events of calls: see dma/events.h. */
#include "core/comm.h"
#include "trace/trace.h"

#ifdef DMA_HAVE_EVENTS

static dma_prediction_t predict(const dma_task_t *task)
{
    dma_prediction_t prediction = {.variant = -1};

    if (task->route && task->route->predict) {
        task->route->predict(task->comm, task, &prediction);
    } else if (!task->route) {
        dma_host_predict(task->comm, task, &prediction);
    }
    return prediction;
}

static dma_event_t describe(const dma_task_t *task, const dma_prediction_t *prediction)
{
    const dma_comm_t *comm = task->comm;
    const dma_comm_t *outer = comm->parent ? comm->parent : comm;

    return (dma_event_t){
        .communicator = (uint64_t)(uintptr_t)outer,
        .sequence = task->run.seq,
        .bytes = task->bytes,
        .predicted_ns = prediction->cost_ps / 1000,
        .operation = (int32_t)task->coll,
        .form = (int32_t)task->form,
        .variant = prediction->variant,
    };
}

uint64_t dma_event_raise_begin(const dma_task_t *task)
{
    const dma_events_t *events = task->comm->proc->events;
    dma_prediction_t prediction = predict(task);
    dma_event_t event = describe(task, &prediction);

    if (*events->begin_listeners) {
        events->raise_begin(&event);
    }
    return dma_trace_now();
}

void dma_event_note(dma_task_t *task)
{
    uint64_t ns = dma_trace_now() - task->began;

    task->began = ns ? ns : 1;
    task->predicted = predict(task);
}

void dma_event_raise_end(const dma_task_t *task)
{
    const dma_events_t *events = task->comm->proc->events;
    dma_event_t event;

    if (*events->end_listeners) {
        event = describe(task, &task->predicted);
        event.ns = task->began;
        event.status = (int32_t)task->status;
        events->raise_end(&event);
    }
}

#endif
