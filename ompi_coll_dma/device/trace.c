/* What a trace says of engines: the copies that they get, and when they did them by their own clocks. */
#include "device/device.h"

#define READING_NS 200 /* shorter times of reading are not in the trace */

static void put_command(const dma_comm_t *comm, const dma_task_t *task, uint32_t program, const dma_op_t *op)
{
    uint64_t skip, bytes = dma_run_length(&task->run, &op->len, &skip);
    int copies = op->code == DMA_OP_COPY2 ? 2 : 1;

    for (int i = 0; i < copies; i++) {
        dma_trace_mark(comm->trace, DMA_TRACE_COMMAND, task->run.seq, program,
                       (uint64_t)(uint32_t)op->dst[i].rank << 48 | bytes, 0);
    }
}

void dma_device_trace_commands(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_plan_t *plan = task->run.plan;

    for (uint32_t i = 1; dma_trace_on(comm->trace) && i < plan->nprogs; i++) {
        for (uint32_t k = 0; k < plan->progs[i].nops; k++) {
            const dma_op_t *op = &plan->progs[i].ops[k];

            if (op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2 || op->code == DMA_OP_SWAP) {
                put_command(comm, task, i, op);
            }
        }
    }
}

void dma_device_trace_moment(const dma_comm_t *comm)
{
    const dma_gpu_engine_t *engine = comm->device->device->engine;
    dma_gpu_moment_t moment;

    if (dma_trace_on(comm->trace) && engine->moment && engine->moment(comm->device->binding, &moment)) {
        dma_trace_event_t event = {
            .at = moment.earliest, .kind = DMA_TRACE_MOMENT, .a = moment.latest, .b = moment.ticks};

        dma_trace_put(comm->trace, &event);
    }
}

void dma_device_trace_stamps(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_gpu_engine_t *engine = comm->device && comm->device->binding ? comm->device->device->engine : NULL;
    uint64_t began = dma_trace_begin(comm->trace);
    bool found = false;

    if (!dma_trace_on(comm->trace) || !engine || !engine->stamps) {
        return;
    }
    for (uint32_t i = 1; i < task->run.plan->nprogs; i++) {
        dma_gpu_stamp_t stamp;

        if (engine->stamps(comm->device->binding, i, &stamp)) {
            dma_trace_mark(comm->trace, stamp.early ? DMA_TRACE_EARLY : DMA_TRACE_STAMP, task->run.seq, i,
                           stamp.ticks[0], stamp.ticks[1]);
            found = true;
        }
    }
    if (found && dma_trace_now() - began >= READING_NS) {
        dma_trace_span(comm->trace, DMA_TRACE_READING, task->run.seq, 0, began, 0);
    }
}
