/*
 * How a communicator gets its device state.
 *
 * The first call with device memory makes it, for the device of that call. The first call in host memory that joins those of other
 * ranks (join.c) makes it without a device. It gets one if this rank has device memory later.
 */
#include <stdlib.h>

#include "device/device.h"
#include "device/starts.h"

static size_t tables_bytes(int nranks)
{
    size_t n = (size_t)nranks;

    return n * (sizeof(dma_device_peer_t) + sizeof(dma_gpu_traits_t) + 2 * sizeof(dma_target_t) + sizeof(dma_shape_t) +
                7 * sizeof(uint64_t) + sizeof(char *) + sizeof(dma_slots_view_t) + sizeof(bool)) +
           n * n * sizeof(int64_t);
}

struct dma_device_comm *dma_device_comm_of_host(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    size_t n = (size_t)comm->nranks;

    if (dc || !(dc = calloc(1, sizeof(*dc) + tables_bytes(comm->nranks)))) {
        return dc;
    }
    dc->displs = (int64_t *)(dc + 1);
    dc->shapes = (dma_shape_t *)(dc->displs + n * n);
    dc->peers = (dma_device_peer_t *)(dc->shapes + n);
    dc->targets = (dma_target_t *)(dc->peers + n);
    dc->pieces.targets = dc->targets + n;
    dc->arenas = (uint64_t *)(dc->pieces.targets + n);
    dc->pieces.counts = dc->arenas + n;
    dc->pieces.displs = (int64_t *)(dc->pieces.counts + 2 * n);
    dc->pieces.copy_counts = (uint64_t *)(dc->pieces.displs + 2 * n);
    dc->pieces.copy_displs = (int64_t *)(dc->pieces.copy_counts + n);
    dc->by_slots.slots = (char **)(dc->pieces.copy_displs + n);
    dc->by_slots.views = (dma_slots_view_t *)(dc->by_slots.slots + n);
    dc->traits = (dma_gpu_traits_t *)(dc->by_slots.views + n);
    dc->pieces.halves = (bool *)(dc->traits + n);
    comm->device = dc;
    dma_comm_attach(comm, &dma_route_device);
    return dc;
}

struct dma_device_comm *dma_device_comm(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int ordinal, dma_reason_t *why)
{
    struct dma_device_comm *dc;
    dma_device_t *device;

    *why = DMA_REASON_NONE;
    if (comm->device && comm->device->device) {
        return comm->device->device->ordinal == ordinal ? comm->device : NULL;
    }
    device = dma_device_of(comm->proc, rt, ordinal);
    if (!device) {
        *why = DMA_REASON_staged_memory;
        return NULL;
    }
    if (!(dc = dma_device_comm_of_host(comm))) {
        *why = DMA_REASON_staged_memory;
        dma_device_put(comm->proc, rt, device);
        return NULL;
    }
    dc->off = device->engine ? DMA_REASON_NONE : DMA_REASON_staged_no_engine;
    dc->rt = rt;
    dc->device = device;
    dma_submitter_prepare(comm->proc);
    return dc;
}

void dma_device_comm_destroy(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    dma_submitter_give_back(comm);
    dma_device_stop(comm);
    dma_starts_destroy(comm); /* failed starts are read with their plan */
    free(dc->in_stream);
    dma_device_parts_end(comm, comm->window.permanent || comm->state == DMA_COMM_POISONED);
    dma_lease_leave(comm, comm->window.permanent);
    /* permanent: a queue that still waits (dma_device_stop) may copy to what is open */
    for (int r = 0; r < comm->nranks && !comm->window.permanent; r++) {
        dma_device_close_all(comm, r);
    }
    dma_plan_cache_free(&dc->plans);
    if (dc->device) {
        dma_device_put(comm->proc, dc->rt, dc->device);
    }
    free(dc);
    comm->device = NULL;
}
