/*
 * host_pipe: large all-gathers with two copies, pipelined through chunks that fit into a cache.
 *
 * Program 0 produces, and one program per peer consumes. Each program runs as long as it can. So a rank that has a
 * core to itself for a while moves as much as the chunk buffers allow before it has to switch to another rank.
 *
 *     producer of rank r, per chunk               consumer of r's stream at rank q, per chunk
 *     wait  CONSUMED(q, r), all q: buffer free
 *     copy  send -> chunk buffer
 *     signal PRODUCED(r)               -------->  wait  PRODUCED(r)
 *     copy  send -> own block of recv             copy  chunk buffer -> block r of recv
 *                                      <--------  signal CONSUMED(q, r)
 *
 * The copy of the own block reads what the first copy has just brought into the cache. The producer does not wait
 * until its last chunks are consumed: the stream continues in the next call, whose waits cover that.
 */
#include "plan/build.h"
#include "plan/profile.h"

#define MIN_CHUNK 4096 /* bytes: for smaller chunks the flags take longer than the copy */

static void build_producer(dma_build_t *b, const dma_plan_req_t *req, int rank)
{
    dma_len_t all = dma_len(DMA_LEN_SEND, 0);

    dma_build_prog(b);
    dma_build_signal(b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    dma_build_loop(b, all);
    for (int k = 1; k < req->nranks; k++) {
        int p = dma_peer_rotated(rank, k, req->nranks);

        dma_build_wait(b, DMA_OP_CHUNKED, dma_flag_pair(DMA_FLAG_CONSUMED, p, rank),
                       1 - (int32_t)req->geom.chunk_depth);
    }
    dma_build_copy(b, DMA_OP_CHUNKED, dma_at(DMA_BASE_CHUNK, rank, 0), dma_at(DMA_BASE_SEND, rank, 0), all);
    dma_build_signal(b, DMA_OP_CHUNKED, dma_flag(DMA_FLAG_PRODUCED, rank), 1);
    if (!req->in_place) {
        dma_build_copy(b, DMA_OP_CHUNKED, dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_SEND, rank, 0), all);
    }
    dma_build_loop_end(b);
}

static void build_consumer(dma_build_t *b, int rank, int p)
{
    dma_len_t all = dma_len(DMA_LEN_RECV, (uint64_t)p);

    dma_build_prog(b);
    dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
    dma_build_loop(b, all);
    dma_build_wait(b, DMA_OP_CHUNKED, dma_flag(DMA_FLAG_PRODUCED, p), 1);
    dma_build_copy(b, DMA_OP_CHUNKED, dma_at(DMA_BASE_RECV, rank, p), dma_at(DMA_BASE_CHUNK, p, 0), all);
    dma_build_signal(b, DMA_OP_CHUNKED, dma_flag_pair(DMA_FLAG_CONSUMED, rank, p), 1);
    dma_build_loop_end(b);
}

static dma_status_t build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    uint32_t n = (uint32_t)req->nranks;
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, n, 3 + (n - 1) + (req->in_place ? 0 : 1) + 4 * (n - 1));
    if (status != DMA_OK) {
        return status;
    }
    build_producer(&b, req, rank);
    for (int k = 1; k < req->nranks; k++) {
        build_consumer(&b, rank, dma_peer_rotated(rank, k, req->nranks));
    }
    b.plan->streams = true;
    return dma_build_end(&b, plan);
}

static const char *unfit(const dma_plan_req_t *req)
{
    if (req->geom.chunk_depth < 1 || req->geom.chunk_bytes < MIN_CHUNK) {
        return "there is no room for chunk buffers";
    }
    return NULL;
}

/* The cost with `chunk` bytes per trip: all copies, two flags per trip and peer, and the first chunk, for which the
 * consumers wait. */
static uint64_t cost_of_chunk(const dma_profile_t *p, const dma_plan_req_t *req, uint64_t chunk)
{
    uint64_t peers = (uint64_t)req->nranks - 1, share = req->ranks_per_core_x16;
    uint64_t trips = (req->bytes + chunk - 1) / chunk;
    uint64_t window = chunk * req->geom.chunk_depth;
    uint64_t fill_mbps = dma_profile_fill(p, window * peers);
    bool cached = req->bytes * (peers + 2) <= p->cache_bytes;
    dma_wide_t in = dma_profile_ps(req->bytes, cached ? fill_mbps : dma_profile_min(fill_mbps, 2 * p->memory_mbps));
    dma_wide_t own = dma_profile_ps(req->bytes, cached ? p->copy_mbps : 2 * p->memory_mbps);
    dma_wide_t out = dma_profile_ps(req->bytes, cached ? p->pull_mbps : dma_profile_min(p->pull_mbps, p->memory_mbps));
    dma_wide_t fill = dma_profile_ps(chunk < req->bytes ? chunk : req->bytes, fill_mbps);
    dma_wide_t work =
        p->enter_ps + peers * p->peer_ps + in + own + peers * out + (dma_wide_t)trips * peers * p->step_ps + fill;

    /* a rank that shares its core fills all chunk buffers between two switches */
    return dma_profile_shared(p, work, share, 1 + req->bytes / window);
}

static uint64_t cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    return dma_profile_best_chunk(cost_of_chunk, profile, req, MIN_CHUNK, req->geom.chunk_bytes, &choice->chunk);
}

const dma_variant_t dma_variant_host_pipe = {
    .name = "host_pipe",
    .help = "two copies, pipelined through cache-sized chunks of shared memory",
    .serves = DMA_SENDS_ONE | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .unfit = unfit,
    .build = build,
    .cost = cost,
};
