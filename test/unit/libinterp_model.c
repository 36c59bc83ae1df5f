/* Memory, flags and clocks of the plan interpreter: see libinterp.h. */
#include "libinterp_model.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint32_t world_random(world_t *w, uint32_t below)
{
    w->rng += 0x9e3779b97f4a7c15ull;
    return below ? (uint32_t)((mix64(w->rng) >> 32) * below >> 32) : 0;
}

bool world_fail(world_t *w, interp_error_t error, const char *fmt, ...)
{
    char *text = w->report->text;
    size_t size = sizeof(w->report->text), at;
    va_list args;

    if (w->report->error) {
        return false; /* the first error counts */
    }
    w->report->error = error;
    at = (size_t)snprintf(text, size, "%s: ", interp_error_name(error));
    va_start(args, fmt);
    vsnprintf(text + at, size - at, fmt, args);
    va_end(args);
    at = strlen(text);
    snprintf(text + at, size - at, " [%d ranks, seed %llu]", w->n, (unsigned long long)w->job->seed);
    return false;
}

part_t *world_part(const world_t *w, int call, int rank)
{
    return &w->parts[(size_t)call * (size_t)w->n + (size_t)rank];
}

flag_t *world_flag(const world_t *w, int call, dma_flag_t kind, int rank, int peer)
{
    bool pair = kind != DMA_FLAG_ENTRY && kind != DMA_FLAG_PRODUCED;
    size_t n = (size_t)w->n;

    if (kind != DMA_FLAG_ENTRY && kind != DMA_FLAG_LANDED && kind != DMA_FLAG_QUEUE) {
        call = 0;
    }
    return &w->flags[(((size_t)call * DMA_FLAG_COUNT + kind) * n + (size_t)rank) * n + (pair ? (size_t)peer : 0)];
}

uint32_t *world_clock(const world_t *w)
{
    return calloc(w->ncomp, sizeof(uint32_t));
}

void world_join(const world_t *w, uint32_t *clock, const uint32_t *other)
{
    for (uint32_t i = 0; i < w->ncomp; i++) {
        clock[i] = clock[i] < other[i] ? other[i] : clock[i];
    }
}

/* Calls that cannot run at once on one rank share their clock components. */
uint32_t world_comp(const world_t *w, int call, int rank, int prog)
{
    uint32_t ring = w->job->geom.ring_depth;

    return (((uint32_t)call % ring) * (uint32_t)w->n + (uint32_t)rank) * w->qmax + (uint32_t)prog;
}

uint32_t world_comp_user(const world_t *w, int rank)
{
    return w->ncomp - (uint32_t)w->n + (uint32_t)rank;
}

bool plan_gathers(const dma_plan_t *plan)
{
    return dma_coll_gathers(plan->coll);
}

int world_send_blocks(const world_t *w, int call, int rank)
{
    return plan_gathers(world_part(w, call, rank)->plan) ? 1 : w->n;
}

uint64_t world_send_bytes(const world_t *w, int call, int rank, int block)
{
    return w->job->calls[call].bytes[rank * w->n + block];
}

uint64_t world_recv_bytes(const world_t *w, int call, int rank, int block)
{
    const interp_call_t *c = &w->job->calls[call];
    const dma_plan_t *plan = world_part(w, call, rank)->plan;

    if (plan->in_place && (!plan_gathers(plan) || block == rank)) {
        return c->bytes[rank * w->n + block]; /* one buffer */
    }
    return c->takes ? c->takes[rank * w->n + block] : c->bytes[block * w->n + rank];
}

uint64_t world_length(const world_t *w, int call, int rank, const dma_len_t *len)
{
    uint64_t head = world_part(w, call, rank)->plan->head, bytes;

    switch (len->kind) {
    case DMA_LEN_SEND:
        bytes = world_send_bytes(w, call, rank, (int)len->len);
        break;
    case DMA_LEN_RECV:
        bytes = world_recv_bytes(w, call, rank, (int)len->len);
        break;
    default:
        return len->len;
    }
    switch (len->part) {
    case DMA_HEAD:
        return bytes <= head ? bytes : 0;
    case DMA_TAIL:
        return bytes <= head ? 0 : bytes;
    case DMA_LOWER:
        return dma_lower_half(bytes);
    case DMA_UPPER:
        return bytes - dma_lower_half(bytes);
    default:
        return bytes;
    }
}

uint64_t world_skip(const world_t *w, int call, int rank, const dma_len_t *len)
{
    dma_len_t lower = {.kind = len->kind, .part = DMA_LOWER, .len = len->len};

    if (len->part == DMA_UPPER) {
        return world_length(w, call, rank, &lower);
    }
    return 0;
}

uint64_t world_chunk(const world_t *w, int call, bool staged)
{
    const dma_geom_t *g = &w->job->geom;

    return staged ? g->pair_bytes / g->pair_depth : w->job->calls[call].chunk;
}

bool world_refuses(const world_t *w, int call, int reader, int owner)
{
    uint64_t key = w->job->seed ^ (uint64_t)call << 52 ^ (uint64_t)reader << 44 ^ (uint64_t)owner << 36;

    return w->job->seed % 2 && mix64(key) % 3 == 0;
}

bool world_only_staged(const world_t *w, int call, int rank, const dma_prog_t *prog)
{
    return prog->loop_first < prog->nops &&
           world_length(w, call, rank, &prog->loop_len) <= world_part(w, call, rank)->plan->fallback_max_bytes;
}

bool world_goes_staged(const world_t *w, int call, int rank, const dma_prog_t *prog)
{
    if (world_only_staged(w, call, rank, prog)) {
        return true;
    }
    for (uint32_t i = prog->loop_first; i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];

        if (op->flags & DMA_OP_DIRECT && op->flag.kind == DMA_FLAG_LANDED) {
            return world_refuses(w, call, op->flag.rank, op->flag.peer);
        }
    }
    return false;
}

uint64_t world_trips(const world_t *w, int call, int rank, const dma_prog_t *prog, bool staged)
{
    uint64_t chunk = world_chunk(w, call, staged);

    if (prog->loop_first >= prog->nops || !chunk) {
        return 0;
    }
    return (world_length(w, call, rank, &prog->loop_len) + chunk - 1) / chunk;
}

int64_t world_flag_base(const world_t *w, int call, const dma_flag_ref_t *flag, int rank)
{
    switch (flag->kind) {
    case DMA_FLAG_PRODUCED:
        return world_part(w, call, rank)->base;
    case DMA_FLAG_CONSUMED:
        return world_part(w, call, flag->peer)->base;
    case DMA_FLAG_PAIR_PRODUCED:
        return world_part(w, call, rank)->pairs[flag->peer];
    case DMA_FLAG_PAIR_CONSUMED:
        return world_part(w, call, flag->peer)->pairs[rank];
    default:
        return 0;
    }
}

bool world_is_stream(unsigned base)
{
    return base == DMA_BASE_CHUNK || base == DMA_BASE_PAIR;
}

int64_t world_stream_base(const world_t *w, int call, const dma_operand_t *o)
{
    const part_t *owner = world_part(w, call, o->rank);

    return o->base == DMA_BASE_PAIR ? owner->pairs[o->block] : owner->base;
}

/* Chunks that a rank puts into its stream (PRODUCED), or into its stream for `peer` (PAIR_PRODUCED), in a call. */
static int64_t chunks_produced(const world_t *w, int call, int rank, dma_flag_t kind, int peer)
{
    const dma_plan_t *plan = world_part(w, call, rank)->plan;
    int64_t most = 0;

    for (uint32_t p = 0; p < plan->nprogs; p++) {
        const dma_prog_t *prog = &plan->progs[p];
        for (uint32_t i = 0; i < prog->nops; i++) {
            const dma_op_t *op = &prog->ops[i];
            bool loop = i >= prog->loop_first && i <= prog->loop_last, staged = op->flags & DMA_OP_FALLBACK;
            int64_t trips = (int64_t)world_trips(w, call, rank, prog, staged);
            if (staged && !world_goes_staged(w, call, rank, prog)) {
                continue;
            }
            if (op->code == DMA_OP_SIGNAL && op->flag.kind == kind &&
                (kind == DMA_FLAG_PRODUCED || op->flag.peer == peer) && (!loop || trips)) {
                int64_t value = op->value + (op->flags & DMA_OP_CHUNKED ? trips - 1 : 0);
                most = value > most ? value : most;
            }
        }
    }
    return most;
}

region_t *world_region(const world_t *w, int call, int base, int rank, int64_t block)
{
    const dma_geom_t *g = &w->job->geom;
    const part_t *part;
    size_t ring;

    if (rank < 0 || rank >= w->n || block < 0) {
        return NULL;
    }
    part = world_part(w, call, rank);
    ring = (size_t)rank * g->ring_depth + (size_t)call % g->ring_depth;
    switch (base) {
    case DMA_BASE_SEND:
        if (block >= world_send_blocks(w, call, rank)) {
            return NULL;
        }
        if (!part->send) {
            return &part->recv[plan_gathers(part->plan) ? rank : block];
        }
        return &part->send[block];
    case DMA_BASE_RECV:
        return block < w->n ? &part->recv[block] : NULL;
    case DMA_BASE_LINE:
        return block == 0 ? &w->line[ring] : NULL;
    case DMA_BASE_SLOT:
        return block == 0 ? &w->slot[ring] : NULL;
    case DMA_BASE_CHUNK:
        return block < g->chunk_depth ? &w->chunk[(size_t)rank * g->chunk_depth + (size_t)block] : NULL;
    case DMA_BASE_PAIR:
        return &w->pair[(size_t)rank * (size_t)w->n * g->pair_depth + (size_t)block];
    case DMA_BASE_BYTES:
        return block < world_send_blocks(w, call, rank) ? &part->words[block] : NULL;
    default:
        return NULL;
    }
}

region_t *world_block_at(const world_t *w, int call, int rank, uint64_t address)
{
    for (int b = 0; b < world_send_blocks(w, call, rank); b++) {
        region_t *r = world_region(w, call, DMA_BASE_SEND, rank, b);

        if ((uintptr_t)r->data == address) {
            return r;
        }
    }
    return NULL;
}

void region_name(const region_t *r, char *text, size_t size)
{
    snprintf(text, size, "%s[rank %d, block %d]", interp_base_name(r->base), r->rank, r->block);
}

static void region_open(region_t *r, dma_base_t base, int call, int rank, int block, uint64_t bytes)
{
    *r = (region_t){.bytes = bytes, .base = base, .call = call, .rank = rank, .block = block, .holds = -1};
    r->data = malloc(bytes + 2 * GUARD);
    memset(r->data, CANARY, bytes + 2 * GUARD);
    r->data += GUARD;
    memset(r->data, 0x5a ^ rank ^ block, bytes);
}

static void region_close(region_t *r)
{
    if (r->data) {
        free(r->data - GUARD);
    }
    free(r->acc);
}

static void regions_close(region_t *r, size_t n)
{
    for (size_t i = 0; r && i < n; i++) {
        region_close(&r[i]);
    }
    free(r);
}

static void part_open(world_t *w, int call, int rank)
{
    part_t *part = world_part(w, call, rank);
    int n = w->n;
    bool gather;

    part->clock = world_clock(w);
    part->recv = calloc((size_t)n, sizeof(region_t));
    for (int b = 0; b < n; b++) {
        region_open(&part->recv[b], DMA_BASE_RECV, call, rank, b, world_recv_bytes(w, call, rank, b));
    }
    gather = plan_gathers(part->plan);
    if (!part->plan->in_place) {
        part->send = calloc((size_t)n, sizeof(region_t));
        for (int b = 0; b < world_send_blocks(w, call, rank); b++) {
            region_open(&part->send[b], DMA_BASE_SEND, call, rank, b, world_send_bytes(w, call, rank, b));
        }
    }
    part->words = calloc((size_t)n, sizeof(region_t));
    for (int b = 0; b < world_send_blocks(w, call, rank); b++) {
        region_t *r = world_region(w, call, DMA_BASE_SEND, rank, b);
        uint64_t words[] = {world_send_bytes(w, call, rank, b), (uintptr_t)r->data};
        region_open(&part->words[b], DMA_BASE_BYTES, call, rank, b, sizeof(words));
        memcpy(part->words[b].data, words, sizeof(words));
        for (uint64_t i = 0; i < r->bytes; i++) {
            r->data[i] = user_byte(w, call, rank, gather ? 0 : b, i);
        }
    }
}

/* The positions of the streams of all ranks at the begin of each call. */
static void world_place_streams(world_t *w)
{
    for (int c = 0; c < w->job->ncalls; c++) {
        for (int r = 0; r < w->n; r++) {
            part_t *now = world_part(w, c, r), *before = c ? world_part(w, c - 1, r) : NULL;
            now->pairs = calloc((size_t)w->n, sizeof(int64_t));
            if (before) {
                now->base = before->base + chunks_produced(w, c - 1, r, DMA_FLAG_PRODUCED, 0);
            }
            for (int p = 0; before && p < w->n; p++) {
                now->pairs[p] = before->pairs[p] + chunks_produced(w, c - 1, r, DMA_FLAG_PAIR_PRODUCED, p);
            }
        }
    }
}

bool world_open(world_t *w, const interp_job_t *job, interp_report_t *report)
{
    const dma_geom_t *g = &job->geom;
    size_t n = (size_t)job->nranks, calls = (size_t)job->ncalls;
    char text[256];

    *w = (world_t){.job = job, .report = report, .n = job->nranks, .rng = mix64(job->seed), .qmax = 1};
    memset(report, 0, sizeof(*report));
    for (size_t i = 0; i < calls * n; i++) {
        const dma_plan_t *plan = job->calls[i / n].plans[i % n];
        if (!interp_check_plan(plan, g, text, sizeof(text))) {
            return world_fail(w, INTERP_PLAN, "call %zu rank %zu: %s", i / n, i % n, text);
        }
        const dma_plan_t *other = job->calls[i / n].plans[0];
        if (plan->nranks != job->nranks || plan->rank != (int)(i % n)) {
            return world_fail(w, INTERP_PLAN, "call %zu: the plan of rank %zu says rank %d of %d", i / n, i % n,
                              plan->rank, plan->nranks);
        }
        if (plan->coll != other->coll || (!plan_gathers(plan) && plan->in_place != other->in_place)) {
            return world_fail(w, INTERP_PLAN, "call %zu: rank %zu does another operation than rank 0", i / n, i % n);
        }
        w->qmax = plan->nprogs > w->qmax ? plan->nprogs : w->qmax;
    }
    w->ncomp = g->ring_depth * (uint32_t)n * w->qmax + (uint32_t)n;
    w->ticks = calloc(w->ncomp, sizeof(uint32_t));
    w->flags = calloc(calls * DMA_FLAG_COUNT * n * n, sizeof(flag_t));
    w->parts = calloc(calls * n, sizeof(part_t));
    w->line = calloc(n * g->ring_depth, sizeof(region_t));
    w->slot = calloc(n * g->ring_depth, sizeof(region_t));
    w->chunk = calloc(n * g->chunk_depth, sizeof(region_t));
    w->pair = calloc(n * n * g->pair_depth, sizeof(region_t));
    for (size_t i = 0; i < n * g->ring_depth; i++) {
        region_open(&w->line[i], DMA_BASE_LINE, -1, (int)(i / g->ring_depth), (int)(i % g->ring_depth), DMA_LINE_BYTES);
        region_open(&w->slot[i], DMA_BASE_SLOT, -1, (int)(i / g->ring_depth), (int)(i % g->ring_depth), g->slot_bytes);
    }
    for (size_t i = 0; i < n * g->chunk_depth; i++) {
        region_open(&w->chunk[i], DMA_BASE_CHUNK, -1, (int)(i / g->chunk_depth), (int)(i % g->chunk_depth),
                    g->chunk_bytes);
    }
    for (size_t i = 0; i < n * n * g->pair_depth; i++) {
        region_open(&w->pair[i], DMA_BASE_PAIR, -1, (int)(i / g->pair_depth / n), (int)(i / g->pair_depth % n),
                    g->pair_bytes / g->pair_depth);
    }
    for (size_t i = 0; i < calls * n; i++) {
        w->parts[i].plan = job->calls[i / n].plans[i % n];
    }
    for (size_t i = 0; i < calls * n; i++) {
        part_open(w, (int)(i / n), (int)(i % n));
    }
    world_place_streams(w);
    return true;
}

void world_close(world_t *w)
{
    size_t n = (size_t)w->n, calls = (size_t)w->job->ncalls;

    for (size_t i = 0; w->flags && i < calls * DMA_FLAG_COUNT * n * n; i++) {
        for (uint32_t k = 0; k < w->flags[i].n; k++) {
            free(w->flags[i].beats[k].clock);
        }
        free(w->flags[i].beats);
    }
    for (size_t i = 0; w->parts && i < calls * n; i++) {
        regions_close(w->parts[i].send, n);
        regions_close(w->parts[i].recv, n);
        regions_close(w->parts[i].words, n);
        free(w->parts[i].pairs);
        free(w->parts[i].clock);
    }
    regions_close(w->line, n * w->job->geom.ring_depth);
    regions_close(w->slot, n * w->job->geom.ring_depth);
    regions_close(w->chunk, n * w->job->geom.chunk_depth);
    regions_close(w->pair, n * n * w->job->geom.pair_depth);
    free(w->flags);
    free(w->parts);
    free(w->ticks);
}

static void actor_name(int call, int rank, int prog, uint32_t pc, uint64_t trip, char *text, size_t size)
{
    if (prog < 0) {
        snprintf(text, size, "the user of rank %d after call %d", rank, call);
    } else {
        snprintf(text, size, "call %d rank %d queue %d op %u trip %llu", call, rank, prog, pc,
                 (unsigned long long)trip);
    }
}

static bool report_race(world_t *w, const region_t *r, const access_t *a, const actor_t *who, bool write)
{
    char first[96], second[96], where[64];
    interp_error_t error = INTERP_RACE;

    if (world_is_stream(r->base)) {
        error = INTERP_CHUNK;
    }
    if (a->prog < 0 || who->prog < 0) {
        error = INTERP_USER;
    }
    actor_name(a->call, a->rank, a->prog, a->pc, a->trip, first, sizeof(first));
    actor_name(who->call, who->rank, who->prog, who->pc, who->trip, second, sizeof(second));
    region_name(r, where, sizeof(where));
    return world_fail(w, error, "%s: %s by %s, then %s by %s: nothing orders them", where,
                      a->write ? "written" : "read", first, write ? "written" : "read", second);
}

bool region_access(world_t *w, region_t *r, uint64_t lo, uint64_t n, bool write, const actor_t *who)
{
    uint64_t hi = lo + n;
    uint32_t keep = 0;

    if (n == 0 || (w->job->flags & INTERP_NO_CLOCKS)) {
        return true;
    }
    for (uint32_t i = 0; i < r->nacc; i++) {
        access_t *a = &r->acc[i];
        bool ordered = who->clock[a->comp] > a->tick;
        if (!ordered && (write || a->write) && lo < a->hi && a->lo < hi) {
            return report_race(w, r, a, who, write);
        }
        /* What is ordered after this access is also ordered after the accesses that it covers. */
        if (!(ordered && a->lo >= lo && a->hi <= hi && (write || !a->write))) {
            r->acc[keep++] = *a;
        }
    }
    r->nacc = keep;
    if (r->nacc == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 8;
        r->acc = realloc(r->acc, r->cap * sizeof(access_t));
    }
    r->acc[r->nacc++] = (access_t){.lo = lo,
                                   .hi = hi,
                                   .comp = who->comp,
                                   .tick = w->ticks[who->comp],
                                   .write = write,
                                   .call = who->call,
                                   .rank = who->rank,
                                   .prog = who->prog,
                                   .pc = who->pc,
                                   .trip = who->trip};
    return true;
}
