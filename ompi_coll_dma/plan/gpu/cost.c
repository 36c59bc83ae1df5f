/* The cost model of collectives on DMA engines: see cost.h. */
#include "plan/gpu/cost.h"

static uint64_t clamp(dma_wide_t ps)
{
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}

static int queues_of(const dma_gpu_shape_t *shape)
{
    int most = dma_gpu_packets(shape->family, shape->nranks);

    return shape->queues < 1 ? (most > 0) : shape->queues < most ? shape->queues : most;
}

/* The time of the busiest engine for `chain` packets of the family. A link carries the whole block in each direction,
 * whichever engine moves it: the two half swaps of a pair share their link. */
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
    return dma_wide_max(one * chain, link);
}

/* The process observes its own queues, because they read its buffers, and for every peer the queue that writes into its
 * memory. The queue of a swap that this process drives is both: it counts once. */
dma_gpu_work_t dma_gpu_work(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    uint64_t queues = (uint64_t)queues_of(shape), own = shape->own_block ? 1 : 0;
    uint64_t packets = (uint64_t)dma_gpu_packets(shape->family, shape->nranks);
    uint64_t peers = (uint64_t)shape->nranks - 1 - (shape->family == DMA_GPU_SWAP ? packets : 0);
    dma_gpu_work_t w = {
        .packets = packets + own,
        .queues = queues + own,
        .completions = queues + peers + own,
        .chain = queues ? (packets + queues - 1) / queues : 0,
    };

    if (w.chain) {
        w.move_ps = move_ps(profile, shape, w.chain);
    }
    if (own) {
        w.own_ps = dma_profile_ps(shape->bytes, profile->own_mbps);
    }
    return w;
}

dma_gpu_phases_t dma_gpu_phases(const dma_gpu_profile_t *p, const dma_gpu_work_t *w, bool prelaunch)
{
    dma_gpu_phases_t phases = {0};
    dma_wide_t copy = w->own_ps;

    if (!w->queues) {
        return phases;
    }
    if (prelaunch) {
        phases.schedule = clamp(p->trigger_ps + (dma_wide_t)w->queues * p->armed_ps);
    } else {
        phases.control = clamp((dma_wide_t)w->packets * p->build_ps);
        phases.schedule = clamp(p->fetch_ps + (dma_wide_t)w->queues * p->doorbell_ps);
    }
    if (w->chain) {
        copy = dma_wide_max(copy, w->move_ps + (dma_wide_t)(w->chain - 1) * p->packet_ps);
    }
    phases.copy = clamp(copy + p->first_ps);
    phases.sync = clamp(p->fence_ps + (dma_wide_t)w->completions * p->observe_ps);
    return phases;
}

uint64_t dma_gpu_phases_sum(const dma_gpu_phases_t *phases)
{
    return clamp((dma_wide_t)phases->control + phases->schedule + phases->copy + phases->sync);
}
