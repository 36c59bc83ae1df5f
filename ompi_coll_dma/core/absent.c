/*
 * Ranks whose process has not loaded coll/dma. They call the next module, and send nothing in a set-up.
 *
 * Each process publishes in MPI_Init that it has loaded coll/dma (component/absent.c), so all ranks find the same when they look.
 * They look only when something is wrong: when a set-up has waited for LOOK_SECONDS. If a rank is absent, no rank can end the set-up, so
 * all of them come to look. Each leaves the communicator by itself, without a message, and all its calls go to the next module, as
 * those of the absent rank do. That is another state than ASIDE after a set-up, in which calls that do not block are done by messages.
 *
 * A call that was posted before cannot go to the next module any more: that module gives calls their tags in the order in which they
 * are made. So the component looks before it posts the first call, and leaves the communicator then (dma_comm_leave). Where that
 * look could not find the absent rank, and this one does, the communicator fails.
 */
#include <stdio.h>

#include "core/comm.h"

#define LOOK_SECONDS 1.0

static void leave(dma_comm_t *comm, int absent)
{
    if (comm->state == DMA_COMM_SETUP) {
        comm->route->setup_cancel(comm);
    }
    if (comm->state == DMA_COMM_NEW) {
        dma_state_take(comm);
    }
    snprintf(comm->reason, sizeof(comm->reason), "rank %d has not loaded coll/dma", absent);
    dma_comm_count_reason(comm, DMA_REASON_rank_not_loaded);
    comm->left = true;
    dma_comm_step_aside(comm);
    dma_state_update(comm);
}

void dma_absent_watch(dma_comm_t *comm, double now)
{
    int absent;

    if (comm->looked || now - comm->since < LOOK_SECONDS || !comm->host->find_absent || !comm->route->setup_cancel) {
        return;
    }
    comm->looked = true;
    absent = comm->host->find_absent(comm->handle);
    if (absent >= 0 && comm->head) {
        dma_comm_fail(comm, DMA_ERR_ARG,
                      "rank %d of %s has not loaded coll/dma, and calls were posted before that was found out", absent,
                      comm->text);
    } else if (absent >= 0) {
        leave(comm, absent);
    }
}

void dma_comm_leave(dma_comm_t *comm, int absent)
{
    dma_comm_lock(comm);
    if (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST) {
        leave(comm, absent);
    }
    dma_comm_unlock(comm);
}

bool dma_comm_is_left(const dma_comm_t *comm)
{
    return comm->left;
}
