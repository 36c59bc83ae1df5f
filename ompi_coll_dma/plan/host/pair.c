/*
 * host_pair: all-to-alls in two copies, pipelined through a ring of chunks for every ordered pair of ranks.
 * host_reach: all operations with one copy of what is large, straight out of the peers' memory.
 *
 * All-to-all-v is the hard case: a rank knows what it sends to and gets from each peer, and nothing about the others, so
 * nothing may depend on a size that only some ranks know. Hence one plan for all sizes. The header of the block's bytes rides
 * in a cell of the sender's slot, and the receiver checks it against its own; so does the block if it is short: a head. A
 * longer one, a tail, goes through the pair's ring in as many trips as it needs. What is short both ranks of a pair know: no
 * more than its cell holds, and than costs less there (dma_profile_head).
 *
 *     cell in the slot:   bytes of the block (8) | its address (8), which host_reach wants | head
 *
 *     program 0           header and head of every block -> places; signal ENTRY; own block;
 *                         per peer: wait ENTRY, check its header, copy its head
 *     producer of p       per chunk of the tail for p:   wait PAIR_CONSUMED(p, r); copy; signal PAIR_PRODUCED(r, p)
 *     consumer of p       wait ENTRY of p; per chunk:    wait PAIR_PRODUCED(p, r); copy; signal PAIR_CONSUMED(r, p)
 *
 * In cell, block p is what goes to p and where p's comes to, of equal bytes: a chunk is overwritten only after our own
 * copy of it has been produced, which the consumer sees by our own flag, and heads only after our own entry.
 *
 * A pair without a tail has nothing for its producer and its consumer to do, and program 0 waits for all entries: so an
 * all-to-all of heads runs that program alone. An all-gather's consumer waits for its peer's entry in any case: nobody else does.
 *
 * In an all-to-all of equal bytes the descriptors carry the header and the address, and places hold heads alone. An all-gather
 * has no heads: one block is for all.
 *
 * host_reach is the same but for the tails:
 *
 *     producer of p       per chunk of the tail for p:   in the last trip: wait LANDED(p, r)
 *     consumer of p       wait ENTRY of p; per chunk:    check the header, copy out of p's memory;
 *                                                        in the last trip: signal LANDED(r, p)
 *
 * Each pair of ranks meets for itself: a rank is through when its own blocks have been read, whatever else their readers have
 * to do. A tail that fits into one buffer of the ring and has at most FALLBACK_MAX bytes goes through the ring: a system call
 * and a second meeting cost more. Peers pull rather than push, so that a late peer can only hurt its own buffer.
 *
 * ENTRY (release, acquire) brings the reader header, address, head and what p has in its send buffer; LANDED tells p that
 * its send buffer has been read, and p does not complete before. The cell needs neither: the ring's acknowledgement keeps
 * it. Both ranks of a pair know whether there is a tail, and without one do what host_pair does, with no second meeting. A
 * rank that is refused a peer's memory says so with LANDED, and that tail alone goes through the ring of the pair, which is
 * why this is not a file of its own. Others may have left the call by then.
 */
#include "plan/build.h"
#include "plan/profile.h"
#include "plan/variants.h"

#define MIN_CHUNK    256
#define FALLBACK_MAX 8192    /* measured between core complexes: two copies of so much take about what a reading does */
#define MIN_CELL     16      /* header and address */
#define CROSS_CHUNK  1048576 /* bytes per system call: progress is made between two */

/* The cell of one peer in a slot, its header included; copies like 16. */
static uint64_t cell_bytes(const dma_plan_req_t *req)
{
    return req->geom.slot_bytes / (req->nranks < 2 ? 1 : (uint64_t)req->nranks - 1) / 16 * 16;
}

static bool gathers(const dma_plan_req_t *req)
{
    return dma_coll_gathers(req->coll);
}

/* The block of a send buffer that is for `reader`. */
static int send_block(const dma_plan_req_t *req, int reader)
{
    return gathers(req) ? 0 : reader;
}

/* What comes before the head. */
static uint64_t header_bytes(const dma_plan_req_t *req)
{
    return req->coll == DMA_ALLTOALLV ? 2 * sizeof(uint64_t) : 0;
}

static dma_operand_t cell(const dma_plan_req_t *req, int owner, int reader, uint64_t offset)
{
    dma_operand_t o = dma_at(DMA_BASE_SLOT, owner, 0);

    o.offset = (uint64_t)((reader - owner - 1 + req->nranks) % req->nranks) * cell_bytes(req) + offset;
    return o;
}

/* The longest block that goes through a slot. */
static uint64_t head_max_bytes(const dma_plan_req_t *req)
{
    uint64_t room = cell_bytes(req) - header_bytes(req);

    return gathers(req) ? 0 : req->head && req->head < room ? req->head : room;
}

/* In the memory of `owner`: the block for `reader`. Where only its owner knows its address, that is the cell's second word. */
static dma_operand_t peer_block(const dma_plan_req_t *req, int owner, int reader)
{
    dma_operand_t o = cell(req, owner, reader, sizeof(uint64_t));

    if (!header_bytes(req)) {
        return dma_at(DMA_BASE_SEND, owner, send_block(req, reader));
    }
    o.base = DMA_BASE_REMOTE;
    o.block = reader;
    return o;
}

static dma_len_t part_of(dma_len_kind_t kind, int block, dma_part_t part)
{
    return (dma_len_t){.kind = (uint8_t)kind, .part = (uint8_t)part, .len = (uint64_t)block};
}

static void build_heads(dma_build_t *b, const dma_plan_req_t *req, int rank)
{
    uint64_t header = header_bytes(req);
    int own = send_block(req, rank);

    dma_build_prog(b);
    for (int k = 1; k < req->nranks && !gathers(req); k++) {
        int p = dma_peer_rotated(rank, k, req->nranks);

        if (header) {
            dma_build_copy(b, 0, cell(req, rank, p, 0), dma_at(DMA_BASE_BYTES, rank, p),
                           dma_len(DMA_LEN_CONST, header));
        }
        dma_build_copy(b, 0, cell(req, rank, p, header), dma_at(DMA_BASE_SEND, rank, p),
                       part_of(DMA_LEN_SEND, p, DMA_HEAD));
    }
    dma_build_signal(b, 0, dma_flag(DMA_FLAG_ENTRY, rank), 1);
    if (!req->in_place) {
        dma_build_copy(b, 0, dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_SEND, rank, own),
                       dma_len(DMA_LEN_SEND, (uint64_t)own));
    }
    for (int k = 1; k < req->nranks && !gathers(req); k++) {
        int p = dma_peer_rotated(rank, k, req->nranks);

        dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
        if (header) {
            dma_build_check(b, 0, cell(req, p, rank, 0), dma_len(DMA_LEN_RECV, (uint64_t)p));
        }
        dma_build_copy(b, 0, dma_at(DMA_BASE_RECV, rank, p), cell(req, p, rank, header),
                       part_of(DMA_LEN_RECV, p, DMA_HEAD));
    }
}

static void build_producer(dma_build_t *b, const dma_plan_req_t *req, int rank, int p, bool direct)
{
    int block = send_block(req, p);
    dma_len_t tail = part_of(DMA_LEN_SEND, block, DMA_TAIL);
    uint8_t flags = DMA_OP_CHUNKED | (direct ? DMA_OP_FALLBACK : 0);

    dma_build_prog(b);
    dma_build_loop(b, tail);
    if (direct) {
        dma_build_wait(b, DMA_OP_DIRECT | DMA_OP_LAST, dma_flag_pair(DMA_FLAG_LANDED, p, rank), 1);
    }
    dma_build_wait(b, flags, dma_flag_pair(DMA_FLAG_PAIR_CONSUMED, p, rank), 1 - (int32_t)req->geom.pair_depth);
    dma_build_copy(b, flags, dma_at(DMA_BASE_PAIR, rank, p), dma_at(DMA_BASE_SEND, rank, block), tail);
    dma_build_signal(b, flags, dma_flag_pair(DMA_FLAG_PAIR_PRODUCED, rank, p), 1);
    dma_build_loop_end(b);
    dma_build_loop_only(b);
}

static void build_consumer(dma_build_t *b, const dma_plan_req_t *req, int rank, int p, bool direct)
{
    dma_len_t tail = part_of(DMA_LEN_RECV, p, DMA_TAIL);
    uint8_t flags = DMA_OP_CHUNKED | (direct ? DMA_OP_FALLBACK : 0);

    dma_build_prog(b);
    dma_build_wait(b, 0, dma_flag(DMA_FLAG_ENTRY, p), 1);
    dma_build_loop(b, tail);
    if (direct) {
        if (header_bytes(req)) {
            dma_build_check(b, DMA_OP_DIRECT, cell(req, p, rank, 0), dma_len(DMA_LEN_RECV, (uint64_t)p));
        }
        dma_build_copy(b, DMA_OP_DIRECT | DMA_OP_CHUNKED, dma_at(DMA_BASE_RECV, rank, p), peer_block(req, p, rank),
                       tail);
        dma_build_signal(b, DMA_OP_DIRECT | DMA_OP_LAST, dma_flag_pair(DMA_FLAG_LANDED, rank, p), 1);
    }
    if (req->in_place && !gathers(req)) {
        dma_build_wait(b, flags, dma_flag_pair(DMA_FLAG_PAIR_PRODUCED, rank, p), 1);
    }
    dma_build_wait(b, flags, dma_flag_pair(DMA_FLAG_PAIR_PRODUCED, p, rank), 1);
    dma_build_copy(b, flags, dma_at(DMA_BASE_RECV, rank, p), dma_at(DMA_BASE_PAIR, p, rank), tail);
    dma_build_signal(b, flags, dma_flag_pair(DMA_FLAG_PAIR_CONSUMED, rank, p), 1);
    dma_build_loop_end(b);
    if (!gathers(req)) {
        dma_build_loop_only(b); /* the heads have waited for the entry */
    }
}

static uint64_t fallback_max_bytes(const dma_plan_req_t *req)
{
    uint64_t buffer = req->geom.pair_bytes / req->geom.pair_depth;

    return buffer < FALLBACK_MAX ? buffer : FALLBACK_MAX;
}

static dma_status_t build(const dma_plan_req_t *req, int rank, bool direct, dma_plan_t **plan)
{
    uint32_t peers = (uint32_t)req->nranks - 1, headers = header_bytes(req) ? 1 : 0;
    uint32_t heads = (gathers(req) ? 0 : peers * (3 + 2 * headers)) + 1 + (req->in_place ? 0 : 1);
    uint32_t tails = peers * (3 + 4 + (req->in_place && !gathers(req) ? 1 : 0) + (direct ? 3 + headers : 0));
    dma_build_t b;
    dma_status_t status;

    status = dma_build_begin(&b, req, rank, 1 + 2 * peers, heads + tails);
    if (status != DMA_OK) {
        return status;
    }
    b.plan->streams = true;
    b.plan->head = head_max_bytes(req);
    b.plan->fallback_max_bytes = direct ? fallback_max_bytes(req) : 0;
    build_heads(&b, req, rank);
    for (int k = 1; k < req->nranks; k++) {
        int p = dma_peer_rotated(rank, k, req->nranks);

        build_producer(&b, req, rank, p, direct);
        build_consumer(&b, req, rank, p, direct);
    }
    return dma_build_end(&b, plan);
}

static dma_status_t pair_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, false, plan);
}

static dma_status_t reach_build(const dma_plan_req_t *req, int rank, dma_plan_t **plan)
{
    return build(req, rank, true, plan);
}

static const char *pair_unfit(const dma_plan_req_t *req)
{
    if (!req->geom.pair_depth || (!gathers(req) && cell_bytes(req) < MIN_CELL) ||
        req->geom.pair_bytes < (uint64_t)MIN_CHUNK * req->geom.pair_depth) {
        return "there is no room for pair buffers";
    }
    return NULL;
}

static const char *reach_unfit(const dma_plan_req_t *req)
{
    if (req->in_place && !gathers(req)) {
        return "in place, what a peer reads would be overwritten";
    }
    return req->cross_memory ? pair_unfit(req) : "not every pair of ranks can read each other's memory";
}

static uint64_t ring_cost(const dma_profile_t *p, const dma_plan_req_t *req, uint64_t chunk)
{
    uint64_t peers = (uint64_t)req->nranks - 1, share = req->ranks_per_core_x16;
    uint64_t trips = (req->bytes + chunk - 1) / chunk, window = chunk * req->geom.pair_depth;
    uint64_t fill_mbps = dma_profile_fill(p, window * peers);
    bool cached = req->bytes * 2 * (peers + 1) <= p->cache_bytes;
    dma_wide_t own = dma_profile_ps(req->bytes, cached ? p->copy_mbps : 2 * p->memory_mbps);
    dma_wide_t in = dma_profile_ps(req->bytes, cached ? fill_mbps : dma_profile_min(fill_mbps, 2 * p->memory_mbps));
    dma_wide_t out = dma_profile_ps(req->bytes, cached ? p->pull_mbps : dma_profile_min(p->pull_mbps, p->memory_mbps));
    dma_wide_t fill = dma_profile_ps(chunk < req->bytes ? chunk : req->bytes, fill_mbps);
    dma_wide_t work = p->enter_ps + 2 * peers * p->peer_ps + own + peers * in + peers * out +
                      (dma_wide_t)trips * peers * p->step_ps + fill;

    return dma_profile_shared(p, work, share, 1 + req->bytes / window);
}

static uint64_t pair_cost(const dma_profile_t *profile, const dma_plan_req_t *req, dma_choice_t *choice)
{
    uint32_t most = req->geom.pair_bytes / req->geom.pair_depth;

    return dma_profile_best_chunk(ring_cost, profile, req, most < 4096 ? most : 4096, most, &choice->chunk);
}

/* What it takes to read a block of a peer's memory. */
static dma_wide_t cross_ps(const dma_profile_t *p, uint64_t bytes, bool cached)
{
    uint64_t calls = (bytes + CROSS_CHUNK - 1) / CROSS_CHUNK;

    return (dma_wide_t)calls * p->cross_ps + (dma_wide_t)((bytes + 4095) / 4096) * p->cross_page_ps +
           dma_profile_ps(bytes, cached ? p->cross_mbps : dma_profile_min(p->cross_mbps, p->memory_mbps));
}

/* Short blocks go through slots, others that are not worth a system call through one buffer of the ring. */
static uint64_t reach_cost(const dma_profile_t *p, const dma_plan_req_t *req, dma_choice_t *choice)
{
    uint64_t peers = (uint64_t)req->nranks - 1, meetings = req->bytes <= head_max_bytes(req) ? 1 : 2;
    bool cached = req->bytes * (peers + 2) <= p->cache_bytes;
    dma_wide_t own = dma_profile_ps(req->bytes, cached ? p->copy_mbps : p->memory_mbps), block;

    choice->chunk = CROSS_CHUNK;
    if (meetings == 1) {
        block = dma_profile_ps(req->bytes, dma_profile_slot_fill(p, req->geom.ring_depth * peers * req->bytes)) +
                dma_profile_ps(req->bytes, p->pull_mbps);
    } else if (req->bytes <= fallback_max_bytes(req)) {
        return ring_cost(p, req, req->geom.pair_bytes / req->geom.pair_depth);
    } else {
        block = cross_ps(p, req->bytes, cached);
    }
    return dma_profile_shared(p, meetings * p->enter_ps + 2 * peers * p->peer_ps + own + peers * block,
                              req->ranks_per_core_x16, meetings);
}

const dma_variant_t dma_variant_host_pair = {
    .name = "host_pair",
    .help = "two copies, pipelined through a ring of chunks for every pair of ranks",
    .colls = 1u << DMA_ALLTOALL | 1u << DMA_ALLTOALLV,
    .unfit = pair_unfit,
    .build = pair_build,
    .cost = pair_cost,
};

const dma_variant_t dma_variant_host_reach = {
    .name = "host_reach",
    .help = "one copy of large blocks, straight out of the peers' memory; of small ones as host_pair",
    .colls = 1u << DMA_ALLGATHER | 1u << DMA_ALLGATHERV | 1u << DMA_ALLTOALL | 1u << DMA_ALLTOALLV,
    .unfit = reach_unfit,
    .build = reach_build,
    .cost = reach_cost,
};
