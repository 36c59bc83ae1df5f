/*
 * The first blocking calls of a communicator over several nodes: coll/dma leaves them to the next module.
 *
 * The set-up of such a communicator opens the network, which takes more time and memory than a small call. Many programs make
 * one or two small calls on a communicator, for example to exchange the names of hosts, and no more. So the next module carries
 * out its first calls (net_first_calls), as if the communicator were ASIDE. The set-up begins at the next call, or earlier, at the
 * first call that does not block: such a call could still be under way when the set-up begins, and persistent calls are meant for
 * repetition.
 *
 * All ranks decide alike: by the number and the form of the call, which are equal on all ranks because MPI requires the same order
 * of calls and does not match blocking calls with others, and by the parameter, which the user sets to one value for all ranks. No
 * rank could publish its value beforehand, because what is saved is the first message.
 *
 * If a first call fails, the next module reports that on this rank. No peer is informed, because there is no network yet. That is
 * also so if a call of an ASIDE communicator fails.
 */
#include <stdio.h>

#include "core/comm.h"

static bool is_first(const dma_comm_t *comm)
{
    return comm->nodes && (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST) &&
           comm->seq < comm->proc->params.net_first_calls;
}

static void note_first(dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_NEW) {
        comm->state = DMA_COMM_FIRST;
        snprintf(comm->reason, sizeof(comm->reason), "%s", dma_reason_text(DMA_REASON_net_first_calls));
        dma_state_take(comm);
        dma_state_update(comm);
    }
    dma_comm_note_reason(comm, DMA_REASON_net_first_calls);
}

bool dma_comm_begin_first(dma_comm_t *comm)
{
    bool first;

    dma_comm_lock(comm);
    if ((first = is_first(comm))) {
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
    if (comm->state == DMA_COMM_FIRST) {
        dma_state_count_completed(comm, comm->seq);
    }
    dma_comm_unlock(comm);
}
