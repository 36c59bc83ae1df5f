/*
 * host_line and host_slot: small all-gathers through memory that belongs to the call's descriptor.
 *
 *     rank r                                     every other rank
 *     copy send -> LINE (or SLOT) of r
 *     signal ENTRY of r            ---------->   wait ENTRY of r
 *     copy send -> own block of recv             copy LINE (or SLOT) of r -> block r of recv
 *
 * One program, no second sync: the ring's acknowledgement keeps LINE and SLOT alive until all have read them. The own
 * copy comes after the signal, where it costs the peers nothing. The two differ in what a peer fetches: a LINE is part of
 * the descriptor, so up to 32 bytes arrive with the very line that the peer waits for.
 */
#include "plan/build.h"
#include "plan/profile.h"
#include "plan/variants.h"

static dma_status_t build(const dma_plan_req_t *req, int rank, dma_base_t base, dma_plan_t **plan)
{
    int n = req->nranks;
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, 1, 2 + (req->in_place ? 0 : 1) + 2 * (uint32_t)(n - 1));
    if (status != DMA_OK) {
        return status;
    }
    dma_build_prog(&b);
    dma_build_copy(&b, 0, dma_at(base, rank, 0), dma_at(DMA_BASE_SEND, rank, 0), dma_len(DMA_LEN_SEND, 0));
    dma_build_signal(&b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    if (!req->in_place) {
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_SEND, rank, 0),
                       dma_len(DMA_LEN_SEND, 0));
    }
    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        dma_build_wait(&b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, p), dma_at(base, p, 0),
                       dma_len(DMA_LEN_RECV, (uint64_t)p));
    }
    return dma_build_end(&b, plan);
}

static dma_status_t line_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, DMA_BASE_LINE, plan);
}

static dma_status_t slot_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, DMA_BASE_SLOT, plan);
}

static const char *line_unfit(const dma_plan_req_t *req)
{
    return req->bytes > DMA_LINE_BYTES ? "the block is larger than a descriptor line" : NULL;
}

static const char *slot_unfit(const dma_plan_req_t *req)
{
    return req->bytes > req->geom.slot_bytes ? "the block is larger than a slot" : NULL;
}

/* Everybody meets once; ranks that share a core meet by switching. */
static uint64_t cost(const dma_profile_t *p, const dma_plan_req_t *req, uint64_t lines)
{
    uint64_t n = (uint64_t)req->nranks, share = req->ranks_per_core_x16;
    uint64_t work = p->enter_ps + (n - 1) * p->peer_ps * lines + 2 * dma_profile_ps(req->bytes, p->copy_mbps) +
                    (n - 1) * dma_profile_ps(req->bytes, p->pull_mbps);

    return work / 16 * share + (share > 16 ? p->switch_ps * share / 16 : 0);
}

static uint64_t line_cost(const dma_profile_t *profile, const dma_plan_req_t *req, uint32_t *chunk)
{
    *chunk = 0;
    return cost(profile, req, req->bytes > 32 ? 2 : 1);
}

static uint64_t slot_cost(const dma_profile_t *profile, const dma_plan_req_t *req, uint32_t *chunk)
{
    *chunk = 0;
    return cost(profile, req, 2);
}

const dma_variant_t dma_variant_host_line = {
    .name = "host_line",
    .help = "the block rides in the descriptor",
    .colls = 1u << DMA_ALLGATHER,
    .unfit = line_unfit,
    .build = line_build,
    .cost = line_cost,
};

const dma_variant_t dma_variant_host_slot = {
    .name = "host_slot",
    .help = "the block goes through a slot of shared memory beside the descriptor",
    .colls = 1u << DMA_ALLGATHER,
    .unfit = slot_unfit,
    .build = slot_build,
    .cost = slot_cost,
};
