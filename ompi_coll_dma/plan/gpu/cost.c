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

#define EXCHANGE_COPIES 3

static uint64_t copies_of(const dma_gpu_shape_t *shape)
{
    bool swaps = shape->family == DMA_GPU_SWAP || shape->family == DMA_GPU_HALVES;

    return swaps && shape->by_copies ? EXCHANGE_COPIES : 1;
}

/* An exchange without a swap: temp <- theirs, theirs <- ours, ours <- temp. Each copy begins when the one before has landed. What a
 * large block takes longer because it is exchanged in pieces is left out. */
static dma_wide_t exchange_ps(const dma_gpu_profile_t *p, uint64_t bytes)
{
    return 2 * dma_profile_ps(bytes, p->link_mbps) + dma_profile_ps(bytes, p->own_mbps) +
           (dma_wide_t)EXCHANGE_COPIES * p->fence_ps;
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
        one = shape->by_copies ? exchange_ps(p, shape->bytes) : 2 * dma_profile_ps(shape->bytes, p->swap_mbps);
        break;
    case DMA_GPU_HALVES:
        one = shape->by_copies ? exchange_ps(p, shape->bytes / 2) : dma_profile_ps(shape->bytes, p->swap_mbps);
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
        .packets = packets * copies_of(shape) + own,
        .queues = queues + own,
        .completions = queues + peers + own,
        .chain = queues ? (packets + queues - 1) / queues : 0,
        .own_queues = own,
        .conditions = 1,
        .triggers = (uint64_t)shape->nranks - 1,
        .rearms = true,
    };

    if (w.chain) {
        w.move_ps = move_ps(profile, shape, w.chain);
        w.chain *= copies_of(shape);
    }
    if (own) {
        w.own_ps = dma_profile_ps(shape->bytes, profile->own_mbps);
    }
    return w;
}

/* What a processor writes: packets with their completions, and doorbells. */
static dma_wide_t write_ps(const dma_gpu_profile_t *p, uint64_t packets, uint64_t queues)
{
    return (dma_wide_t)packets * p->build_ps + (dma_wide_t)queues * p->doorbell_ps;
}

static dma_wide_t more_than(dma_wide_t a, dma_wide_t b)
{
    return a > b ? a - b : 0;
}

/* Of the engines, from the moment at which their own block can begin. */
static dma_wide_t copy_ps(const dma_gpu_profile_t *p, const dma_gpu_work_t *w, dma_wide_t own_late)
{
    dma_wide_t peers = w->chain ? w->move_ps + (dma_wide_t)(w->chain - 1) * p->packet_ps : 0;

    return p->first_ps + dma_wide_max(peers, w->own_queues ? w->own_ps + own_late : 0);
}

/* The processor writes the own block's packet, and then the next call's, while the engines see the trigger and copy. */
static dma_gpu_phases_t prelaunched(const dma_gpu_profile_t *p, const dma_gpu_work_t *w)
{
    uint64_t queues = w->queues - w->own_queues;
    dma_wide_t own = write_ps(p, w->own_queues, w->own_queues), rearm = 0, schedule, copy;

    if (w->rearms) {
        rearm = own + write_ps(p, w->packets - w->own_queues + queues, queues);
    }
    schedule = p->trigger_ps + (dma_wide_t)queues * p->armed_ps + (dma_wide_t)w->triggers * p->observe_ps +
               (dma_wide_t)w->conditions * p->packet_ps;
    copy = copy_ps(p, w, more_than(own + p->fetch_ps, schedule));
    return (dma_gpu_phases_t){
        .control = clamp(more_than(rearm, schedule + copy + p->fence_ps)),
        .schedule = clamp(schedule),
        .copy = clamp(copy),
        .sync = clamp(p->fence_ps + (dma_wide_t)w->completions * p->observe_ps),
    };
}

dma_gpu_phases_t dma_gpu_phases(const dma_gpu_profile_t *p, const dma_gpu_work_t *w, bool prelaunch)
{
    if (!w->queues) {
        return (dma_gpu_phases_t){0};
    }
    if (prelaunch && w->queues > w->own_queues) {
        return prelaunched(p, w);
    }
    return (dma_gpu_phases_t){
        .control = clamp((dma_wide_t)w->packets * p->build_ps),
        .schedule = clamp(p->fetch_ps + (dma_wide_t)w->queues * p->doorbell_ps),
        .copy = clamp(copy_ps(p, w, 0)),
        .sync = clamp(p->fence_ps + (dma_wide_t)w->completions * p->observe_ps),
    };
}

uint64_t dma_gpu_phases_sum(const dma_gpu_phases_t *phases)
{
    return clamp((dma_wide_t)phases->control + phases->schedule + phases->copy + phases->sync);
}
