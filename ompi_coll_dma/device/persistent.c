/*
 * Making a persistent call in device memory: *_init, and the task of a start. How starts run is in starts.h.
 *
 * *_init is a call on the channel that only gets ready to run (decide.h: PREPARE). If the engines of all ranks would carry it out
 * between the users' buffers, what all starts have in common is kept. Else each start is decided by itself, as other calls are.
 */
#include <string.h>

#include "device/starts.h"
#include "gpu/ipc.h"

dma_reason_t dma_device_prepare_offer(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc;
    dma_reason_t why;

    if (!(dc = dma_device_comm(comm, task->device->rt, task->device->device, &why))) {
        return DMA_REASON_unprepared;
    }
    dc->may_arm = dc->device->traits.features & DMA_GPU_PRELAUNCH && comm->proc->params.prelaunch > 0;
    dma_device_check_export(comm, task->device);
    if (dma_device_needs_scratch(dc, task->device) || dma_device_publish_record(comm, task) != DMA_OK) {
        return DMA_REASON_unprepared;
    }
    /* it will be started many times, and is exported only now */
    dma_ipc_count_calls(comm->proc->ipc, dma_device_info(comm, comm->rank, task->run.seq)->number, DMA_IPC_BRIEF_CALLS);
    return DMA_REASON_NONE;
}

/* Equal on all ranks, except for the reason. Partitions have no other way than armed programs. */
static dma_reason_t why_not_armed(const dma_comm_t *comm, bool parts)
{
    const struct dma_device_comm *dc = comm->device;

    for (int r = 0; r < comm->nranks; r++) {
        if (!(dc->traits[r].features & DMA_GPU_PRELAUNCH)) {
            return comm->proc->params.prelaunch <= 0 ? DMA_REASON_arm_limit : DMA_REASON_arm_unable;
        }
    }
    return parts || dc->prelaunch_wins ? DMA_REASON_NONE : DMA_REASON_arm_unable;
}

/* Keeps what all starts have in common. */
static void save_prepared_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;

    dc->start_call = *task->device;
    dc->start_call.persistent = true;
    dc->start_call.prepares = false;
    dc->start_call.failed = DMA_OK;
    dc->start_run = task->run;
    dc->start_run.shape = dma_device_sent_shape(&dc->start_call, task->in_place);
    dc->prepared = true;
    dc->start_in_place = task->in_place;
    dc->start_coll = task->coll;
    dc->start_bytes = task->bytes;
}

static dma_status_t advance_nothing(dma_comm_t *comm, dma_task_t *task)
{
    (void)comm;
    (void)task;
    return DMA_OK;
}

static const dma_device_runner_t by_nobody = {.advance = advance_nothing, .end = dma_device_end_streaming};

dma_status_t dma_device_try_to_prepare(dma_comm_t *comm, dma_task_t *task, dma_status_t status)
{
    if (status == DMA_ERR_TRUNCATE ||
        (status == DMA_OK && dma_device_bind(comm, task, dma_device_largest_block(comm, task)) != DMA_OK)) {
        return DMA_UNSUPPORTED; /* its starts find blocks that differ, and find no engine that has no plan */
    }
    return status;
}

void dma_device_end_init(dma_comm_t *comm, dma_task_t *task, const dma_decision_t *decision)
{
    dma_device_set_runner(task, &by_nobody);
    if (decision->mode == DMA_MODE_PREPARE) {
        save_prepared_call(comm, task);
    } else {
        dma_comm_note_reason(comm, decision->why);
    }
}

dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays)
{
    dma_task_t task;
    dma_status_t status = dma_task_init(comm, &task, call, arrays);

    if (status == DMA_OK && !(task.device && task.device->served)) {
        status = DMA_ERR_ENGINE; /* dma_device_serves has said so; its memory has changed meanwhile */
    }
    if (status == DMA_OK) {
        task.device->prepares = true;
        task.device->why = DMA_REASON_NONE;
    }
    status = dma_comm_run_own(comm, &task, status);
    if (status == DMA_OK && comm->device && comm->device->prepared) {
        comm->device->unarmed = why_not_armed(comm, call->parts != NULL);
        comm->device->all_may_arm = !comm->device->unarmed;
        if (call->parts) {
            status = dma_device_parts_init(comm, call->parts);
        } else {
            dma_comm_lock(comm);
            dma_starts_arm(comm);
            dma_comm_unlock(comm);
        }
    }
    if (status != DMA_OK) {
        dma_comm_lock(comm);
        dma_comm_fail(comm, status, "making a persistent call on %s failed: %s", comm->text, dma_status_name(status));
        dma_comm_unlock(comm);
    }
    return status;
}

dma_status_t dma_device_persistent_start(dma_comm_t *comm, dma_task_t *task, void *arrays)
{
    struct dma_device_comm *dc = comm->device;

    if (!dc || !dc->prepared) {
        return DMA_UNSUPPORTED;
    }
    memset(task, 0, sizeof(*task));
    task->comm = comm;
    task->coll = dc->start_coll;
    task->in_place = dc->start_in_place;
    task->bytes = dc->start_bytes;
    task->arrays = arrays;
    task->run = dc->start_run;
    task->device = &dc->start_call;
    task->device->phase = DEVICE_ENTER;
    task->device->runner = NULL;
    task->device->under_way = false;
    task->memory = &dma_device_memory;
    task->route = &dma_route_device;
    return dma_device_sync_stream(comm, dc->start_call.rt, dc->start_call.device);
}
