/*
 * Bounce buffers: host memory in place of device memory, for the collective module below coll/dma.
 *
 * That module gets the same counts, displacements and datatypes, with addresses in a mirror: a copy of all memory that
 * the side touches. The mirror of the receive side is filled before the call too, for two reasons: in place it is what
 * is sent, and the module can fail before it has received everything that is copied back. Only the data of received
 * blocks is copied back, not the gaps between blocks or inside datatypes, which belong to the application.
 */
#include <stdlib.h>

#include "core/resolve.h"
#include "device/device.h"
#include "device/write.h"

typedef struct mirror {
    dma_span_t span; /* of the user's memory */
    char *copy;      /* NULL: the side is not device memory */
    int device;
} mirror_t;

struct dma_bounce {
    dma_comm_t *comm;
    const dma_gpu_runtime_t *rt;
    mirror_t send, recv;
    dma_side_t received;
    bool own_kept; /* the own block is not received, because the call is in place */
};

static dma_status_t create_mirror(const dma_bounce_t *b, const dma_side_t *side, int blocks, mirror_t *m)
{
    dma_span_t span = dma_device_span(b->comm->host, side, blocks);
    dma_gpu_memory_t memory = dma_device_classify(b->rt, &span);

    if (!dma_gpu_kind_on_device(memory.kind)) {
        return DMA_OK;
    }
    m->span = span;
    m->device = memory.device;
    m->copy = malloc(span.bytes);
    return m->copy ? DMA_OK : DMA_ERR_NOMEM;
}

dma_status_t dma_bounce_make(dma_comm_t *comm, const dma_call_t *call, dma_bounce_t **result)
{
    const dma_gpu_runtime_t *rt = dma_proc_runtime(comm->proc);
    int n = comm->nranks;
    dma_bounce_t *b;
    dma_status_t status;

    *result = NULL;
    if (!rt) {
        return DMA_OK;
    }
    if (!(b = calloc(1, sizeof(*b)))) {
        return DMA_ERR_NOMEM;
    }
    b->comm = comm;
    b->rt = rt;
    b->received = call->recv;
    b->own_kept = call->in_place && dma_coll_gathers(call->coll);
    status = create_mirror(b, &call->recv, n, &b->recv);
    if (status == DMA_OK && !call->in_place) {
        status = create_mirror(b, &call->send, dma_coll_gathers(call->coll) ? 1 : n, &b->send);
    }
    if (status != DMA_OK || (!b->recv.copy && !b->send.copy)) {
        dma_bounce_free(b);
        return status;
    }
    *result = b;
    return DMA_OK;
}

void dma_bounce_free(dma_bounce_t *b)
{
    free(b->send.copy);
    free(b->recv.copy);
    free(b);
}

static dma_status_t fill_mirror(const dma_bounce_t *b, const mirror_t *m)
{
    return m->copy ? dma_device_copy(b->rt, m->device, m->copy, m->span.first, m->span.bytes) : DMA_OK;
}

dma_status_t dma_bounce_in(dma_bounce_t *b)
{
    dma_status_t status = fill_mirror(b, &b->send);

    return status == DMA_OK ? fill_mirror(b, &b->recv) : status;
}

/* Writes blocks first .. last - 1 to the user's memory. Without counts they are contiguous and are written together. */
static dma_status_t write_blocks(const dma_bounce_t *b, dma_writer_t *writer, int first, int last)
{
    const dma_side_t *side = &b->received;
    int together = side->counts ? 1 : last - first;
    dma_status_t status = DMA_OK;

    for (int r = first; status == DMA_OK && r < last; r += together) {
        dma_side_t block = dma_side_block(b->comm->host, side, r);
        char *at = block.addr;

        if (block.count && block.size) {
            status = dma_writer_put_elements(writer, b->comm->host, &block, at, (size_t)together * block.count,
                                             b->recv.copy + (at - b->recv.span.first), false);
        }
    }
    return status;
}

dma_status_t dma_bounce_out(dma_bounce_t *b)
{
    dma_comm_t *comm = b->comm;
    dma_writer_t writer;
    dma_status_t status;

    if (!b->recv.copy) {
        return DMA_OK;
    }
    if ((status = dma_writer_begin(&writer, comm->proc, b->rt, b->recv.device)) != DMA_OK) {
        return status;
    }
    status = write_blocks(b, &writer, 0, b->own_kept ? comm->rank : comm->nranks);
    if (status == DMA_OK && b->own_kept) {
        status = write_blocks(b, &writer, comm->rank + 1, comm->nranks);
    }
    return dma_writer_end(&writer, status);
}

/* The address in the mirror that corresponds to `user`. */
static void *translate(const mirror_t *m, const void *user)
{
    return m->copy ? m->copy + ((const char *)user - m->span.first) : (void *)(uintptr_t)user;
}

void *dma_bounce_send(const dma_bounce_t *b, const void *user)
{
    return translate(&b->send, user);
}

void *dma_bounce_recv(const dma_bounce_t *b, void *user)
{
    return translate(&b->recv, user);
}
