/* The tables of the device route and of device memory (core/route.h). */
#include "device/device.h"
#include "device/in_stream.h"
#include "device/join.h"
#include "device/starts.h"

static void end_threads(dma_proc_t *proc)
{
    dma_submitter_destroy(proc);
    if (proc->ipc) {
        dma_mapped_end(dma_ipc_owner(proc->ipc));
    }
}

static void destroy_devices(dma_proc_t *proc)
{
    dma_submitter_destroy(proc);
    dma_devices_destroy(proc);
    dma_leases_destroy(proc);
}

static void stop_engine(dma_comm_t *comm, dma_status_t status)
{
    (void)status;
    dma_device_stop(comm);
}

static void check_engine(dma_comm_t *comm, double now)
{
    const struct dma_device_comm *dc = comm->device;
    const char *reason;

    (void)now;
    /* While a stream waits, calls of the runtime may not return; the stream itself shows an error to who waits for it. */
    if (dc->binding && !dma_device_is_in_stream(comm) && dc->device->engine->check(dc->binding, &reason) != DMA_OK) {
        dma_comm_fail(comm, DMA_ERR_ENGINE, "the engine %s of %s has failed: %s", dc->device->engine->name, comm->text,
                      reason);
    }
}

static bool holds_engine(const dma_comm_t *comm)
{
    return comm->device->next_is_armed;
}

/* For a route that does not know device memory. */
static dma_status_t stage_for_route(dma_task_t *task)
{
    return dma_device_stage(task, task->device->served ? DMA_REASON_staged_aside : task->device->why);
}

/* Before the ranks have agreed on how the call is done, nothing is known. */
static void predict(const dma_comm_t *comm, const dma_task_t *task, dma_prediction_t *prediction)
{
    const struct dma_device_comm *dc = comm->device;

    if (task->run.plan && !task->run.plan->gpu) {
        dma_host_predict(comm, task, prediction);
    } else if (task->run.plan && dc) {
        *prediction = (dma_prediction_t){.variant = (int32_t)task->run.plan->variant, .cost_ps = dc->predicted_ps};
    }
}

const dma_memory_t dma_device_memory = {
    .resolve = dma_device_resolve,
    .join = dma_device_join,
    .pack = dma_device_pack,
    .unpack = dma_device_unpack,
    .stage = stage_for_route,
    .copy_own = dma_device_copy_own,
    .drop = dma_device_drop,
    .serves = dma_device_serves,
    .init = dma_device_persistent_init,
    .start = dma_device_persistent_start,
    .prepare_next = dma_starts_prepare_next,
};

const dma_route_t dma_route_device = {
    .name = "device",
    .memory = &dma_device_memory,
    .proc_destroy = destroy_devices,
    .proc_abandon = end_threads,
    .destroy = dma_device_comm_destroy,
    .stop = stop_engine,
    .watch_clock = check_engine,
    .may_report = dma_device_may_report,
    .holds = holds_engine,
    .expire = dma_starts_disarm_expired,
    .advance = dma_device_advance,
    .spin = dma_device_spin,
    .waits_for = dma_device_waits_for,
    .phase = dma_device_phase,
    .position = dma_device_position,
    .predict = predict,
};
