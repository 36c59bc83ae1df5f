/* Tasks: from a call through the queue to completion. Routes carry them out. */
#include <stdio.h>
#include <stdlib.h>

#include "core/comm.h"
#include "core/resolve.h"

size_t dma_arrays_total(const dma_comm_t *comm)
{
    size_t n = (size_t)comm->nranks;

    /* No plan has more programs than one, and two for each peer. Over several nodes the node communicator has the plans. */
    return dma_arrays_bytes(comm->nranks) + (comm->cluster ? 0 : (2 * n + 1) * sizeof(dma_cursor_t));
}

dma_status_t dma_task_arrays(dma_comm_t *comm, dma_task_t *task)
{
    if (!task->arrays) {
        task->arrays = malloc(dma_arrays_total(comm));
        task->own_arrays = true;
    }
    return task->arrays ? DMA_OK : DMA_ERR_NOMEM;
}

void dma_task_drop(dma_task_t *task)
{
    if (__builtin_expect(task->route && task->route->drop, 0)) {
        task->route->drop(task);
    }
    if (__builtin_expect(task->stages != NULL, 0)) {
        dma_stages_drop(task, false);
    }
    if (__builtin_expect(task->memory != NULL, 0)) {
        task->memory->drop(task);
    }
    if (task->own_arrays) {
        free(task->arrays);
        task->arrays = NULL;
        task->own_arrays = false;
    }
}

void dma_task_complete(dma_task_t *task, dma_status_t status)
{
    if (status == DMA_OK && __builtin_expect(task->stages != NULL, 0)) {
        status = dma_stages_out(task);
    }
    task->status = status;
    dma_event_note_end(task);
    DMA_PROBE3(call_end, task->comm, task->run.seq, task->status);
    dma_trace_mark(task->comm->trace, DMA_TRACE_END, task->run.seq, (uint8_t)-status, 0, 0);
    if (task->done) {
        task->next = task->comm->completed;
        task->comm->completed = task;
    } else {
        dma_task_drop(task);
    }
    /* release: a waiter in another thread sees the data; a task without `done` may be gone from here on */
    atomic_store_explicit(&task->state, DMA_TASK_COMPLETE, memory_order_release);
}

static void dequeue(dma_comm_t *comm, dma_task_t *task, dma_task_t *before)
{
    uint64_t completed;

    if (before) {
        before->next = task->next;
    } else {
        comm->head = task->next;
    }
    if (comm->tail == task) {
        comm->tail = before;
    }
    /* all calls before the oldest one that is left have been completed here */
    completed = comm->head ? comm->head->run.seq - 1 : comm->seq;
    dma_state_count_completed(comm, completed);
    if (comm->window.own) {
        dma_window_completed(&comm->window, (uint32_t)completed);
    }
}

void dma_task_end(dma_comm_t *comm, dma_task_t *task, dma_task_t *before)
{
    dequeue(comm, task, before);
    dma_task_complete(task, DMA_OK);
}

/* Equal blocks that need no packing: most small calls. */
static inline bool is_simple(const dma_call_t *call)
{
    return !call->recv.counts && call->recv.dense && (call->in_place || call->send.dense);
}

/* Is there device memory in the call? DMA_UNSUPPORTED: none. */
static dma_status_t resolve_device_memory(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    const dma_gpu_runtime_t *rt = dma_proc_runtime(comm->proc);
    dma_status_t status;

    if (!rt || !comm->proc->memory) {
        return DMA_UNSUPPORTED;
    }
    status = dma_task_arrays(comm, task);
    return status == DMA_OK ? comm->proc->memory->resolve(comm, task, call, rt) : status;
}

/* Nothing but a few stores. */
static inline dma_status_t init_simple(const dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    uint64_t bytes = call->recv.count * call->recv.size, own = 0;

    if (call->in_place && dma_coll_gathers(call->coll)) {
        own = (uint64_t)comm->rank * bytes;
    }
    task->bytes = bytes;
    task->in_place = call->in_place;
    task->run.recv = (dma_blocks_t){.addr = call->recv.addr, .bytes = bytes};
    task->run.send = (dma_blocks_t){.addr = call->in_place ? (char *)call->recv.addr + own : (char *)call->send.addr,
                                    .bytes = bytes};
    task->run.sign = dma_sign(call->coll, call->in_place, bytes);
    return call->in_place || call->send.count * call->send.size == bytes ? DMA_OK : DMA_ERR_TRUNCATE;
}

dma_status_t dma_task_init(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, void *arrays)
{
    const dma_plain_t *plain = &comm->plain;
    bool simple = is_simple(call);
    dma_status_t status;

    task->comm = comm;
    task->coll = call->coll;
    task->arrays = arrays;
    task->own_arrays = false;
    task->route = NULL;
    task->memory = NULL;
    task->stages = NULL;
    task->messages = NULL;
    task->device = NULL;
    task->done = NULL;
    task->run.plan = NULL;
    task->run.second_entry = false;
    task->run.failed_rank = -1;
    if (!simple || !dma_plain_holds(plain, call->recv.addr) ||
        !(call->in_place || dma_plain_holds(plain, call->send.addr))) {
        status = resolve_device_memory(comm, task, call);
        if (__builtin_expect(status != DMA_UNSUPPORTED, 0)) {
            return status;
        }
    }
    if (__builtin_expect(atomic_load_explicit(&comm->joins, memory_order_relaxed) != 0, 0) && comm->proc->memory &&
        (status = comm->proc->memory->join(comm, task, call)) != DMA_UNSUPPORTED) {
        return status;
    }
    if (__builtin_expect(simple, 1)) {
        return init_simple(comm, task, call);
    }
    status = dma_task_arrays(comm, task);
    return status == DMA_OK ? dma_task_resolve(comm, task, call) : status;
}

void dma_task_post(dma_comm_t *comm, dma_task_t *task)
{
    task->next = NULL;
    if (__builtin_expect(comm->route_calls != NULL, 0)) {
        task->route = comm->route_calls;
    }
    atomic_store_explicit(&task->state, DMA_TASK_QUEUED, memory_order_relaxed);
    task->run.seq = ++comm->seq;
    dma_state_count_begun(comm);
    DMA_PROBE4(call_begin, comm, task->run.seq, task->coll, task->bytes);
    if (comm->tail) {
        comm->tail->next = task;
    } else {
        comm->head = task;
    }
    comm->tail = task;
}
