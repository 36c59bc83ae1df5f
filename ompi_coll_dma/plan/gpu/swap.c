/*
 * swap and halves: all-to-alls in place in device memory, by swapping pairs of blocks.
 *
 * Block i of rank j and block j of rank i are swapped. One of the two ranks drives the swap: its engine reads and
 * writes both blocks. It waits until the other rank has entered, and the other rank waits until the swap is complete.
 *
 *     rank r, host program                          queue of r for a peer p whose pair r drives
 *     signal ENTRY of r, wait ENTRY of all          wait ENTRY of p
 *     wait QUEUE of our own queues                  swap block p of r and block r of p
 *     wait QUEUE of the queues of other ranks       signal QUEUE
 *          that drive a pair of ours
 *
 * The driving rank of a pair is a function of the two ranks. It is the one from which the other is less than half of
 * the ring of ranks away. If they are opposite, it is the one in the lower half of the ranks if that is even,
 * otherwise the other. So no rank drives more than half of its pairs, rounded up. In `halves` each block is cut in
 * two, and each rank of the pair drives one half, so that all links work in both directions.
 *
 * An engine that cannot swap two places, or not at this alignment, does it with three copies through memory of its
 * own. This is invisible to the other ranks.
 */
#include "plan/build.h"
#include "plan/profile.h"

/* Whether `rank` drives its pair with `peer`, of n ranks. */
static bool drives(int rank, int peer, int n)
{
    int away = (peer - rank + n) % n;

    if (2 * away != n) {
        return 2 * away < n;
    }
    return rank < peer ? rank % 2 == 0 : peer % 2 == 1;
}

/* The number of the queue that `rank` uses for `peer`, if `rank` drives this pair. */
static int queue_of(int rank, int peer, int n, bool halves)
{
    int index = 0;

    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        if (p == peer) {
            return index;
        }
        index += halves || drives(rank, p, n);
    }
    return index;
}

static void build_queue(dma_build_t *b, int rank, int p, int index, bool halves)
{
    dma_len_t len = dma_len(DMA_LEN_RECV, (uint64_t)p);

    if (halves) {
        len.part = rank < p ? DMA_LOWER : DMA_UPPER;
    }
    dma_build_queue(b, p);
    dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
    dma_build_swap(b, dma_at(DMA_BASE_RECV, p, rank), dma_at(DMA_BASE_RECV, rank, p), len);
    dma_build_signal(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, rank, index), 1);
}

static void build_host_program(dma_build_t *b, int rank, int n, int queues, bool halves)
{
    dma_build_prog(b);
    dma_build_signal(b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    for (int k = 1; k < n; k++) {
        dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, dma_peer_rotated(rank, k, n)), 1);
    }
    for (int q = 0; q < queues; q++) {
        dma_build_wait(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, rank, q), 1);
    }
    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        if (halves || drives(p, rank, n)) {
            dma_build_wait(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, p, queue_of(p, rank, n, halves)), 1);
        }
    }
}

static dma_status_t build(const dma_plan_req_t *req, int rank, bool halves, dma_plan_t **plan)
{
    int n = req->nranks, queues = 0, others = 0;
    dma_build_t b;
    dma_status_t status;

    for (int k = 1; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        queues += halves || drives(rank, p, n);
        others += halves || drives(p, rank, n);
    }
    status = dma_build_begin(&b, req, rank, 1 + (uint32_t)queues, (uint32_t)(n + queues + others + 3 * queues));
    if (status != DMA_OK) {
        return status;
    }
    build_host_program(&b, rank, n, queues, halves);
    for (int k = 1, index = 0; k < n; k++) {
        int p = dma_peer_rotated(rank, k, n);

        if (halves || drives(rank, p, n)) {
            build_queue(&b, rank, p, index++, halves);
        }
    }
    b.plan->streams = true;
    return dma_build_end(&b, plan);
}

static dma_status_t swap_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, false, plan);
}

static dma_status_t halves_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, true, plan);
}

static const char *unfit(const dma_plan_req_t *req)
{
    return req->in_place ? NULL : "nothing is to be exchanged out of place";
}

static uint64_t swap_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    (void)profile;
    choice->queues = (uint32_t)req->nranks / 2;
    return dma_build_gpu_cost(req, DMA_GPU_SWAP, choice);
}

static uint64_t halves_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    (void)profile;
    choice->queues = (uint32_t)req->nranks - 1;
    return dma_build_gpu_cost(req, DMA_GPU_HALVES, choice);
}

const dma_variant_t dma_variant_swap = {
    .name = "swap",
    .help = "device memory, in place: pairs of blocks change places, driven by one of the two ranks",
    .serves = DMA_SENDS_EACH | DMA_SIZES_ANY,
    .unfit = unfit,
    .build = swap_build,
    .cost = swap_cost,
    .gpu = true,
};

const dma_variant_t dma_variant_halves = {
    .name = "halves",
    .help = "the same with either rank driving half of the pair",
    .serves = DMA_SENDS_EACH | DMA_SIZES_ANY,
    .unfit = unfit,
    .build = halves_build,
    .cost = halves_cost,
    .gpu = true,
};
