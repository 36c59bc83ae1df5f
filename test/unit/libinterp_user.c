/* Users of the plan interpreter: what they send, what they expect, and what they do after a call. See libinterp.h. */
#include "libinterp_model.h"

uint8_t user_byte(const world_t *w, int call, int src, int dst, uint64_t at)
{
    uint64_t key = ((uint64_t)call << 40) ^ ((uint64_t)src << 20) ^ (uint64_t)dst ^ (w->job->seed << 52);

    return (uint8_t)(mix64(key ^ mix64(at >> 3)) >> (at % 8 * 8));
}

static bool guards_live(world_t *w, const region_t *r)
{
    char where[64];

    for (int i = 0; i < GUARD; i++) {
        if (r->data[-1 - i] != CANARY || r->data[r->bytes + (uint64_t)i] != CANARY) {
            region_name(r, where, sizeof(where));
            return world_fail(w, INTERP_CANARY, "bytes beside %s have changed", where);
        }
    }
    return true;
}

static uint8_t scribble(const region_t *r, uint64_t at)
{
    return (uint8_t)(0xa7 + 31 * (uint64_t)r->rank + 7 * (uint64_t)r->block + 3 * at);
}

static bool user_block(world_t *w, region_t *r, const actor_t *user, int src, int dst)
{
    char where[64];

    if (!region_access(w, r, 0, r->bytes, true, user) || !guards_live(w, r)) {
        return false;
    }
    for (uint64_t i = 0; i < r->bytes; i++) {
        if (r->data[i] != user_byte(w, r->call, src, dst, i)) {
            region_name(r, where, sizeof(where));
            return world_fail(w, INTERP_DATA, "call %d: %s is wrong at byte %llu of %llu", r->call, where,
                              (unsigned long long)i, (unsigned long long)r->bytes);
        }
        r->data[i] = scribble(r, i);
    }
    return true;
}

bool world_user_done(world_t *w, int call, int rank)
{
    part_t *part = world_part(w, call, rank);
    bool gather = plan_gathers(part->plan);
    actor_t user = {.call = call, .rank = rank, .prog = -1, .comp = world_comp_user(w, rank), .clock = part->clock};

    if (world_flag(w, call, DMA_FLAG_ENTRY, rank, 0)->n == 0) {
        return world_fail(w, INTERP_PLAN, "call %d: rank %d completes without SIGNAL(ENTRY)", call, rank);
    }
    for (int b = 0; b < w->n; b++) {
        if (!user_block(w, &part->recv[b], &user, b, gather ? 0 : rank)) {
            return false;
        }
    }
    for (int b = 0; part->send && b < world_send_blocks(w, call, rank); b++) {
        if (!user_block(w, &part->send[b], &user, rank, gather ? 0 : b)) {
            return false;
        }
    }
    /* What is ordered after this completion may access what the user has accessed. */
    part->clock[user.comp] = ++w->ticks[user.comp];
    return true;
}

static bool block_kept(world_t *w, const region_t *r)
{
    char where[64];

    if (!guards_live(w, r)) {
        return false;
    }
    for (uint64_t i = 0; r->call >= 0 && i < r->bytes; i++) {
        if (r->data[i] != scribble(r, i)) {
            region_name(r, where, sizeof(where));
            return world_fail(w, INTERP_DATA, "call %d: %s was written after its owner had completed", r->call, where);
        }
    }
    return true;
}

/* Chunks of the stream of `owner` (PRODUCED), or of its stream for `rank`, that `rank` knows of after its call: the
 * core counts the trips of the chunked waits for them. */
static int64_t chunks_counted(const world_t *w, int call, int rank, dma_flag_t kind, int owner)
{
    const dma_plan_t *plan = world_part(w, call, rank)->plan;
    int64_t sum = 0;

    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];
        for (uint32_t i = 0; i < prog->nops; i++) {
            const dma_op_t *op = &prog->ops[i];
            bool staged = op->flags & DMA_OP_FALLBACK;
            if (op->code == DMA_OP_WAIT && (op->flags & DMA_OP_CHUNKED) && op->flag.kind == kind &&
                op->flag.rank == owner && (!staged || world_goes_staged(w, call, rank, prog))) {
                sum += (int64_t)world_trips(w, call, rank, prog, staged);
            }
        }
    }
    return sum;
}

/* All ranks that use a stream must agree on its position after a call. */
static bool streams_agree(world_t *w, int call)
{
    for (int i = 0; i < w->n * w->n; i++) {
        int owner = i / w->n, rank = i % w->n;
        const part_t *now = world_part(w, call, owner), *next = world_part(w, call + 1, owner);
        int64_t all = next->base - now->base, pair = next->pairs[rank] - now->pairs[rank];
        int64_t all_seen = chunks_counted(w, call, rank, DMA_FLAG_PRODUCED, owner);
        int64_t pair_seen = chunks_counted(w, call, rank, DMA_FLAG_PAIR_PRODUCED, owner);

        if (owner != rank && (all != all_seen || pair != pair_seen)) {
            return world_fail(
                w, INTERP_PLAN,
                "call %d: rank %d produces %lld chunks for all and %lld for rank %d, which counts %lld and %lld", call,
                owner, (long long)all, (long long)pair, rank, (long long)all_seen, (long long)pair_seen);
        }
    }
    return true;
}

bool world_final_check(world_t *w)
{
    size_t n = (size_t)w->n, all = (size_t)w->job->ncalls * n;
    bool ok = true;

    for (int c = 0; ok && c + 1 < w->job->ncalls; c++) {
        ok = streams_agree(w, c);
    }

    for (size_t i = 0; ok && i < all; i++) {
        part_t *part = &w->parts[i];
        for (int b = 0; ok && b < w->n; b++) {
            ok = block_kept(w, &part->recv[b]);
        }
        for (int b = 0; ok && part->send && b < world_send_blocks(w, (int)(i / n), (int)(i % n)); b++) {
            ok = block_kept(w, &part->send[b]);
        }
    }
    for (size_t i = 0; ok && i < n * w->job->geom.ring_depth; i++) {
        ok = guards_live(w, &w->line[i]) && guards_live(w, &w->slot[i]);
    }
    for (size_t i = 0; ok && i < n * w->job->geom.chunk_depth; i++) {
        ok = guards_live(w, &w->chunk[i]);
    }
    for (size_t i = 0; ok && i < n * n * w->job->geom.pair_depth; i++) {
        ok = guards_live(w, &w->pair[i]);
    }
    return ok;
}
