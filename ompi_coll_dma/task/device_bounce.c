/*
 * Host memory in place of device memory, around the module below.
 *
 * The module gets the same counts, displacements and datatypes, and addresses in a copy of the stretch of memory that the
 * side touches. The copy of the receive side is filled beforehand too: what lies in holes and behind zero counts has to go
 * back as it came, and in place it is what is sent.
 */
#include <stdlib.h>

#include "task/device.h"

typedef struct mirror {
    dma_span_t span; /* of the user's memory */
    char *copy;      /* NULL: it is not device memory */
    int device;
} mirror_t;

struct dma_bounce {
    const dma_gpu_runtime_t *rt;
    mirror_t send, recv;
};

static dma_status_t reflect(const dma_gpu_runtime_t *rt, const dma_side_t *side, int blocks, mirror_t *m)
{
    dma_span_t span = dma_device_span(side, blocks);
    dma_gpu_memory_t memory = dma_device_memory(rt, &span);

    if (!dma_gpu_kind_on_device(memory.kind)) {
        return DMA_OK;
    }
    m->span = span;
    m->device = memory.device;
    m->copy = malloc(span.bytes);
    return m->copy ? DMA_OK : DMA_ERR_NOMEM;
}

dma_status_t dma_bounce_make(dma_proc_t *proc, const dma_call_t *call, int nranks, dma_bounce_t **result)
{
    const dma_gpu_runtime_t *rt = proc && proc->runtime ? proc->runtime : dma_gpu_runtime_loaded();
    dma_bounce_t *b;
    dma_status_t status;

    *result = NULL;
    if (!rt) {
        return DMA_OK;
    }
    if (!(b = calloc(1, sizeof(*b)))) {
        return DMA_ERR_NOMEM;
    }
    b->rt = rt;
    status = reflect(rt, &call->recv, nranks, &b->recv);
    if (status == DMA_OK && !call->in_place) {
        status = reflect(rt, &call->send, dma_coll_gathers(call->coll) ? 1 : nranks, &b->send);
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

static dma_status_t fill(const dma_bounce_t *b, const mirror_t *m)
{
    return m->copy ? dma_device_copy(b->rt, m->device, m->copy, m->span.first, m->span.bytes) : DMA_OK;
}

dma_status_t dma_bounce_in(dma_bounce_t *b)
{
    dma_status_t status = fill(b, &b->send);

    return status == DMA_OK ? fill(b, &b->recv) : status;
}

dma_status_t dma_bounce_out(dma_bounce_t *b)
{
    const mirror_t *m = &b->recv;

    return m->copy ? dma_device_copy(b->rt, m->device, m->span.first, m->copy, m->span.bytes) : DMA_OK;
}

/* The same place in the copy. */
static void *moved(const mirror_t *m, const void *user)
{
    return m->copy ? m->copy + ((const char *)user - m->span.first) : (void *)(uintptr_t)user;
}

void *dma_bounce_send(const dma_bounce_t *b, const void *user)
{
    return moved(&b->send, user);
}

void *dma_bounce_recv(const dma_bounce_t *b, void *user)
{
    return moved(&b->recv, user);
}
