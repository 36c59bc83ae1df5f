/*
 * pcpy, b2b and bcst: collectives in device memory. The engines of every rank copy its blocks to its peers.
 *
 *     rank r, host program                          queue q of r, on the link of one of its peers
 *     signal ENTRY of r                             wait ENTRY of each peer p of this queue
 *     wait ENTRY of all                             copy block of r's send buffer -> block r of recv of each p
 *     wait QUEUE of our own queues                  signal QUEUE q of r
 *     wait QUEUE of one queue of every other
 *          rank: the one that copies to us
 *
 * The variants differ only in how the peers are assigned to queues. pcpy: one queue per peer, so that all links work
 * at the same time. b2b: few queues with several copies each; this costs less to start and to observe, and moves data
 * more slowly. bcst: one queue per two peers, and one operation that reads a block once and writes it to both.
 *
 * The queue of rank p that copies to rank r is a function of the distance between them, so no rank has to be told.
 * Out of place, the own block needs one more queue, on the engine that copies within the device. A rank waits for a
 * whole queue. With b2b this is later than the copy of its own block, but all peers of the queue share one completion
 * word.
 */
#include "plan/build.h"
#include "plan/profile.h"

/* The assignment of peers to queues. Peers are numbered by their distance, 1 .. n - 1, and queues from 0. */
typedef struct assignment {
    int n;      /* ranks */
    int queues; /* for peers */
    bool pairs; /* two peers per queue, and one operation for both */
} assignment_t;

static assignment_t assign_peers(const dma_plan_req_t *req)
{
    int peers = req->nranks - 1, queues = (int)req->queues;

    return (assignment_t){.n = req->nranks, .queues = queues > 0 && queues < peers ? queues : peers};
}

static assignment_t assign_pairs(const dma_plan_req_t *req)
{
    return (assignment_t){.n = req->nranks, .queues = req->nranks / 2, .pairs = true};
}

/* The queue for the peer at distance k. If the number of peers is odd, the first has a queue of its own. */
static int queue_of(const assignment_t *d, int k)
{
    return d->pairs ? (k - 1 + (d->n - 1) % 2) / 2 : (k - 1) % d->queues;
}

static dma_operand_t own_block(const dma_plan_req_t *req, int rank, int peer)
{
    return dma_at(DMA_BASE_SEND, rank, dma_coll_gathers(req->coll) ? 0 : peer);
}

static dma_len_t own_length(const dma_plan_req_t *req, int peer)
{
    return dma_len(DMA_LEN_SEND, dma_coll_gathers(req->coll) ? 0 : (uint64_t)peer);
}

/* Appends the copies of queue `q` to its peers. */
static void build_copies(dma_build_t *b, const dma_plan_req_t *req, const assignment_t *d, int rank, int q)
{
    int first = -1;

    for (int k = 1; k < d->n; k++) {
        int p = dma_peer_rotated(rank, k, d->n);

        if (queue_of(d, k) != q) {
            continue;
        }
        if (d->pairs && first >= 0) {
            dma_build_copy2(b, dma_at(DMA_BASE_RECV, first, rank), dma_at(DMA_BASE_RECV, p, rank),
                            own_block(req, rank, p), own_length(req, p));
            return;
        }
        first = p;
        if (!d->pairs || (d->n % 2 == 0 && k == 1)) {
            dma_build_copy(b, 0, dma_at(DMA_BASE_RECV, p, rank), own_block(req, rank, p), own_length(req, p));
        }
    }
}

static void build_queue(dma_build_t *b, const dma_plan_req_t *req, const assignment_t *d, int rank, int q)
{
    int last = -1;

    for (int k = 1; k < d->n; k++) {
        if (queue_of(d, k) == q && (d->pairs || last < 0)) {
            last = dma_peer_rotated(
                rank, k, d->n); /* the rank whose link the queue uses: the second of a pair, otherwise the first */
        }
    }
    dma_build_queue(b, last);
    for (int k = 1; k < d->n; k++) {
        if (queue_of(d, k) == q) {
            dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, dma_peer_rotated(rank, k, d->n)), 1);
        }
    }
    build_copies(b, req, d, rank, q);
    dma_build_signal(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, rank, q), 1);
}

static void build_host_program(dma_build_t *b, const dma_plan_req_t *req, const assignment_t *d, int rank)
{
    int own = d->queues + (req->in_place ? 0 : 1);

    dma_build_prog(b);
    dma_build_signal(b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    for (int k = 1; k < d->n; k++) {
        dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, dma_peer_rotated(rank, k, d->n)), 1);
    }
    for (int q = 0; q < own; q++) {
        dma_build_wait(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, rank, q), 1);
    }
    for (int k = 1; k < d->n; k++) {
        int p = dma_peer_rotated(rank, k, d->n);

        /* seen from p, this rank is at distance n - k */
        dma_build_wait(b, 0, dma_flag_pair(DMA_FLAG_QUEUE, p, queue_of(d, d->n - k)), 1);
    }
}

static dma_status_t build(const dma_plan_req_t *req, const assignment_t *d, int rank, dma_plan_t **plan)
{
    uint32_t peers = (uint32_t)d->n - 1, queues = (uint32_t)d->queues, own = req->in_place ? 0 : 1;
    uint32_t host = 1 + peers + queues + own + peers, moves = d->pairs ? queues : peers;
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, 1 + queues + own, host + peers + moves + queues + 2 * own);
    if (status != DMA_OK) {
        return status;
    }
    build_host_program(&b, req, d, rank);
    for (int q = 0; q < d->queues; q++) {
        build_queue(&b, req, d, rank, q);
    }
    if (own) {
        dma_build_queue(&b, rank);
        dma_build_copy(&b, 0, dma_at(DMA_BASE_RECV, rank, rank), own_block(req, rank, rank), own_length(req, rank));
        dma_build_signal(&b, 0, dma_flag_pair(DMA_FLAG_QUEUE, rank, d->queues), 1);
    }
    b.plan->streams = true;
    return dma_build_end(&b, plan);
}

static dma_status_t b2b_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    assignment_t d = assign_peers(req);

    return build(req, &d, rank, plan);
}

static dma_status_t pcpy_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    assignment_t d = {.n = req->nranks, .queues = req->nranks - 1};

    return build(req, &d, rank, plan);
}

static dma_status_t bcst_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    assignment_t d = assign_pairs(req);

    return build(req, &d, rank, plan);
}

/* In place, an all-to-all would overwrite blocks that have not been sent yet. */
static const char *push_unfit(const dma_plan_req_t *req)
{
    if (req->in_place && !dma_coll_gathers(req->coll)) {
        return "the blocks of an all-to-all in place have to be exchanged";
    }
    return NULL;
}

static const char *pcpy_unfit(const dma_plan_req_t *req)
{
    return req->max_queues < (uint32_t)req->nranks - 1 ? "the engine has fewer queues than there are peers"
                                                       : push_unfit(req);
}

static const char *bcst_unfit(const dma_plan_req_t *req)
{
    if (!req->bcst) {
        return "not all engines write two places at once";
    }
    return req->max_queues < (uint32_t)req->nranks / 2 ? "the engine has fewer queues than there are pairs of peers"
                                                       : push_unfit(req);
}

static uint64_t pcpy_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    (void)profile;
    choice->queues = (uint32_t)dma_gpu_packets(DMA_GPU_COPY, req->nranks);
    return dma_build_gpu_cost(req, DMA_GPU_COPY, choice);
}

static uint64_t bcst_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    (void)profile;
    choice->queues = (uint32_t)req->nranks / 2;
    return dma_build_gpu_cost(req, DMA_GPU_BCST, choice);
}

/* Chooses the number of queues with the lowest cost, unless the user has set it. */
static uint64_t b2b_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    uint32_t most = req->max_queues < (uint32_t)req->nranks - 1 ? req->max_queues : (uint32_t)req->nranks - 1;
    uint64_t best = UINT64_MAX;

    (void)profile;
    for (uint32_t queues = req->queues ? req->queues : 1; queues <= (req->queues ? req->queues : most); queues++) {
        dma_choice_t one = *choice;
        uint64_t t;

        one.queues = queues;
        t = dma_build_gpu_cost(req, DMA_GPU_COPY, &one);
        if (t < best) {
            best = t;
            *choice = one;
        }
    }
    return best;
}

const dma_variant_t dma_variant_pcpy = {
    .name = "pcpy",
    .help = "device memory: a copy to every peer, each on a queue of its own",
    .serves = DMA_SENDS_ANY | DMA_SIZES_ANY,
    .unfit = pcpy_unfit,
    .build = pcpy_build,
    .cost = pcpy_cost,
    .gpu = true,
};

const dma_variant_t dma_variant_b2b = {
    .name = "b2b",
    .help = "device memory: copies back to back on few queues",
    .serves = DMA_SENDS_ANY | DMA_SIZES_ANY,
    .unfit = push_unfit,
    .build = b2b_build,
    .cost = b2b_cost,
    .gpu = true,
};

const dma_variant_t dma_variant_bcst = {
    .name = "bcst",
    .help = "device memory: copies that are read once and written to two peers",
    .serves = DMA_SENDS_ONE | DMA_SIZES_ANY,
    .unfit = bcst_unfit,
    .build = bcst_build,
    .cost = bcst_cost,
    .gpu = true,
};
