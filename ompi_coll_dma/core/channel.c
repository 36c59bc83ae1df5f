/*
 * Channels: persistent calls.
 *
 * A channel is a small communicator of its own over the same ranks, with shared memory for one call. So a channel has
 * sequence numbers, a descriptor ring and streams of its own. Its starts match each other in order and are independent
 * of other channels and calls. Making a channel is collective and blocking; starting it is a post.
 * On one node, making it takes one call on the communicator that it belongs to (setup/channel.c), elsewhere a set-up with messages.
 *
 * A rank that cannot make its channel fails the communicator that the channel belongs to. A rank that finds this
 * communicator failed does not make the channel. So a rank that waits in the set-up of a channel also looks at that
 * communicator (the `watch` hook of its route).
 *
 * If there is no room for the shared memory, the channel's communicator is ASIDE and its starts are done by messages. Ranks may
 * start different channels in different orders, so each such channel has a tag of its own. Ranks make the channels of a communicator
 * in the same order, so they count the tags alike. The tag of a channel that is gone is used again only after all others: a rank may
 * make the next one while another rank has still to receive messages of the old one.
 */
#include <stdlib.h>
#include <string.h>

#include "core/channel.h"
#include "core/resolve.h"

/* Copies an array of numbers to *next. NULL gives NULL. */
static void *copy_numbers(char **next, const void *array, size_t bytes)
{
    void *copy = *next;

    if (!array) {
        return NULL;
    }
    memcpy(copy, array, bytes);
    *next += bytes;
    return copy;
}

static dma_status_t copy_call(dma_channel_t *ch, const dma_call_t *call, int nranks)
{
    size_t recv = (size_t)nranks * call->recv.width, send = (size_t)nranks * call->send.width;
    size_t types = (size_t)nranks * sizeof(*call->recv.types);
    char *next = ch->numbers = malloc(2 * (recv + send + types) + 1);

    if (!next) {
        return DMA_ERR_NOMEM;
    }
    ch->call = *call;
    ch->call.recv.types = copy_numbers(&next, call->recv.types, types); /* first: aligned for all */
    if (!call->in_place) {
        ch->call.send.types = copy_numbers(&next, call->send.types, types);
    }
    ch->call.recv.counts = copy_numbers(&next, call->recv.counts, recv);
    ch->call.recv.displs = copy_numbers(&next, call->recv.displs, recv);
    if (!call->in_place) {
        ch->call.send.counts = copy_numbers(&next, call->send.counts, send);
        ch->call.send.displs = copy_numbers(&next, call->send.displs, send);
    }
    return DMA_OK;
}

/* From now on starts are done by messages. No lock: ranks make the channels of a communicator one after the other. */
static void use_messages(dma_comm_t *comm)
{
    comm->tag = (int)(comm->parent->channels++ % DMA_HOST_TAGS) + 1;
    dma_comm_step_aside(comm);
}

/* If nothing is packed, starts differ only in their sequence numbers, so the call is resolved once. If the process has
 * a GPU runtime, each start has to classify the buffers again. A runtime that is loaded later does not change memory
 * that is in use. A call on host memory that joins the device route, for ranks with device memory, needs what the end of each
 * start frees. */
static void resolve_once(dma_channel_t *ch)
{
    const dma_call_t *call = &ch->call;
    dma_comm_t *comm = ch->comm;

    if (dma_proc_runtime(comm->proc) || dma_call_empty(call, comm->nranks) || !call->recv.dense ||
        (!call->in_place && !call->send.dense)) {
        return;
    }
    /* After an error each start resolves the call again, fails, and so reports the error to the peers. */
    ch->resolved = dma_task_init(comm, &ch->task, call, ch->arrays) == DMA_OK && !ch->task.memory;
    if (!ch->resolved) {
        dma_task_drop(&ch->task);
    }
}

/* Sets up the channel's communicator with shared memory, or else with messages. */
static dma_status_t prepare(dma_channel_t *ch)
{
    dma_comm_t *comm = ch->comm;
    dma_status_t status;

    if (dma_comm_state(comm->parent) == DMA_COMM_ASIDE) {
        use_messages(comm);
        return DMA_OK;
    }
    if (comm->route->channel_prepare) {
        comm->route->channel_prepare(comm, &ch->call);
    }
    status = dma_setup_channel_is_possible(comm) ? dma_setup_channel(comm) : dma_comm_prepare(comm);
    if (status == DMA_OK && comm->route->channel_init) {
        status = comm->route->channel_init(comm, &ch->call, ch->arrays);
        if (status == DMA_OK) {
            resolve_once(ch);
        }
        return status;
    }
    if (status == DMA_OK) {
        return DMA_OK;
    }
    if (status != DMA_UNSUPPORTED) {
        return status;
    }
    dma_comm_lock(comm->parent);
    dma_comm_count_reason(comm->parent, DMA_REASON_channel_memory);
    dma_comm_unlock(comm->parent);
    if (comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "channel",
                        "no shared memory is left for another persistent collective of %s (%s): it is done by messages",
                        comm->text, comm->reason);
    }
    use_messages(comm);
    return DMA_OK;
}

/* Fails the parent, because the other ranks wait for this one in the set-up of their channels. They check the parent
 * while they wait. */
static dma_status_t abandon(dma_comm_t *parent, dma_status_t status)
{
    dma_comm_lock(parent);
    dma_comm_fail(parent, status, "a persistent collective of %s cannot be made: %s", parent->text,
                  dma_status_name(status));
    dma_comm_unlock(parent);
    return status;
}

dma_status_t dma_channel_create(dma_comm_t *parent, const dma_call_t *call, dma_done_t done, void *arg,
                                dma_channel_t **result)
{
    dma_comm_config_t config = {
        .handle = parent->handle,
        .rank = parent->rank,
        .nranks = parent->nranks,
        .threads = parent->threads,
        .text = parent->text,
        .nodes = parent->nodes,
        .first = parent->first,
        .parent = parent,
        .owner = parent->counts.owner,
    };
    dma_status_t status = dma_comm_prepare(parent);
    dma_channel_t *ch;

    if (status != DMA_OK && status != DMA_UNSUPPORTED) {
        return status;
    }
    if (!(ch = calloc(1, sizeof(*ch)))) {
        return abandon(parent, DMA_ERR_NOMEM);
    }
    ch->done = done;
    ch->arg = arg;
    if ((status = copy_call(ch, call, parent->nranks)) != DMA_OK) {
        goto free_channel;
    }
    if (!(ch->arrays = malloc(dma_arrays_total(parent)))) {
        status = DMA_ERR_NOMEM;
        goto free_numbers;
    }
    if ((status = dma_comm_create(parent->proc, &config, &ch->comm)) != DMA_OK) {
        goto free_arrays;
    }
    if ((status = prepare(ch)) != DMA_OK) {
        goto destroy_comm;
    }
    *result = ch;
    return DMA_OK;

destroy_comm:
    dma_comm_destroy(ch->comm);
free_arrays:
    free(ch->arrays);
free_numbers:
    free(ch->numbers);
free_channel:
    free(ch);
    return abandon(parent, status);
}

dma_status_t dma_channel_start(dma_channel_t *ch, dma_status_t *outcome)
{
    const dma_memory_t *memory = ch->comm->proc->memory;
    dma_status_t status = ch->resolved ? DMA_OK : DMA_UNSUPPORTED;

    if (status == DMA_UNSUPPORTED && memory) {
        status = memory->start(ch->comm, &ch->task, ch->arrays);
    }
    if (status != DMA_UNSUPPORTED) {
        return dma_comm_post_resolved(ch->comm, status, ch->done, ch->arg, &ch->task, outcome);
    }
    return dma_comm_post_task(ch->comm, &ch->call, ch->arrays, ch->done, ch->arg, &ch->task, outcome);
}

void dma_channel_prepare_next(dma_channel_t *ch)
{
    const dma_memory_t *memory = ch->comm->proc->memory;

    if (!ch->resolved && memory) {
        memory->prepare_next(ch->comm);
    }
}

const dma_call_t *dma_channel_call(const dma_channel_t *ch)
{
    return &ch->call;
}

void dma_channel_destroy(dma_channel_t *ch)
{
    dma_comm_destroy(ch->comm);
    free(ch->arrays);
    free(ch->numbers);
    free(ch);
}
