/* The lock of a communicator, and what its holder does last. */
#include <sched.h>

#include "core/comm.h"

void dma_comm_lock_slow(dma_comm_t *comm)
{
    while (!dma_comm_trylock(comm)) {
        sched_yield(); /* another thread advances this communicator; it does not wait for anything */
    }
}

void dma_comm_deliver(dma_comm_t *comm)
{
    dma_task_t *list = NULL, *task, *next;

    for (task = comm->completed; task; task = next) { /* reverse the list: oldest first */
        next = task->next;
        task->next = list;
        list = task;
    }
    comm->completed = NULL;
    atomic_store_explicit(&comm->locked, 0, memory_order_release);
    for (task = list; task; task = next) {
        next = task->next;
        dma_event_end(task);
        dma_task_drop(task);
        task->done(task->arg, task->status); /* the caller may free the task or post it again */
    }
}
