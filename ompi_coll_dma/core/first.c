/*
 * The first blocking calls of a communicator over several nodes: coll/dma leaves them to the next module.
 *
 * The set-up of such a communicator opens the network, which takes as much time as some hundred small calls, and memory. Many
 * programs make a few small calls on a communicator and no more: they split it, exchange the names of hosts, or open a file. So
 * the next module carries out the first calls, as if the communicator were ASIDE, until they add up to net_first_calls. A call
 * counts once, and once more for every WEIGHT_BYTES of an average block, because long calls gain more by the set-up. The next call
 * begins it. A call that does not block begins it at once: such a call could still be under way when the set-up begins, and
 * persistent calls are meant for repetition.
 *
 * All ranks decide alike: by the number, the form and the sizes of the calls, which are equal on all ranks because MPI requires
 * the same order of calls, equal sizes, and does not match blocking calls with others; and by the parameter, of which all ranks use
 * one value (component/terms.c). The blocks of an all-to-all-v are known to two ranks each, so such a call has a fixed weight.
 *
 * If a first call fails, the next module reports that on this rank. No peer is informed, because there is no network yet. That is
 * also so if a call of an ASIDE communicator fails. The number of calls goes on equally on all ranks, and the set-up begins with
 * its own messages, so that a later call is not affected.
 */
#include <stdio.h>

#include "core/comm.h"
#include "core/resolve.h"

#define WEIGHT_BYTES   2048 /* 10 calls of 16 KiB and more, the warm-up of OSU's benchmarks, are more than the default */
#define WEIGHT_UNKNOWN 8

static uint64_t weight_of(const dma_call_t *call, int nranks)
{
    const dma_side_t *recv = &call->recv;
    uint64_t elements = recv->counts ? 0 : (uint64_t)recv->count * (unsigned)nranks;

    if (dma_coll_sizes(call->coll) == DMA_SIZES_OWN) {
        return WEIGHT_UNKNOWN;
    }
    for (int r = 0; recv->counts && r < nranks; r++) {
        elements += dma_side_count(recv, r);
    }
    return 1 + elements * recv->size / (unsigned)nranks / WEIGHT_BYTES;
}

static bool is_first(const dma_comm_t *comm)
{
    return comm->nodes && (comm->state == DMA_COMM_NEW || comm->state == DMA_COMM_FIRST) &&
           comm->first_weight < comm->first_calls;
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

bool dma_comm_begin_first(dma_comm_t *comm, const dma_call_t *call)
{
    bool first;

    dma_comm_lock(comm);
    if ((first = is_first(comm))) {
        note_first(comm);
        comm->first_weight += weight_of(call, comm->nranks);
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
