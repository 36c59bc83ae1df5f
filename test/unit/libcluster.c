/* The interpreter of cluster plans: see libcluster.h. */
#include "libcluster.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD  16
#define CANARY 0x5c

/* ASIDE: the bytes of a relayed receive have arrived. */
typedef enum state { IDLE, UNDER_WAY, ASIDE, MOVED, OVER } state_t;

typedef struct run {
    state_t state;
    /* The bytes of a send that is relayed or has not waited for its receive; of a relayed receive, what arrived. */
    uint8_t *taken;
} run_t;

typedef struct rank {
    const dma_cluster_plan_t *plan;
    uint8_t *memory[3]; /* by base; with guard bytes on both sides */
    uint64_t size[3];
    run_t *runs[DMA_LANES];
    uint32_t started[DMA_LANES], ended[DMA_LANES]; /* ended: all operations below this number have ended */
} rank_t;

typedef struct machine {
    const cluster_job_t *job;
    cluster_report_t *report;
    rank_t *ranks;
    uint64_t rng;
} machine_t;

static uint32_t draw(machine_t *m, uint32_t below)
{
    m->rng = m->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((m->rng >> 33) % below);
}

static bool fail(machine_t *m, cluster_error_t error, const char *format, ...)
{
    va_list args;

    m->report->error = error;
    va_start(args, format);
    vsnprintf(m->report->text, sizeof(m->report->text), format, args);
    va_end(args);
    return false;
}

static uint8_t user_byte(int src, int dst, uint64_t at)
{
    uint64_t x = ((uint64_t)src * 131071u + (uint64_t)dst * 8191u + at) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint8_t)(x >> 56);
}

/* ---- what an operation touches ---- */

typedef struct span {
    uint8_t *from;
    uint64_t bytes;
    bool write;
} span_t;

typedef bool span_fn_t(machine_t *m, int rank, const dma_cluster_op_t *op, span_t span, void *arg);

static uint8_t *at(const rank_t *r, dma_cluster_addr_t place, int64_t more)
{
    return r->memory[place.base] + place.at + more;
}

static bool each_part(machine_t *m, int rank, const dma_cluster_op_t *op, span_fn_t *fn, void *arg)
{
    rank_t *r = &m->ranks[rank];
    const dma_node_map_t *l = r->plan->req.node_map;
    dma_cluster_part_t own = dma_cluster_part(r->plan, op, l->index);
    bool gather = op->code == DMA_CLUSTER_GATHER;

    if (gather && !fn(m, rank, op, (span_t){at(r, op->from, 0), own.get, false}, arg)) {
        return false;
    }
    for (int i = 0; i < dma_node_map_size(l, l->node); i++) {
        dma_cluster_part_t part = dma_cluster_part(r->plan, op, i);
        uint8_t *to = at(r, op->to, part.to);

        if (!gather && !fn(m, rank, op, (span_t){at(r, op->from, part.from), part.give, false}, arg)) {
            return false;
        }
        if ((!gather || to != at(r, op->from, 0)) && !fn(m, rank, op, (span_t){to, part.get, true}, arg)) {
            return false;
        }
    }
    return true;
}

static bool each_span(machine_t *m, int rank, const dma_cluster_op_t *op, span_fn_t *fn, void *arg)
{
    rank_t *r = &m->ranks[rank];

    switch (op->code) {
    case DMA_CLUSTER_SEND:
        return fn(m, rank, op, (span_t){at(r, op->from, 0), op->bytes, false}, arg);
    case DMA_CLUSTER_RECV:
        return fn(m, rank, op, (span_t){at(r, op->to, 0), op->bytes, true}, arg);
    case DMA_CLUSTER_COPY:
        for (uint32_t i = 0; i < op->rows; i++) {
            if (!fn(m, rank, op, (span_t){at(r, op->from, i * op->from_pitch), op->bytes, false}, arg) ||
                !fn(m, rank, op, (span_t){at(r, op->to, i * op->to_pitch), op->bytes, true}, arg)) {
                return false;
            }
        }
        return true;
    default:
        return each_part(m, rank, op, fn, arg);
    }
}

static bool inside(machine_t *m, int rank, const dma_cluster_op_t *op, span_t span, void *arg)
{
    rank_t *r = &m->ranks[rank];

    (void)arg;
    for (int base = 0; base < 3; base++) {
        if (!span.bytes ||
            (span.from >= r->memory[base] && span.from + span.bytes <= r->memory[base] + r->size[base])) {
            return true;
        }
    }
    return fail(m, CLUSTER_BOUNDS, "rank %d: an operation (code %d) leaves its buffer", rank, op->code);
}

static bool apart(machine_t *m, int rank, const dma_cluster_op_t *op, span_t span, void *arg)
{
    const span_t *other = arg;

    if (span.bytes && other->bytes && (span.write || other->write) && span.from < other->from + other->bytes &&
        other->from < span.from + span.bytes) {
        return fail(m, CLUSTER_RACE, "rank %d: operations under way touch the same bytes (code %d)", rank, op->code);
    }
    return true;
}

/* A relayed send that has taken its bytes touches none afterwards. A receive into the same place waits for it. */
static bool settled(const rank_t *r, const dma_cluster_op_t *op, const dma_cluster_op_t *other, int lane, uint32_t i)
{
    const dma_cluster_op_t *send = lane == DMA_LANE_SEND ? other : op, *receive = lane == DMA_LANE_SEND ? op : other;

    if (!r->plan->req.relayed) {
        return false;
    }
    return (lane == DMA_LANE_SEND && r->runs[lane][i].taken) ||
           (send->code == DMA_CLUSTER_SEND && receive->code == DMA_CLUSTER_RECV &&
            receive->after == (uint32_t)(send - r->plan->ops[DMA_LANE_SEND]) + 1);
}

/* Compares with everything that is under way on the rank. */
static bool alone(machine_t *m, int rank, const dma_cluster_op_t *op, span_t span, void *arg)
{
    rank_t *r = &m->ranks[rank];

    for (int lane = 0; lane < DMA_LANES; lane++) {
        for (uint32_t i = r->ended[lane]; i < r->started[lane]; i++) {
            const dma_cluster_op_t *other = &r->plan->ops[lane][i];

            if (other != op && r->runs[lane][i].state != OVER && !settled(r, op, other, lane, i) &&
                !each_span(m, rank, other, apart, &span)) {
                return false;
            }
        }
    }
    (void)arg;
    return true;
}

/* ---- steps: 1 something happened, 0 nothing could happen, -1 an error ---- */

static int start(machine_t *m, int rank, int lane)
{
    rank_t *r = &m->ranks[rank];
    uint32_t i = r->started[lane], busy = 0, window = m->job->narrow ? 1 : r->plan->window[lane];
    const dma_cluster_op_t *op = &r->plan->ops[lane][i];

    if (i == r->plan->nops[lane]) {
        return 0;
    }
    for (uint32_t k = r->ended[lane]; k < i; k++) {
        busy += r->runs[lane][k].state != OVER;
    }
    if (busy >= window) {
        return 0;
    }
    for (int n = 0; n < DMA_LANES; n++) {
        if (op->need[n] > r->ended[n]) {
            return 0;
        }
    }
    if (!each_span(m, rank, op, inside, NULL) || !each_span(m, rank, op, alone, NULL)) {
        return -1;
    }
    r->runs[lane][i].state = UNDER_WAY;
    r->started[lane]++;
    return 1;
}

static void over(rank_t *r, int lane, uint32_t i)
{
    r->runs[lane][i].state = OVER;
    while (r->ended[lane] < r->started[lane] && r->runs[lane][r->ended[lane]].state == OVER) {
        r->ended[lane]++;
    }
}

/* The first receive of `to` that is under way and matches the send, or -1. */
static int64_t partner(const machine_t *m, int from, const dma_cluster_op_t *send)
{
    const rank_t *r = &m->ranks[send->peer];

    for (uint32_t i = r->ended[DMA_LANE_RECV]; i < r->started[DMA_LANE_RECV]; i++) {
        const dma_cluster_op_t *op = &r->plan->ops[DMA_LANE_RECV][i];

        if (r->runs[DMA_LANE_RECV][i].state == UNDER_WAY && op->peer == from && op->step == send->step) {
            return i;
        }
    }
    return -1;
}

static int move_message(machine_t *m, int rank, uint32_t i)
{
    rank_t *r = &m->ranks[rank];
    run_t *run = &r->runs[DMA_LANE_SEND][i], *other;
    const dma_cluster_op_t *op = &r->plan->ops[DMA_LANE_SEND][i];
    rank_t *peer = &m->ranks[op->peer];
    const uint8_t *from;
    int64_t met;

    if (!run->taken && (r->plan->req.relayed || (!m->job->narrow && draw(m, 3) == 0))) {
        run->taken = malloc(op->bytes + 1);
        memcpy(run->taken, at(r, op->from, 0), op->bytes);
        return 1;
    }
    if ((met = partner(m, rank, op)) < 0) {
        return 0;
    }
    const dma_cluster_op_t *to = &peer->plan->ops[DMA_LANE_RECV][met];
    if (to->bytes != op->bytes) {
        fail(m, CLUSTER_NET, "rank %d sends %" PRIu64 " bytes, rank %d expects %" PRIu64, rank, op->bytes, op->peer,
             to->bytes);
        return -1;
    }
    other = &peer->runs[DMA_LANE_RECV][met];
    from = run->taken ? run->taken : at(r, op->from, 0);
    if (peer->plan->req.relayed) {
        other->taken = malloc(op->bytes + 1);
        memcpy(other->taken, from, op->bytes);
        other->state = ASIDE;
    } else {
        memcpy(at(peer, to->to, 0), from, op->bytes);
        other->state = MOVED;
    }
    run->state = MOVED;
    m->report->messages++;
    m->report->sent += op->bytes;
    return 1;
}

/* Carries out collective i of the node when all of its ranks have reached it. */
static int move_local(machine_t *m, int rank, uint32_t i)
{
    const dma_node_map_t *l = m->ranks[rank].plan->req.node_map;
    int size = dma_node_map_size(l, l->node);
    const dma_cluster_op_t *ops[size];
    rank_t *rs[size];
    uint32_t nth = 0, where[size];

    for (uint32_t k = 0; k < i; k++) {
        nth += m->ranks[rank].plan->ops[DMA_LANE_LOCAL][k].code != DMA_CLUSTER_COPY;
    }
    for (int s = 0; s < size; s++) {
        uint32_t seen = 0;

        rs[s] = &m->ranks[dma_node_map_rank(l, l->node, s)];
        for (where[s] = 0; where[s] < rs[s]->started[DMA_LANE_LOCAL]; where[s]++) {
            ops[s] = &rs[s]->plan->ops[DMA_LANE_LOCAL][where[s]];
            if (ops[s]->code != DMA_CLUSTER_COPY && seen++ == nth) {
                break;
            }
        }
        if (where[s] == rs[s]->started[DMA_LANE_LOCAL]) {
            return 0;
        }
    }
    for (int d = 0; d < size; d++) {
        for (int s = 0; s < size; s++) {
            dma_cluster_part_t get = dma_cluster_part(rs[d]->plan, ops[d], s);
            dma_cluster_part_t give = dma_cluster_part(rs[s]->plan, ops[s], ops[s]->code == DMA_CLUSTER_GATHER ? s : d);
            uint64_t gives = ops[s]->code == DMA_CLUSTER_GATHER ? give.get : give.give;
            uint8_t *from = at(rs[s], ops[s]->from, ops[s]->code == DMA_CLUSTER_GATHER ? 0 : give.from);

            if (ops[s]->code != ops[d]->code || gives != get.get) {
                fail(m, CLUSTER_LOCAL, "rank %d of node %d gives %" PRIu64 " bytes, rank %d expects %" PRIu64, s,
                     l->node, gives, d, get.get);
                return -1;
            }
            /* In place, an exchange reads before it writes: parts at the same place are exchanged crosswise. */
            if (ops[d]->code == DMA_CLUSTER_EXCHANGE &&
                from == at(rs[s], ops[s]->to, dma_cluster_part(rs[s]->plan, ops[s], d).to)) {
                uint8_t *to = at(rs[d], ops[d]->to, get.to);

                for (uint64_t k = 0; s < d && k < gives; k++) {
                    uint8_t x = to[k];

                    to[k] = from[k];
                    from[k] = x;
                }
            } else {
                memmove(at(rs[d], ops[d]->to, get.to), from, gives);
            }
        }
    }
    for (int s = 0; s < size; s++) {
        rs[s]->runs[DMA_LANE_LOCAL][where[s]].state = MOVED;
    }
    m->report->collectives++;
    return 1;
}

static int move_on(machine_t *m, int rank, int lane, uint32_t i)
{
    rank_t *r = &m->ranks[rank];
    const dma_cluster_op_t *op = &r->plan->ops[lane][i];
    run_t *run = &r->runs[lane][i];

    if (run->state == MOVED) {
        over(r, lane, i);
        return 1;
    }
    if (run->state == ASIDE && (!op->after || r->runs[DMA_LANE_SEND][op->after - 1].taken)) {
        memcpy(at(r, op->to, 0), run->taken, op->bytes);
        over(r, lane, i);
        return 1;
    }
    if (run->state != UNDER_WAY || op->code == DMA_CLUSTER_RECV) {
        return 0;
    }
    if (op->code == DMA_CLUSTER_SEND) {
        return move_message(m, rank, i);
    }
    if (op->code != DMA_CLUSTER_COPY) {
        return move_local(m, rank, i);
    }
    for (uint32_t row = 0; row < op->rows; row++) {
        memcpy(at(r, op->to, row * op->to_pitch), at(r, op->from, row * op->from_pitch), op->bytes);
    }
    over(r, lane, i);
    return 1;
}

/* One thing that can happen on a lane. The search begins with operation `turn`. */
static int lane_step(machine_t *m, int rank, int lane, uint32_t turn)
{
    rank_t *r = &m->ranks[rank];
    uint32_t first = r->ended[lane], n = r->started[lane] - first;
    int done;

    if ((turn & 1) && (done = start(m, rank, lane)) != 0) {
        return done;
    }
    for (uint32_t k = 0; k < n; k++) {
        if ((done = move_on(m, rank, lane, first + (turn + k) % n)) != 0) {
            return done;
        }
    }
    return start(m, rank, lane);
}

/* ---- memory ---- */

static uint64_t extent(const machine_t *m, int rank, bool recv)
{
    uint64_t bytes = 0;

    if (!recv && dma_coll_gathers(m->job->coll)) {
        return m->job->bytes[rank * m->job->nranks];
    }
    for (int p = 0; p < m->job->nranks; p++) {
        const dma_cluster_req_t *req = &m->ranks[rank].plan->req;
        const dma_blocks_t *b = recv ? &req->recv : &req->send;
        uint64_t end = (uint64_t)(dma_blocks_addr(b, (uint64_t)p) - b->addr) + dma_blocks_bytes(b, (uint64_t)p);

        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

static uint8_t *guarded(uint64_t bytes)
{
    uint8_t *memory = malloc(bytes + 2 * GUARD);

    memset(memory, CANARY, bytes + 2 * GUARD);
    return memory + GUARD;
}

static bool gathers(const machine_t *m)
{
    return dma_coll_gathers(m->job->coll);
}

static void fill(machine_t *m, int rank)
{
    rank_t *r = &m->ranks[rank];
    int n = m->job->nranks;

    for (int d = 0; d < (gathers(m) ? 1 : n); d++) {
        uint8_t *to = r->memory[DMA_CLUSTER_OUT] + (gathers(m) ? 0 : dma_cluster_send_block(r->plan, d).at);

        for (uint64_t k = 0; k < m->job->bytes[rank * n + d]; k++) {
            to[k] = user_byte(rank, d, k);
        }
    }
}

static void open_rank(machine_t *m, int rank)
{
    rank_t *r = &m->ranks[rank];

    r->plan = m->job->plans[rank];
    r->size[DMA_CLUSTER_IN] = extent(m, rank, true);
    r->memory[DMA_CLUSTER_IN] = guarded(r->size[DMA_CLUSTER_IN]);
    r->size[DMA_CLUSTER_TEMP] = r->plan->temp_bytes;
    r->memory[DMA_CLUSTER_TEMP] = guarded(r->plan->temp_bytes);
    m->report->most_temp = r->plan->temp_bytes > m->report->most_temp ? r->plan->temp_bytes : m->report->most_temp;
    r->size[DMA_CLUSTER_OUT] = extent(m, rank, false);
    if (!r->plan->req.in_place) {
        r->memory[DMA_CLUSTER_OUT] = guarded(r->size[DMA_CLUSTER_OUT]);
    } else {
        r->memory[DMA_CLUSTER_OUT] =
            r->memory[DMA_CLUSTER_IN] + (gathers(m) ? dma_cluster_recv_block(r->plan, rank).at : 0);
    }
    fill(m, rank);
    for (int lane = 0; lane < DMA_LANES; lane++) {
        r->runs[lane] = calloc(r->plan->nops[lane] + 1, sizeof(run_t));
    }
}

static bool check_rank(machine_t *m, int rank)
{
    rank_t *r = &m->ranks[rank];
    int n = m->job->nranks;

    for (int s = 0; s < n; s++) {
        const uint8_t *got = r->memory[DMA_CLUSTER_IN] + dma_cluster_recv_block(r->plan, s).at;
        uint64_t bytes = m->job->bytes[s * n + rank];

        for (uint64_t k = 0; k < bytes; k++) {
            if (got[k] != user_byte(s, gathers(m) ? 0 : rank, k)) {
                return fail(m, CLUSTER_DATA, "rank %d: byte %" PRIu64 " of the block of rank %d is wrong", rank, k, s);
            }
        }
    }
    for (int d = 0; !r->plan->req.in_place && d < (gathers(m) ? 1 : n); d++) {
        const uint8_t *had = r->memory[DMA_CLUSTER_OUT] + (gathers(m) ? 0 : dma_cluster_send_block(r->plan, d).at);

        for (uint64_t k = 0; k < m->job->bytes[rank * n + d]; k++) {
            if (had[k] != user_byte(rank, d, k)) {
                return fail(m, CLUSTER_DATA, "rank %d: its send buffer has changed", rank);
            }
        }
    }
    for (int base = 0; base < 3; base++) {
        for (int k = 1; k <= GUARD && !(base == DMA_CLUSTER_OUT && r->plan->req.in_place); k++) {
            if (r->memory[base][-k] != CANARY || r->memory[base][r->size[base] + (uint64_t)k - 1] != CANARY) {
                return fail(m, CLUSTER_CANARY, "rank %d: bytes beside a buffer have changed", rank);
            }
        }
    }
    return true;
}

static void close_rank(rank_t *r)
{
    for (int lane = 0; lane < DMA_LANES; lane++) {
        for (uint32_t i = 0; i < r->plan->nops[lane]; i++) {
            free(r->runs[lane][i].taken);
        }
        free(r->runs[lane]);
    }
    for (int base = 0; base < 3; base++) {
        if (base != DMA_CLUSTER_OUT || !r->plan->req.in_place) {
            free(r->memory[base] - GUARD);
        }
    }
}

static bool ended(const rank_t *r)
{
    for (int lane = 0; lane < DMA_LANES; lane++) {
        if (r->ended[lane] < r->plan->nops[lane]) {
            return false;
        }
    }
    return true;
}

/* Random steps. If chance finds nothing for a long time, every operation is tried. */
static bool play(machine_t *m)
{
    int n = m->job->nranks;

    for (;;) {
        int done = 0;

        for (int tries = 0; tries < 3 * n && done == 0; tries++) {
            done = lane_step(m, (int)draw(m, (uint32_t)n), (int)draw(m, DMA_LANES), draw(m, 1000));
        }
        for (int i = 0; i < n * DMA_LANES && done == 0; i++) {
            done = lane_step(m, i / DMA_LANES, i % DMA_LANES, 0);
        }
        if (done < 0) {
            return false;
        }
        if (done == 0) {
            break;
        }
    }
    for (int r = 0; r < n; r++) {
        if (!ended(&m->ranks[r])) {
            return fail(m, CLUSTER_DEADLOCK, "rank %d has sent %u of %u, received %u of %u, done %u of %u here", r,
                        m->ranks[r].ended[0], m->ranks[r].plan->nops[0], m->ranks[r].ended[1],
                        m->ranks[r].plan->nops[1], m->ranks[r].ended[2], m->ranks[r].plan->nops[2]);
        }
    }
    return true;
}

bool cluster_run(const cluster_job_t *job, cluster_report_t *report)
{
    machine_t m = {.job = job, .report = report, .rng = job->seed};
    bool ok;

    *report = (cluster_report_t){.error = CLUSTER_OK};
    m.ranks = calloc((size_t)job->nranks, sizeof(*m.ranks));
    for (int r = 0; r < job->nranks; r++) {
        open_rank(&m, r);
    }
    ok = play(&m);
    for (int r = 0; ok && r < job->nranks; r++) {
        ok = check_rank(&m, r);
    }
    for (int r = 0; r < job->nranks; r++) {
        close_rank(&m.ranks[r]);
    }
    free(m.ranks);
    return ok;
}

const char *cluster_bed_profile(void)
{
    return DMA_TEST_TOPOLOGIES "/../../profiles/bed-1gbit.txt";
}
