/* Progress: advances the communicators that have work, and polls others. */
#include "core/comm.h"

#define NOTICE_TURNS 32 /* dma_proc_poll_notices polls in one of so many calls */

int dma_proc_progress(dma_proc_t *proc)
{
    unsigned busy = dma_proc_active(proc);
    int completed = 0;
    dma_comm_t *comm;

    if (__builtin_expect(atomic_load_explicit(&proc->keeps, memory_order_relaxed), 0)) {
        dma_proc_print_kept(proc);
    }
    for (unsigned i = 0; i < busy && dma_proc_next_active(proc, &comm); i++) {
        if (comm) {
            completed += dma_comm_advance(comm);
            dma_comm_watch(comm);
            dma_comm_unlock(comm);
        }
    }
    return completed;
}

void dma_proc_poll_notices(dma_proc_t *proc)
{
    unsigned turn = atomic_load_explicit(&proc->notice_polls, memory_order_relaxed) +
                    1; /* two threads at once may count one call: harmless */
    dma_comm_t *comm;
    dma_status_t status;

    atomic_store_explicit(&proc->notice_polls, turn, memory_order_relaxed);
    if (turn % NOTICE_TURNS || !(comm = dma_proc_next_polled(proc))) {
        return;
    }
    /* If it has a call, waiting for that polls the notices too. */
    if (!comm->head && (status = comm->route->poll_notices(comm)) != DMA_OK) {
        dma_comm_fail(comm, status, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(status));
    }
    dma_comm_unlock(comm);
}
