/* Registrations of slots: see slots.h. */
#include "device/slots.h"

#include "gpu/ipc.h"

void dma_slots_unregister(const dma_comm_t *comm, int rank, const char *addr)
{
    if (dma_ipc_unregister(comm->proc->ipc, addr) != DMA_AGAIN) {
        return;
    }
    if (rank == comm->rank) {
        dma_arena_keep_mapped(comm->window.arena);
    } else {
        dma_registry_share(comm->window.peers[rank].mapping); /* until the process ends */
    }
}

void dma_slots_unview(const dma_comm_t *comm, int rank, dma_slots_view_t *view)
{
    if (view->addr) {
        dma_slots_unregister(comm, rank, view->addr);
        view->addr = NULL;
    }
}

dma_status_t dma_slots_view(const dma_comm_t *comm, int device, int rank, char *addr, uint64_t bytes, bool whole,
                            dma_slots_view_t *view)
{
    const dma_mapping_t *m = comm->window.peers[rank].mapping;
    dma_slots_view_t wanted = {.addr = whole ? m->base : addr, .bytes = whole ? m->bytes : bytes};
    uint64_t at;
    dma_status_t status;

    if (view->addr == wanted.addr && view->bytes == wanted.bytes) {
        return DMA_OK;
    }
    dma_slots_unview(comm, rank, view);
    status = dma_ipc_register(comm->proc->ipc, device, wanted.addr, wanted.bytes, &at);
    if (status == DMA_OK) {
        *view = wanted;
    }
    return status;
}
