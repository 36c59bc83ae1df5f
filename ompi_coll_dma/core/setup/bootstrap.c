/* The all-gather of the set-up: see bootstrap.h. */
#include "core/setup/bootstrap.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* In front of the records. */
typedef struct head {
    alignas(max_align_t) struct head *next; /* of `left` */
} head_t;

/* Records that a message may still read or write, because its other rank has not answered. They stay until the process ends. */
static _Atomic(head_t *) left;

static void leave(head_t *head)
{
    head->next = atomic_load_explicit(&left, memory_order_relaxed);
    /* release: whoever takes the head from the list sees its `next` */
    while (
        !atomic_compare_exchange_weak_explicit(&left, &head->next, head, memory_order_release, memory_order_relaxed)) {
    }
}

dma_status_t dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                 const void *record, size_t bytes)
{
    head_t *head = malloc(sizeof(*head) + (size_t)nranks * bytes);

    *ex = (dma_bootstrap_t){.host = host, .handle = handle, .rank = rank, .nranks = nranks, .bytes = bytes, .have = 1};
    if (!head) {
        return DMA_ERR_NOMEM;
    }
    ex->records = (char *)(head + 1);
    memcpy(ex->records, record, bytes);
    return DMA_OK;
}

void dma_bootstrap_restart(dma_bootstrap_t *ex, const void *record, size_t bytes)
{
    ex->bytes = bytes;
    ex->have = 1;
    memcpy(ex->records, record, bytes);
}

/* Do two ranks at a distance send to each other? That takes a power of two. */
static bool in_pairs(const dma_bootstrap_t *ex)
{
    return !(ex->nranks & (ex->nranks - 1));
}

/* The index of a rank's record, which is also its distance. */
static int distance(const dma_bootstrap_t *ex, int rank)
{
    return in_pairs(ex) ? rank ^ ex->rank : (rank - ex->rank + ex->nranks) % ex->nranks;
}

/* The rank at this distance, and the one whose distance to this rank it is. */
static int rank_at(const dma_bootstrap_t *ex, int distance)
{
    return in_pairs(ex) ? ex->rank ^ distance : (ex->rank + distance) % ex->nranks;
}

static int rank_before(const dma_bootstrap_t *ex, int distance)
{
    return in_pairs(ex) ? ex->rank ^ distance : (ex->rank - distance + ex->nranks) % ex->nranks;
}

/* Starts a round: sends the `have` records of this rank to the rank before it, and receives as many new ones. */
static dma_status_t post(dma_bootstrap_t *ex)
{
    int left = ex->nranks - ex->have, count = left < ex->have ? left : ex->have;
    int to = rank_before(ex, ex->have), from = rank_at(ex, ex->have);
    size_t bytes = (size_t)count * ex->bytes;
    dma_status_t status;

    status = ex->host->irecv(ex->handle, ex->records + (size_t)ex->have * ex->bytes, bytes, from, 0, &ex->receiving);
    if (status != DMA_OK) {
        return status;
    }
    status = ex->host->isend(ex->handle, ex->records, bytes, to, 0, &ex->sending);
    if (status == DMA_OK) {
        ex->incoming = count;
    }
    return status;
}

static dma_status_t test(dma_bootstrap_t *ex, void **req)
{
    return *req ? ex->host->test(ex->handle, req) : DMA_OK;
}

dma_status_t dma_bootstrap_advance(dma_bootstrap_t *ex)
{
    while (ex->have < ex->nranks) {
        dma_status_t sent, received;

        if (!ex->incoming && (sent = post(ex)) != DMA_OK) {
            return sent;
        }
        sent = test(ex, &ex->sending);
        received = test(ex, &ex->receiving);
        if (sent < 0 || received < 0) {
            return sent < 0 ? sent : received;
        }
        if (sent == DMA_AGAIN || received == DMA_AGAIN) {
            return DMA_AGAIN;
        }
        ex->have += ex->incoming;
        ex->incoming = 0;
    }
    return DMA_OK;
}

dma_wait_t dma_bootstrap_waits_for(const dma_bootstrap_t *ex)
{
    dma_wait_t wait = {0};

    if (ex->receiving) {
        dma_wait_add(&wait, DMA_WAIT_MESSAGE, rank_at(ex, ex->have));
    }
    return wait;
}

void *dma_bootstrap_record(const dma_bootstrap_t *ex, int rank)
{
    return ex->records + (size_t)distance(ex, rank) * ex->bytes;
}

void dma_bootstrap_cancel(dma_bootstrap_t *ex)
{
    if (ex->sending) {
        (void)test(ex, &ex->sending); /* short messages have left */
    }
    if (ex->receiving && ex->host->cancel) {
        ex->host->cancel(ex->handle, &ex->receiving);
    }
    dma_bootstrap_end(ex);
}

void dma_bootstrap_end(dma_bootstrap_t *ex)
{
    head_t *head;

    if (!ex->records) {
        return;
    }
    head = (head_t *)ex->records - 1;
    if (ex->sending || ex->receiving) {
        leave(head);
    } else {
        free(head);
    }
    ex->records = NULL;
}
