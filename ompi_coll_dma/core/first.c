/*
 * The first calls of a communicator over several nodes: coll/dma leaves them to others.
 *
 * The set-up of such a communicator opens the network, which takes more time and memory than a small call. Many programs make
 * one or two small calls on a communicator, for example to exchange the names of hosts, and no more. So its first calls
 * (net_first_calls) are carried out as if the communicator were ASIDE, and the set-up begins at the next call:
 *
 *     blocking        by the next module
 *     non-blocking    by messages (messages.c)
 *     persistent      not at all: they are meant for repetition, so *_init begins the set-up
 *
 * All ranks decide alike: by the number of the call, which is equal on all ranks because MPI requires the same order of calls,
 * and by the parameter, which the user sets to one value for all ranks. No rank could publish its value beforehand, because what
 * is saved is the first message.
 *
 * Messages of these calls may be under way when the set-up begins, on the same communicator of the host services and with the
 * same tag. They match: a rank posts all messages of a first call in the call, before any of the set-up, and messages between
 * two ranks keep their order. Calls behind the set-up wait for those in front of it.
 *
 * If a first call fails here, no peer is informed, because there is no network yet. That is also so if a call of an ASIDE
 * communicator fails.
 */
#include <stdio.h>

#include "core/comm.h"

bool dma_comm_is_first(const dma_comm_t *comm)
{
    return comm->nodes && (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST) &&
           comm->seq < comm->proc->params.net_first_calls;
}

static void note_first(dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_NEW) {
        comm->state = DMA_COMM_FIRST;
        comm->route_calls = &dma_route_messages;
        snprintf(comm->reason, sizeof(comm->reason), "%s", dma_reason_text(DMA_REASON_net_first_calls));
        dma_state_take(comm);
        dma_state_update(comm);
    }
    dma_comm_note_reason(comm, DMA_REASON_net_first_calls);
}

dma_status_t dma_comm_begin_call(dma_comm_t *comm)
{
    if (!dma_comm_is_first(comm)) {
        return dma_comm_begin(comm);
    }
    note_first(comm);
    return DMA_OK;
}

bool dma_comm_begin_first(dma_comm_t *comm)
{
    bool first;

    dma_comm_lock(comm);
    if ((first = dma_comm_is_first(comm))) {
        note_first(comm);
        comm->seq++;
        dma_state_count_begun(comm);
    }
    dma_comm_unlock(comm);
    return first;
}

void dma_comm_end_first(dma_comm_t *comm)
{
    dma_comm_lock(comm);
    if (comm->state == DMA_COMM_FIRST && !comm->head) {
        dma_state_count_completed(comm, comm->seq);
    }
    dma_comm_unlock(comm);
}

int dma_comm_advance_first(dma_comm_t *comm)
{
    bool waiting = comm->state == DMA_COMM_FIRST || comm->state == DMA_COMM_SETUP;

    return waiting && comm->head && comm->head->route == &dma_route_messages ? dma_tasks_advance(comm) : 0;
}
