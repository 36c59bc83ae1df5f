/* Calls in host memory that join those of ranks with device memory: see join.h. */
#include "device/join.h"

#include <stdlib.h>

#include "core/resolve.h"
#include "device/device.h"
#include "node/entry.h"

/* Bytes of the largest block of a side. */
static uint64_t largest_block(const dma_comm_t *comm, const dma_side_t *side, int blocks)
{
    uint64_t most = 0;

    for (int b = 0; b < (side->counts ? blocks : 1); b++) {
        uint64_t bytes = dma_side_bytes(comm->host, side, b);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Would slots be worth their votes? Another rank may see that differently, and joins or not. */
static bool is_large(const dma_comm_t *comm, const dma_call_t *call)
{
    return largest_block(comm, &call->recv, comm->nranks) >= DEVICE_SLOTS_FROM ||
           (!call->in_place &&
            largest_block(comm, &call->send, dma_coll_gathers(call->coll) ? 1 : comm->nranks) >= DEVICE_SLOTS_FROM);
}

dma_status_t dma_device_join(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call)
{
    struct dma_device_call *d;
    dma_call_t ours = *call;
    dma_status_t status;

    if (comm->nranks == 1 || comm->route->uses_device_memory || !is_large(comm, call)) {
        return DMA_UNSUPPORTED;
    }
    if ((status = dma_task_arrays(comm, task)) != DMA_OK) {
        return status;
    }
    if (!(d = calloc(1, sizeof(*d)))) {
        return DMA_ERR_NOMEM;
    }
    d->joins = true;
    d->device = -1;
    task->device = d;
    task->memory = &dma_device_memory;
    task->route = &dma_route_device;
    ours.send.runtime = ours.recv.runtime = NULL; /* a call in host memory does not say */
    return dma_task_resolve(comm, task, &ours);
}

void dma_device_note_census(dma_comm_t *comm, const dma_task_t *task, const dma_census_t *census)
{
    unsigned joins = atomic_load_explicit(&comm->joins, memory_order_relaxed);

    if (!task->device->joins) {
        return;
    }
    if (census->device) {
        dma_comm_expect_device(comm);
    } else if (joins) {
        atomic_store_explicit(&comm->joins, joins - 1, memory_order_relaxed);
    }
}
