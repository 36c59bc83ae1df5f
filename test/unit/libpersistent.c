/* See libpersistent.h. */
#include "libpersistent.h"

#include "device/device.h"

static void ended(void *arg, dma_status_t status)
{
    persistent_t *p = arg;

    p->status = status;
    atomic_fetch_add(&p->ended, 1);
}

void persistent_make_of(rank_t *r, persistent_t *p, call_t *call)
{
    dma_status_t status;

    *p = (persistent_t){.call = call};
    status = dma_channel_create(r->comms[0], &p->call->call, ended, p, &p->channel);
    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
}

void persistent_make(rank_t *r, persistent_t *p, const call_spec_t *spec)
{
    persistent_make_of(r, p, call_make(r, spec));
}

void persistent_start(rank_t *r, persistent_t *p, uint64_t tag)
{
    call_fill(r, p->call, tag);
    p->started++;
    must(r, dma_channel_start(p->channel, NULL) == DMA_OK, "start");
    dma_channel_prepare_next(p->channel);
}

void persistent_finish(rank_t *r, persistent_t *p)
{
    while (atomic_load(&p->ended) < p->started) {
        threads_host.progress();
    }
    must(r, p->status == DMA_OK, "start %d: %s", p->started, dma_status_name(p->status));
    call_verify(r, p->call);
}

void persistent_end(rank_t *r, persistent_t *p)
{
    dma_channel_destroy(p->channel);
    threads_barrier(r);
    call_free(p->call);
}

/* What the channel's communicator is: the first member of a channel. */
const dma_comm_t *persistent_inside(const persistent_t *p)
{
    return *(dma_comm_t *const *)p->channel;
}

bool persistent_is_prepared(const persistent_t *p)
{
    return persistent_inside(p)->device && persistent_inside(p)->device->prepared;
}
