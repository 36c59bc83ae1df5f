/* The lists of communicators that progress advances and polls (progress.c). */
#include "core/comm.h"

unsigned dma_proc_active(const dma_proc_t *proc)
{
    /* seq_cst: one total order with the flag of the caller, so that a thread that stops its progress
     * callback does not miss a task that another thread posts at the same time */
    return atomic_load_explicit(&proc->nactive, memory_order_seq_cst);
}

static void append_active(dma_proc_t *proc, dma_comm_t *comm)
{
    comm->previous_active = proc->active_last;
    comm->next_active = NULL;
    *(proc->active_last ? &proc->active_last->next_active : &proc->active) = comm;
    proc->active_last = comm;
}

static void unlink_active(dma_proc_t *proc, dma_comm_t *comm)
{
    *(comm->previous_active ? &comm->previous_active->next_active : &proc->active) = comm->next_active;
    *(comm->next_active ? &comm->next_active->previous_active : &proc->active_last) = comm->previous_active;
}

void dma_comm_set_active(dma_comm_t *comm, bool busy)
{
    dma_proc_t *proc = comm->proc;

    if (comm->is_active == busy) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    if (busy) {
        append_active(proc, comm);
    } else {
        unlink_active(proc, comm);
    }
    comm->is_active = busy;
    atomic_fetch_add_explicit(&proc->nactive, busy ? 1u : -1u, memory_order_seq_cst);
    pthread_mutex_unlock(&proc->lock);
}

/* A communicator that the list has begun with, locked, or NULL. The list may change as soon as its lock is free, but a communicator
 * is not destroyed while this thread holds its lock. */
static dma_comm_t *lock_first(dma_proc_t *proc, dma_comm_t *comm)
{
    if (comm && !dma_comm_trylock(comm)) {
        comm = NULL;
    }
    pthread_mutex_unlock(&proc->lock);
    return comm;
}

bool dma_proc_next_active(dma_proc_t *proc, dma_comm_t **comm)
{
    if (pthread_mutex_trylock(&proc->lock)) {
        return false;
    }
    if ((*comm = proc->active)) { /* move it to the end */
        unlink_active(proc, *comm);
        append_active(proc, *comm);
    }
    *comm = lock_first(proc, *comm);
    return true;
}

void dma_comm_set_polled(dma_comm_t *comm, bool listens)
{
    dma_proc_t *proc = comm->proc;
    dma_comm_t **link = &proc->polled;

    if (comm->is_polled == listens) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    while (*link && *link != comm) {
        link = &(*link)->next_polled;
    }
    *link = listens ? comm : comm->next_polled; /* append or remove */
    comm->next_polled = NULL;
    comm->is_polled = listens;
    pthread_mutex_unlock(&proc->lock);
}

dma_comm_t *dma_proc_next_polled(dma_proc_t *proc)
{
    dma_comm_t *comm, **link = &proc->polled;

    if (pthread_mutex_trylock(&proc->lock)) {
        return NULL;
    }
    if ((comm = proc->polled)) { /* move it to the end */
        proc->polled = comm->next_polled;
        comm->next_polled = NULL;
        while (*link) {
            link = &(*link)->next_polled;
        }
        *link = comm;
    }
    return lock_first(proc, comm);
}
