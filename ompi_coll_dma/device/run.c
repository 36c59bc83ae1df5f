/* Runs of a call by engines, as a whole, and by the host plan. See device.h. */
#include "core/resolve.h"
#include "device/device.h"

/* ---- binding ---- */

void dma_device_copy_early(dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *call = task->device;
    const dma_run_t *run = &task->run;
    uint64_t rank = (uint64_t)comm->rank, from = dma_coll_gathers(task->coll) ? 0 : rank;
    uint64_t bytes = dma_blocks_bytes(&run->send, from);

    if (!dc->binding || !dc->device->engine->copy_early || task->in_place || call->piece || call->send_shape.row ||
        call->recv_shape.row || !bytes || bytes != dma_blocks_bytes(&run->recv, rank)) {
        return;
    }
    dc->device->engine->copy_early(dc->binding, (uint64_t)(uintptr_t)dma_blocks_addr(&run->recv, rank),
                                   (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, from), bytes);
}

void dma_device_leave_engine(dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;

    if (dc && dc->binding && dc->device->engine->wait_early) {
        dc->device->engine->wait_early(dc->binding);
    }
    dma_device_cancel_pieces(task);
}

/* `repeat`: plan, addresses and lengths equal those of the last run. */
static dma_status_t bind_plan(dma_comm_t *comm, dma_task_t *task, bool repeat)
{
    struct dma_device_comm *dc = comm->device;
    dma_run_t *run = &task->run;
    dma_status_t status = dma_task_arrays(comm, task);

    if (status != DMA_OK) {
        return status;
    }
    run->repeat = repeat;
    run->beside_device = false;
    run->shape_skip = 0;
    run->cursors = (dma_cursor_t *)((char *)task->arrays + dma_arrays_bytes(comm->nranks));
    run->window = &comm->window;
    run->targets = dc->targets;
    run->shape = dma_device_sent_shape(task->device, task->in_place);
    run->binding = dc->binding;
    run->parts = NULL; /* except of persistent calls with partitions (parts.c) */
    return DMA_OK;
}

dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes)
{
    dma_status_t status = dma_device_find_plan(comm, task, bytes, &task->run.plan);

    return status == DMA_OK ? bind_plan(comm, task, false) : status;
}

void dma_device_count_run(dma_comm_t *comm, const dma_task_t *task)
{
    dma_comm_count(comm, DMA_COUNT_VARIANT + (int)task->run.plan->variant);
    dma_comm_count(comm, DMA_COUNT_ENGINE + comm->device->device->engine_index);
}

void dma_device_start_run(dma_comm_t *comm, dma_task_t *task)
{
    task->run.epoch = ++comm->device->epoch;
    dma_device_count_run(comm, task);
    comm->counts.at[DMA_COUNT_calls_repeated] += task->run.repeat;
    comm->engine->start(&task->run);
}

/* ---- engines ---- */

dma_status_t dma_device_begin_engine(dma_comm_t *comm, dma_task_t *task, bool repeats)
{
    dma_status_t status;

    if (repeats) {
        task->run.plan = comm->device->last.plan;
        status = bind_plan(comm, task, true);
    } else if ((status = dma_device_bind(comm, task, dma_device_largest_block(comm, task))) == DMA_OK) {
        dma_device_save_call(comm, task);
    }
    if (status == DMA_OK) {
        dma_device_start_run(comm, task);
        dma_device_set_runner(task, &dma_device_by_engine);
    }
    return status;
}

dma_status_t dma_device_submit(dma_comm_t *comm, dma_task_t *task, bool armed, uint64_t began)
{
    dma_status_t status = comm->device->device->engine->start(&task->run);

    dma_trace_span(comm->trace, DMA_TRACE_SUBMIT, task->run.seq, armed, began, 0);
    if (status == DMA_OK) {
        dma_device_trace_commands(comm, task);
    }
    return status;
}

/* An engine that needs the processor meanwhile; then the waits of the plan. */
dma_status_t dma_device_poll_engine(const dma_comm_t *comm, dma_task_t *task)
{
    const dma_gpu_engine_t *engine = comm->device->device->engine;

    return engine->advance ? engine->advance(&task->run) : DMA_OK;
}

static dma_status_t advance_engine(dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    struct dma_device_call *call = task->device;
    bool armed = call->persistent && dc->run_is_armed;
    dma_status_t status = DMA_OK;

    if (!call->under_way) {
        status = dma_device_submit(comm, task, armed, armed ? dc->started_at : dma_trace_begin(comm->trace));
        call->under_way = status == DMA_OK;
    }
    if (status == DMA_OK) {
        status = dma_device_poll_engine(comm, task);
    }
    if (call->under_way && task->stages && dma_device_is_left_to_caller(comm)) {
        return DMA_AGAIN; /* they would be copied out */
    }
    return status == DMA_OK ? comm->engine->advance(&task->run) : status;
}

static void end_engine(dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;

    dma_host_finish(comm, task);
    if (dc->device->engine->end) {
        dc->device->engine->end(dc->binding);
    }
    dma_device_trace_stamps(comm, task);
}

const dma_device_runner_t dma_device_by_engine = {
    .name = "engine",
    .advance = advance_engine,
    .end = end_engine,
    .waits_for = dma_host_waits_for_flag,
    .position = dma_host_position,
};

/* ---- the host plan ---- */

static const dma_device_runner_t by_host;

dma_status_t dma_device_begin_host(dma_comm_t *comm, dma_task_t *task, bool second_entry, dma_reason_t reason)
{
    dma_status_t status;

    dma_device_leave_engine(comm, task);
    status = dma_device_stage(task, reason);
    dma_device_set_runner(task, &by_host);
    task->run.second_entry = second_entry;
    return status == DMA_OK ? dma_host_bind(comm, task) : status;
}

static dma_status_t advance_host(dma_comm_t *comm, dma_task_t *task)
{
    return comm->engine->advance(&task->run);
}

static const dma_device_runner_t by_host = {
    .name = "copies by cores",
    .for_caller = true,
    .advance = advance_host,
    .end = dma_host_finish,
    .waits_for = dma_host_waits_for_flag,
    .position = dma_host_position,
};
