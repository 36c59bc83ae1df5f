/*
 * host_pair: all-to-alls with two copies, pipelined through the pair buffers of every ordered pair of ranks.
 * host_reach: all operations, with one cross-memory copy out of the peer's memory for each large block.
 *
 * All-to-all-v determines the design. A rank knows what it sends to and receives from each peer, and nothing about
 * the other ranks, so a plan must not depend on a size that only some ranks know. Therefore one plan serves all
 * sizes. The slot of a rank is divided into one cell per peer. The cell contains the number of bytes of the block,
 * which the receiver compares with its own number, and the block itself if it is short (a head). A longer block (a
 * tail) goes through the pair buffers in as many trips as it needs. Both ranks of a pair know whether a block is a
 * head: it must fit into the cell, and be at most as long as is cheaper there (dma_profile_head).
 *
 *     cell in the slot:   bytes of the block (8) | its address (8), for host_reach | head
 *
 *     program 0           number and head of every block -> cells; signal ENTRY; own block;
 *                         per peer: wait ENTRY, check its number, copy its head
 *     producer for p      per chunk of the tail for p:   wait PAIR_CONSUMED(p, r); copy; signal PAIR_PRODUCED(r, p)
 *     consumer of p       wait ENTRY of p; per chunk:    wait PAIR_PRODUCED(p, r); copy; signal PAIR_CONSUMED(r, p)
 *
 * In place, block p contains what goes to p, and receives what comes from p, which has the same size. A chunk of it
 * is overwritten only after our own copy of this chunk has been produced: the consumer waits for our own flag. Heads
 * are overwritten only after our own entry.
 *
 * Producer and consumer of a pair without a tail have nothing to do, and program 0 waits for all entries. So an
 * all-to-all of heads runs program 0 only. In an all-gather no other program waits for the peer's entry, so the
 * consumer always does.
 *
 * In an all-to-all of equal blocks the descriptors contain the number and the address, and cells contain heads only.
 * An all-gather has no heads, because its one block is for all ranks.
 *
 * host_reach differs for tails:
 *
 *     producer for p      per chunk of the tail for p:   in the last trip: wait LANDED(p, r)
 *     consumer of p       wait ENTRY of p; per chunk:    check the number, copy out of p's memory;
 *                                                        in the last trip: signal LANDED(r, p)
 *
 * Each pair of ranks synchronizes separately: a rank leaves the call when its own blocks have been read, whatever
 * their readers still have to do. A tail that fits into one pair buffer and has at most FALLBACK_MAX bytes uses the
 * fallback path through that buffer, because a system call and a second synchronization take longer. A rank reads
 * from its peers and does not write to them, so that a late peer can damage only its own buffer.
 *
 * ENTRY (release, acquire) makes the number, the address, the head and the peer's send buffer visible to the reader.
 * LANDED tells the peer that its send buffer has been read; it does not complete before. The cell needs neither,
 * because the ring's acknowledgements keep it valid. Both ranks of a pair know whether there is a tail. Without one
 * they do the same as in host_pair, without a second synchronization. A rank that is refused a peer's memory reports
 * it with LANDED, and then that tail alone takes the fallback path through the pair buffers, because other ranks may
 * have left the call. This is why both variants are in one file.
 */
#include "plan/build.h"
#include "plan/profile.h"

#define PAGE           4096
#define CELL_ALIGN     16
#define MIN_CELL       16      /* bytes: number and address */
#define MIN_CHUNK      256     /* bytes of a pair buffer, at least */
#define SMALLEST_TRIED 4096    /* bytes: for smaller chunks the flags take longer than the copy */
#define FALLBACK_MAX   8192    /* bytes: between core complexes, two copies take as long as a cross-memory copy */
#define CROSS_CHUNK    1048576 /* bytes per system call: the caller's progress engine runs between two */

/* Bytes of one peer's cell in a slot, including the header: a multiple of 16, which copies prefer. */
static uint64_t cell_bytes(const dma_plan_req_t *req)
{
    return req->geom.slot_bytes / (req->nranks < 2 ? 1 : (uint64_t)req->nranks - 1) / CELL_ALIGN * CELL_ALIGN;
}

static bool gathers(const dma_plan_req_t *req)
{
    return dma_coll_gathers(req->coll);
}

/* The number of the block for `reader` in a send buffer. */
static int send_block(const dma_plan_req_t *req, int reader)
{
    return gathers(req) ? 0 : reader;
}

/* Bytes before the head in a cell: number and address. */
static uint64_t header_bytes(const dma_plan_req_t *req)
{
    return dma_coll_sizes(req->coll) == DMA_SIZES_OWN ? 2 * sizeof(uint64_t) : 0;
}

static dma_operand_t cell(const dma_plan_req_t *req, int owner, int reader, uint64_t offset)
{
    dma_operand_t o = dma_at(DMA_BASE_SLOT, owner, 0);

    o.offset = (uint64_t)((reader - owner - 1 + req->nranks) % req->nranks) * cell_bytes(req) + offset;
    return o;
}

/* The size of the longest block that is a head. */
static uint64_t head_max_bytes(const dma_plan_req_t *req)
{
    uint64_t room = cell_bytes(req) - header_bytes(req);

    return gathers(req) ? 0 : req->head && req->head < room ? req->head : room;
}

/* The block for `reader` in the memory of `owner`. If only the owner knows its address, that is the second word of
 * the cell. */
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
        dma_build_loop_only(b); /* program 0 waits for the entry */
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

    return dma_profile_best_chunk(ring_cost, profile, req, most < SMALLEST_TRIED ? most : SMALLEST_TRIED, most,
                                  &choice->chunk);
}

/* The time of a cross-memory copy of a block. */
static dma_wide_t cross_ps(const dma_profile_t *p, uint64_t bytes, bool cached)
{
    uint64_t calls = (bytes + CROSS_CHUNK - 1) / CROSS_CHUNK;

    return (dma_wide_t)calls * p->cross_ps + (dma_wide_t)((bytes + PAGE - 1) / PAGE) * p->cross_page_ps +
           dma_profile_ps(bytes, cached ? p->cross_mbps : dma_profile_min(p->cross_mbps, p->memory_mbps));
}

/* Heads go through slots, short tails through one pair buffer, and long tails need a cross-memory copy. */
static uint64_t reach_cost(const dma_profile_t *p, const dma_plan_req_t *req, dma_choice_t *choice)
{
    uint64_t peers = (uint64_t)req->nranks - 1, syncs = req->bytes <= head_max_bytes(req) ? 1 : 2;
    bool cached = req->bytes * (peers + 2) <= p->cache_bytes;
    dma_wide_t own = dma_profile_ps(req->bytes, cached ? p->copy_mbps : p->memory_mbps), block;

    choice->chunk = CROSS_CHUNK;
    if (syncs == 1) {
        block = dma_profile_ps(req->bytes, dma_profile_slot_fill(p, req->geom.ring_depth * peers * req->bytes)) +
                dma_profile_ps(req->bytes, p->pull_mbps);
    } else if (req->bytes <= fallback_max_bytes(req)) {
        return ring_cost(p, req, req->geom.pair_bytes / req->geom.pair_depth);
    } else {
        block = cross_ps(p, req->bytes, cached);
    }
    return dma_profile_shared(p, syncs * p->enter_ps + 2 * peers * p->peer_ps + own + peers * block,
                              req->ranks_per_core_x16, syncs);
}

const dma_variant_t dma_variant_host_pair = {
    .name = "host_pair",
    .help = "two copies, pipelined through a ring of chunks for every pair of ranks",
    .serves = DMA_SENDS_EACH | DMA_SIZES_ANY,
    .unfit = pair_unfit,
    .build = pair_build,
    .cost = pair_cost,
};

const dma_variant_t dma_variant_host_reach = {
    .name = "host_reach",
    .help = "one copy of large blocks, straight out of the peers' memory; of small ones as host_pair",
    .serves = DMA_SENDS_ANY | DMA_SIZES_ANY,
    .unfit = reach_unfit,
    .build = reach_build,
    .cost = reach_cost,
};
