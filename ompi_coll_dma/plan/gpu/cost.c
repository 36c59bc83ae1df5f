/* The cost of collectives on DMA engines, and the choice by it. */
#include "plan/gpu/cost.h"

#include "plan/profile.h"

/* What a call makes processors and engines do, counted. */
typedef struct work {
    uint64_t packets;     /* that the submitting process writes */
    uint64_t queues;      /* that it starts */
    uint64_t completions; /* that it observes */
    uint64_t chain;       /* packets on the busiest queue */
    dma_wide_t move_ps;   /* what the busiest engine or link moves, without the cost of packets */
    dma_wide_t own_ps;    /* the same of the own block's queue; 0: there is none */
} work_t;

static uint64_t bounded(dma_wide_t ps)
{
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}

static dma_wide_t wide_max(dma_wide_t a, dma_wide_t b)
{
    return a > b ? a : b;
}

int dma_gpu_packets(dma_gpu_family_t family, int nranks)
{
    return family == DMA_GPU_BCST || family == DMA_GPU_SWAP ? nranks / 2 : nranks - 1;
}

static int queues_of(const dma_gpu_shape_t *shape)
{
    int most = dma_gpu_packets(shape->family, shape->nranks);

    return shape->queues < 1 ? (most > 0) : shape->queues < most ? shape->queues : most;
}

/* The busiest engine's time for `chain` packets of the family. A link carries the whole block each way, whoever moves
 * it: two half swaps of a pair share theirs. */
static dma_wide_t move_ps(const dma_gpu_profile_t *p, const dma_gpu_shape_t *shape, uint64_t chain)
{
    dma_wide_t link = dma_profile_ps(shape->bytes, p->link_mbps), one = 0;

    switch (shape->family) {
    case DMA_GPU_BCST:
        one = 2 * dma_profile_ps(shape->bytes, p->bcst_mbps);
        break;
    case DMA_GPU_SWAP:
        one = 2 * dma_profile_ps(shape->bytes, p->swap_mbps);
        break;
    case DMA_GPU_HALVES:
        one = dma_profile_ps(shape->bytes, p->swap_mbps);
        break;
    default:
        one = chain > 1 ? dma_profile_ps(shape->bytes, p->chain_mbps) : link;
        break;
    }
    return wide_max(one * chain, link);
}

/* With one submitter everything is written, started and observed by it. Of two sides of a whole swap one drives it, so
 * there are half as many as packets of the busiest GPU would make. */
static void count_for_all(const dma_gpu_shape_t *shape, uint64_t queues, work_t *w)
{
    uint64_t n = (uint64_t)shape->nranks, packets = n * (uint64_t)dma_gpu_packets(shape->family, shape->nranks);

    w->packets = shape->family == DMA_GPU_SWAP ? n * (n - 1) / 2 : packets;
    w->queues = n * queues < w->packets ? n * queues : w->packets;
    w->completions = w->queues;
    if (shape->own_block) {
        w->packets += n;
        w->queues += n;
        w->completions += n;
    }
}

/* A process of its own per GPU: it watches its queues, because they read its buffers, and for every peer the queue that
 * writes into its memory, which for a swap that it drives is its own. */
static void count_for_one(const dma_gpu_shape_t *shape, uint64_t queues, work_t *w)
{
    uint64_t packets = (uint64_t)dma_gpu_packets(shape->family, shape->nranks), own = shape->own_block ? 1 : 0;
    uint64_t peers = (uint64_t)shape->nranks - 1 - (shape->family == DMA_GPU_SWAP ? packets : 0);

    w->packets = packets + own;
    w->queues = queues + own;
    w->completions = queues + peers + own;
}

static dma_gpu_phases_t phases_of(const dma_gpu_profile_t *p, const work_t *w, bool prelaunch)
{
    dma_gpu_phases_t phases = {0};
    dma_wide_t copy = w->own_ps;

    if (!w->queues) {
        return phases;
    }
    if (prelaunch) {
        phases.schedule = bounded(p->trigger_ps + (dma_wide_t)w->queues * p->armed_ps);
    } else {
        phases.control = bounded((dma_wide_t)w->packets * p->build_ps);
        phases.schedule = bounded(p->fetch_ps + (dma_wide_t)w->queues * p->doorbell_ps);
    }
    if (w->chain) {
        copy = wide_max(copy, w->move_ps + (dma_wide_t)(w->chain - 1) * p->packet_ps);
    }
    phases.copy = bounded(copy + p->first_ps);
    phases.sync = bounded(p->fence_ps + (dma_wide_t)w->completions * p->observe_ps);
    return phases;
}

dma_gpu_phases_t dma_gpu_phases(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    uint64_t queues = (uint64_t)queues_of(shape);
    uint64_t packets = (uint64_t)dma_gpu_packets(shape->family, shape->nranks);
    work_t w = {.chain = queues ? (packets + queues - 1) / queues : 0};

    if (w.chain) {
        w.move_ps = move_ps(profile, shape, w.chain);
    }
    if (shape->own_block) {
        w.own_ps = dma_profile_ps(shape->bytes, profile->own_mbps);
    }
    if (shape->one_submitter) {
        count_for_all(shape, queues, &w);
    } else {
        count_for_one(shape, queues, &w);
    }
    return phases_of(profile, &w, shape->prelaunch);
}

dma_gpu_phases_t dma_gpu_phases_of_copy(const dma_gpu_profile_t *profile, uint64_t bytes)
{
    work_t w = {
        .packets = 1, .queues = 1, .completions = 1, .chain = 1, .move_ps = dma_profile_ps(bytes, profile->link_mbps)};

    return phases_of(profile, &w, false);
}

uint64_t dma_gpu_phases_sum(const dma_gpu_phases_t *phases)
{
    return bounded((dma_wide_t)phases->control + phases->schedule + phases->copy + phases->sync);
}

uint64_t dma_gpu_cost(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    dma_gpu_phases_t phases = dma_gpu_phases(profile, shape);

    return dma_gpu_phases_sum(&phases);
}

const char *dma_gpu_shape_name(const dma_gpu_shape_t *shape)
{
    static const char *const names[DMA_GPU_FAMILY_COUNT] = {"pcpy", "bcst", "swap", "halves"};

    if (shape->family == DMA_GPU_COPY && queues_of(shape) < dma_gpu_packets(DMA_GPU_COPY, shape->nranks)) {
        return "b2b";
    }
    return names[shape->family];
}

/* Which packets can do the operation at all. In an all-to-all in place a copy would overwrite what has not been sent. A
 * broadcast to one GPU is a copy. */
static bool family_does(dma_gpu_family_t family, const dma_gpu_req_t *req)
{
    bool gathers = dma_coll_gathers(req->coll);

    switch (family) {
    case DMA_GPU_COPY:
        return gathers || !req->in_place;
    case DMA_GPU_BCST:
        return gathers && req->nranks > 2;
    default:
        return !gathers && req->in_place;
    }
}

static void choose_in(const dma_gpu_profile_t *profile, const dma_gpu_req_t *req, dma_gpu_shape_t candidate,
                      bool *found, dma_gpu_shape_t *best, uint64_t *best_ps)
{
    int most = dma_gpu_packets(candidate.family, req->nranks);

    if (req->max_queues > 0 && req->max_queues < most) {
        most = req->max_queues;
    }
    for (candidate.queues = most > 0; candidate.queues <= most; candidate.queues++) {
        uint64_t ps = dma_gpu_cost(profile, &candidate);

        if (!*found || ps < *best_ps) {
            *best = candidate;
            *best_ps = ps;
            *found = true;
        }
    }
}

bool dma_gpu_choose(const dma_gpu_profile_t *profile, const dma_gpu_req_t *req, dma_gpu_shape_t *shape,
                    uint64_t *cost_ps)
{
    dma_gpu_shape_t best = {0};
    uint64_t best_ps = 0;
    bool found = false;

    for (int f = 0; f < DMA_GPU_FAMILY_COUNT; f++) {
        dma_gpu_shape_t candidate = {.family = (dma_gpu_family_t)f,
                                     .nranks = req->nranks,
                                     .bytes = req->bytes,
                                     .own_block = !req->in_place,
                                     .one_submitter = req->one_submitter};

        if (!(req->families >> f & 1) || !family_does(candidate.family, req)) {
            continue;
        }
        choose_in(profile, req, candidate, &found, &best, &best_ps);
        if (req->prelaunch) {
            candidate.prelaunch = true;
            choose_in(profile, req, candidate, &found, &best, &best_ps);
        }
    }
    if (found) {
        *shape = best;
        *cost_ps = best_ps;
    }
    return found;
}
