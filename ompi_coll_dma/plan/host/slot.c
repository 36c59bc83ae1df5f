/*
 * host_line and host_slot: small collectives through memory that belongs to the call's descriptor.
 *
 *     rank r                                     every other rank q
 *     copy send -> LINE (or SLOT) of r
 *     signal ENTRY of r            ---------->   wait ENTRY of r
 *     own block of send -> recv                  copy LINE (or SLOT) of r -> block r of recv
 *
 * An all-gather has one block for all ranks. In an all-to-all, LINE or SLOT is divided into cells of equal size, one
 * per other rank in rotated order. So the position of a block depends only on facts that are equal on all ranks.
 *
 * There is one program and no second synchronization: the acknowledgements of the ring keep LINE and SLOT valid until
 * all ranks have read them. The own block is copied after the signal, where it does not delay the peers. In place,
 * all blocks have left the buffer before the entry, and nothing is written into it before a wait. The two variants
 * differ in the cache lines that a peer fetches: a LINE is part of the descriptor, so up to 32 bytes come with the
 * line that the peer polls.
 */
#include "plan/build.h"
#include "plan/profile.h"

#define HEADER_PAYLOAD 32 /* bytes of a LINE that share the cache line of the descriptor's header */

static bool gathers(const dma_plan_req_t *req)
{
    return dma_coll_gathers(req->coll);
}

/* Bytes of one rank's cell in `room` bytes: a multiple of 8. */
static uint64_t cell_bytes(const dma_plan_req_t *req, uint64_t room)
{
    return gathers(req) || req->nranks < 2 ? room : room / ((uint64_t)req->nranks - 1) / 8 * 8;
}

/* The cell for `reader` in the memory of `owner`. */
static dma_operand_t cell(const dma_plan_req_t *req, dma_base_t base, uint64_t room, int owner, int reader)
{
    dma_operand_t o = dma_at(base, owner, 0);

    if (!gathers(req)) {
        int index = (reader - owner - 1 + req->nranks) % req->nranks;

        o.offset = (uint64_t)index * cell_bytes(req, room);
    }
    return o;
}

static void build_outgoing(dma_build_t *b, const dma_plan_req_t *req, int rank, dma_base_t base, uint64_t room)
{
    int outgoing = gathers(req) ? 1 : req->nranks - 1;

    for (int k = 1; k <= outgoing; k++) {
        int p = dma_peer_rotated(rank, k, req->nranks), block = gathers(req) ? 0 : p;

        dma_build_copy(b, 0, cell(req, base, room, rank, p), dma_at(DMA_BASE_SEND, rank, block),
                       dma_len(DMA_LEN_SEND, (uint64_t)block));
    }
}

static dma_status_t build(const dma_plan_req_t *req, int rank, dma_base_t base, uint64_t room, dma_plan_t **plan)
{
    int n = req->nranks, own = gathers(req) ? 0 : rank;
    uint32_t outgoing = gathers(req) ? 1 : (uint32_t)n - 1;
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, 1, outgoing + 1 + (req->in_place ? 0 : 1) + 2 * (uint32_t)(n - 1));
    if (status != DMA_OK) {
        return status;
    }
    dma_build_prog(&b);
    build_outgoing(&b, req, rank, base, room);
    dma_build_signal(&b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    if (!req->in_place) {
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_SEND, rank, own),
                       dma_len(DMA_LEN_SEND, (uint64_t)own));
    }
    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        dma_build_wait(&b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, p), cell(req, base, room, p, rank),
                       dma_len(DMA_LEN_RECV, (uint64_t)p));
    }
    return dma_build_end(&b, plan);
}

static dma_status_t line_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, DMA_BASE_LINE, DMA_LINE_BYTES, plan);
}

static dma_status_t slot_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, DMA_BASE_SLOT, req->geom.slot_bytes, plan);
}

static const char *line_unfit(const dma_plan_req_t *req)
{
    return req->bytes > cell_bytes(req, DMA_LINE_BYTES) ? "the block is larger than its place in a descriptor" : NULL;
}

static const char *slot_unfit(const dma_plan_req_t *req)
{
    return req->bytes > cell_bytes(req, req->geom.slot_bytes) ? "the block is larger than its place in a slot" : NULL;
}

/* All ranks synchronize once. Ranks that share a core then switch once. */
static uint64_t cost(const dma_profile_t *p, const dma_plan_req_t *req, uint64_t lines)
{
    uint64_t n = (uint64_t)req->nranks, share = req->ranks_per_core_x16, out = gathers(req) ? 1 : n - 1;
    dma_wide_t work =
        p->enter_ps + (n - 1) * p->peer_ps * lines + dma_profile_ps(req->bytes, p->copy_mbps) +
        out * dma_profile_ps(req->bytes, dma_profile_slot_fill(p, req->geom.ring_depth * (n - 1) * req->bytes)) +
        (n - 1) * dma_profile_ps(req->bytes, p->pull_mbps);

    return dma_profile_shared(p, work, share, 1);
}

static uint64_t line_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    choice->chunk = 0;
    return cost(profile, req, req->bytes > HEADER_PAYLOAD ? 2 : 1);
}

static uint64_t slot_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    choice->chunk = 0;
    return cost(profile, req, 2);
}

const dma_variant_t dma_variant_host_line = {
    .name = "host_line",
    .help = "blocks ride in the descriptors",
    .serves = DMA_SENDS_ANY | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .unfit = line_unfit,
    .build = line_build,
    .cost = line_cost,
};

const dma_variant_t dma_variant_host_slot = {
    .name = "host_slot",
    .help = "blocks go through slots of shared memory beside the descriptors",
    .serves = DMA_SENDS_ANY | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .unfit = slot_unfit,
    .build = slot_build,
    .cost = slot_cost,
};
