/*
 * Channels: persistent calls.
 *
 * A channel is a small communicator of its own over the same messages, with shared memory for one call. So a channel has
 * sequence numbers, a ring and streams that nobody else uses, and its starts match in their own order, whatever other
 * channels and calls do. Its set-up is collective and waits; starting it is a post.
 *
 * A rank that cannot make its channel fails the communicator that it belongs to; one that finds that failed does not begin.
 * So those who wait in a channel's set-up look at that communicator, too (wait.c, cluster.c).
 *
 * Where there is no room for that memory, the channel's communicator is ASIDE, and its starts are done by messages. They
 * need a communicator of their own from the host: messages of different channels are sent in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/comm.h"
#include "core/resolve.h"
#include "device/device.h"

struct dma_channel {
    dma_comm_t *comm;
    dma_call_t call;
    dma_task_t task;
    dma_done_t done;
    void *arg;
    void *arrays;
    void *comm_dup; /* of the host, where starts are done by messages; else NULL */
    void *numbers;  /* our copies of counts and displacements */
    bool resolved;  /* the task says already where everything is: a start has nothing to find out */
};

/* Our own copy of an array of numbers, or NULL for NULL. */
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
    char *next = ch->numbers = malloc(2 * (recv + send) + 1);

    if (!next) {
        return DMA_ERR_NOMEM;
    }
    ch->call = *call;
    ch->call.recv.counts = copy_numbers(&next, call->recv.counts, recv);
    ch->call.recv.displs = copy_numbers(&next, call->recv.displs, recv);
    if (!call->in_place) {
        ch->call.send.counts = copy_numbers(&next, call->send.counts, send);
        ch->call.send.displs = copy_numbers(&next, call->send.displs, send);
    }
    return DMA_OK;
}

static uint64_t largest_block(const dma_call_t *call, int nranks)
{
    uint64_t most = call->recv.count;

    for (int r = 0; call->recv.counts && r < nranks; r++) {
        uint64_t count = dma_side_count(&call->recv, r);

        most = r == 0 || count > most ? count : most;
    }
    return most * call->recv.size;
}

/* Bytes of each ring, for a rank that is refused its peers' memory: the next calls do without. */
static uint32_t rings_for(uint64_t peers)
{
    uint32_t bytes = 16384;

    while (bytes > 1024 && bytes * peers > 65536) {
        bytes /= 2;
    }
    return bytes;
}

/* Shared memory for this call alone. All-to-all-v: ranks see different sizes, so it is the same for all sizes. */
static dma_geom_t geom_for(const dma_comm_t *parent, const dma_call_t *call)
{
    dma_geom_t g = parent->window.geom;
    bool gathers = dma_coll_gathers(call->coll);
    uint64_t others = (uint64_t)parent->nranks - 1, bytes = largest_block(call, parent->nranks);
    uint64_t need = gathers ? bytes : (bytes + 7) / 8 * 8 * others;

    g.ring_depth = 4;
    if (call->coll == DMA_ALLTOALLV) {
        g.chunk_bytes = 0;
    } else if (need <= g.slot_bytes) {
        while (g.slot_bytes > 64 && g.slot_bytes / 2 >= need) {
            g.slot_bytes /= 2;
        }
        g.chunk_bytes = g.pair_bytes = 0;
    } else if (gathers) {
        g.slot_bytes = 64;
        g.pair_depth = 4;
        g.pair_bytes = parent->req.cross_memory ? rings_for(others) : 0;
    } else {
        g.chunk_bytes = 0;
    }
    return g;
}

/* Starts by messages. */
static dma_status_t by_messages(dma_channel_t *ch)
{
    dma_comm_t *comm = ch->comm;
    dma_status_t status = comm->host->comm_dup(comm->handle, &ch->comm_dup);

    if (status != DMA_OK) {
        ch->comm_dup = NULL;
        return status;
    }
    comm->handle = ch->comm_dup;
    comm->state = DMA_COMM_ASIDE;
    return DMA_OK;
}

/* Where nothing is packed, a start changes nothing in the task but its number: then it is made once. With a GPU runtime in
 * the process each start asks what the buffers are. One that is loaded later does not change memory that is in use. */
static void place(dma_channel_t *ch)
{
    const dma_call_t *call = &ch->call;
    dma_comm_t *comm = ch->comm;

    if (comm->proc->runtime || dma_gpu_runtime_loaded() || dma_call_empty(call, comm->nranks) || !call->recv.dense ||
        (!call->in_place && !call->send.dense)) {
        return;
    }
    /* an error is for the starts to find, which tell the peers */
    ch->resolved = dma_task_init(comm, &ch->task, call, ch->arrays) == DMA_OK;
}

/* Shared memory for the channel, or messages of its own. */
static dma_status_t prepare(dma_channel_t *ch)
{
    dma_comm_t *comm = ch->comm;
    dma_status_t status;

    if (dma_comm_state(comm->parent) == DMA_COMM_ASIDE) {
        return by_messages(ch);
    }
    if (!comm->cluster) {
        comm->wanted = geom_for(comm->parent, &ch->call);
        comm->wants_device = dma_device_serves(comm, &ch->call);
    }
    status = dma_comm_prepare(comm);
    if (status == DMA_OK && comm->cluster) {
        return DMA_OK;
    }
    if (status == DMA_OK) {
        status = dma_device_persistent_init(comm, &ch->call, ch->arrays);
        if (status == DMA_OK) {
            place(ch);
        }
        return status;
    }
    if (status != DMA_UNSUPPORTED) {
        return status;
    }
    if (comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "channel",
                        "no shared memory is left for another persistent collective of %s (%s): it is done by messages",
                        comm->text, comm->reason);
    }
    return by_messages(ch);
}

/* The others wait for us in the set-up of theirs, and look at the parent meanwhile. */
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
        .nodes = parent->cluster != NULL,
        .first = parent->cluster ? (int)parent->cluster->first : 0,
        .parent = parent,
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
    if (!(ch->arrays = malloc(dma_arrays_total(parent->nranks)))) {
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
    if (ch->resolved) {
        return dma_comm_post_resolved(ch->comm, ch->done, ch->arg, &ch->task, outcome);
    }
    if (ch->comm->device && ch->comm->device->frozen) {
        dma_device_persistent_start(ch->comm, &ch->task, ch->arrays);
        return dma_comm_post_resolved(ch->comm, ch->done, ch->arg, &ch->task, outcome);
    }
    return dma_comm_post_task(ch->comm, &ch->call, ch->arrays, ch->done, ch->arg, &ch->task, outcome);
}

void dma_channel_destroy(dma_channel_t *ch)
{
    const dma_host_t *host = ch->comm->host;

    dma_comm_destroy(ch->comm);
    if (ch->comm_dup) {
        host->comm_free(ch->comm_dup);
    }
    free(ch->arrays);
    free(ch->numbers);
    free(ch);
}
