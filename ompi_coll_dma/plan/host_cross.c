/*
 * host_cross: large all-gathers and all-to-alls in one copy, each rank reading the peers' send buffers directly.
 *
 * Every peer has a program of its own: whoever has entered is read at once, in a rotated order. Peers pull rather than
 * push, so that a late peer can only hurt its own buffer. A rank leaves when all have read its block: DONE is signalled by
 * program 0 once all other programs have told it so.
 *
 *     program 0: signal ENTRY of r, own copy, wait LANDED(r, p) for all p, signal DONE of r, wait DONE of all p
 *     program of peer p: wait ENTRY of p, copy send buffer of p -> block p of recv, signal LANDED(r, p)
 */
#include "plan/build.h"
#include "plan/profile.h"
#include "plan/variants.h"

static dma_status_t build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    int n = req->nranks, own = req->coll == DMA_ALLTOALL ? rank : 0; /* the block of a send buffer that is for us */
    uint32_t peers = (uint32_t)n - 1;
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, 1 + peers, 2 + (req->in_place ? 0 : 1) + 2 * peers + 3 * peers);
    if (status != DMA_OK) {
        return status;
    }
    dma_build_prog(&b);
    dma_build_signal(&b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    if (!req->in_place) {
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_SEND, rank, own),
                       dma_len(DMA_LEN_SEND, (uint64_t)own));
    }
    for (int k = 1; k < n; k++) {
        dma_build_wait(&b, 0, dma_flag_pair(DMA_FLAG_LANDED, rank, dma_peer_rotated(rank, k, n)), 1);
    }
    dma_build_signal(&b, 0, dma_flag(DMA_FLAG_DONE, rank), 1);
    for (int k = 1; k < n; k++) {
        dma_build_wait(&b, 0, dma_flag(DMA_FLAG_DONE, dma_peer_rotated(rank, k, n)), 1);
    }
    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);
        dma_len_t all = dma_len(DMA_LEN_RECV, (uint64_t)p);

        dma_build_prog(&b);
        dma_build_wait(&b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
        dma_build_loop(&b, all);
        dma_build_copy(&b, DMA_OP_CHUNKED, dma_at(DMA_BASE_RECV, rank, p), dma_at(DMA_BASE_SEND, p, own), all);
        dma_build_loop_end(&b);
        dma_build_signal(&b, 0, dma_flag_pair(DMA_FLAG_LANDED, rank, p), 1);
    }
    b.plan->streams = true;
    return dma_build_end(&b, plan);
}

static const char *unfit(const dma_plan_req_t *req)
{
    if (req->coll == DMA_ALLTOALL && req->in_place) {
        return "in place, what a peer reads would be overwritten";
    }
    return req->cross_memory ? NULL : "not every pair of ranks can read each other's memory";
}

static uint64_t cost(const dma_profile_t *p, const dma_plan_req_t *req, dma_choice_t *choice)
{
    uint64_t peers = (uint64_t)req->nranks - 1, share = req->ranks_per_core_x16;
    bool cached = req->bytes * (peers + 2) <= p->cache_bytes;
    dma_wide_t own = dma_profile_ps(req->bytes, cached ? p->copy_mbps : p->memory_mbps);
    dma_wide_t pull = dma_build_cross_ps(p, req->bytes, cached);
    dma_wide_t work = 2 * p->enter_ps + 2 * peers * p->peer_ps + own + peers * pull;

    choice->chunk = DMA_CROSS_CHUNK;
    /* two meetings: entry and leaving */
    return dma_profile_shared(p, work, share, 2);
}

const dma_variant_t dma_variant_host_cross = {
    .name = "host_cross",
    .help = "one copy, straight out of the peers' memory",
    .colls = 1u << DMA_ALLGATHER | 1u << DMA_ALLGATHERV | 1u << DMA_ALLTOALL,
    .unfit = unfit,
    .build = build,
    .cost = cost,
};
