/*
 * The lanes of messages: operations of a plan in pieces, through slots where they are in device memory. See cluster.h.
 *
 * With slots a lane begins pieces as long as one is free, before it is their turn to be sent: that is what overlaps. The
 * plan's window counts the operations whose pieces travel; of one that is cut, MORE pieces may travel beside the first, so
 * that a message's end does not leave the adapter idle.
 */
#include <sched.h>
#include <stdlib.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"

#define MORE 3
/* For peers to let go of a call that has failed; then they are given up, like links that are dead. */
#define LAST_SECONDS 10.0

static uint32_t pieces_of(const dma_cluster_t *c, const dma_cluster_op_t *op)
{
    return op->bytes ? (uint32_t)((op->bytes + c->piece - 1) / c->piece) : 1;
}

static uint64_t offset(const dma_cluster_t *c, const dma_piece_t *p)
{
    return p->number * c->piece;
}

static uint64_t bytes_of(const dma_cluster_t *c, const dma_cluster_op_t *op, const dma_piece_t *p)
{
    uint64_t left = op->bytes - offset(c, p);

    return left < c->piece ? left : c->piece;
}

static dma_piece_t *piece_at(const dma_lane_t *l, uint64_t i)
{
    return &l->pieces[i % l->room];
}

static unsigned slot_at(const dma_cluster_t *c, uint64_t i)
{
    return (unsigned)(i % dma_relay_slots(c->call.relay));
}

/* ---- a call's begin and end ---- */

static dma_status_t make_room(const dma_cluster_t *c, dma_lane_t *l, int lane)
{
    const dma_cluster_plan_t *plan = c->call.plan;
    uint64_t pieces = c->call.relay ? dma_relay_slots(c->call.relay) : 0;
    dma_piece_t *more;

    for (uint32_t i = 0; i < plan->nops[lane] && pieces < CLUSTER_PIECES; i++) {
        pieces += pieces_of(c, &plan->ops[lane][i]);
    }
    pieces = pieces < CLUSTER_PIECES ? pieces : CLUSTER_PIECES;
    if (pieces > l->room) {
        if (!(more = realloc(l->pieces, pieces * sizeof(*more)))) {
            return DMA_ERR_NOMEM;
        }
        l->pieces = more;
        l->room = (uint32_t)pieces;
    }
    return DMA_OK;
}

dma_status_t dma_lanes_begin(dma_cluster_t *c)
{
    dma_status_t status = DMA_OK;

    for (int lane = 0; status == DMA_OK && lane < 2; lane++) {
        dma_lane_t *l = &c->lanes[lane];

        l->first = l->next = 0;
        l->number = l->op = l->filled = 0;
        status = make_room(c, l, lane);
    }
    return status;
}

/* What the network has of the call: `visit` each; returns whether there is any. */
static bool each_under_way(dma_cluster_t *c, void (*visit)(void *net, void *req))
{
    bool any = false;

    for (int lane = 0; lane < 2; lane++) {
        const dma_lane_t *l = &c->lanes[lane];

        for (uint64_t i = l->first; i < l->next; i++) {
            void **req = &piece_at(l, i)->req;

            if (*req && c->wire->test(c->net, req) == DMA_AGAIN) {
                any = true;
                if (visit) {
                    visit(c->net, *req);
                }
            }
        }
    }
    return any;
}

void dma_lanes_stop(dma_cluster_t *c)
{
    double end = dma_now() + LAST_SECONDS;
    bool given_up = false;

    each_under_way(c, c->wire->cancel);
    do {
        sched_yield(); /* peers that share our core have to move their networks on */
        c->wire->progress(c->net);
        if (!given_up && dma_now() > end) {
            given_up = true;
            each_under_way(c, c->wire->abort);
        }
    } while (each_under_way(c, NULL));
}

int dma_lanes_waits_for(const dma_cluster_t *c)
{
    const dma_lane_t *l = &c->lanes[DMA_LANE_RECV];

    for (uint64_t i = l->first; c->running && c->call.plan && i < l->next; i++) {
        if (piece_at(l, i)->state == PIECE_TRAVELS) {
            return c->call.plan->ops[DMA_LANE_RECV][piece_at(l, i)->op].peer;
        }
    }
    return -1;
}

void dma_lanes_free(dma_cluster_t *c)
{
    free(c->lanes[DMA_LANE_SEND].pieces);
    free(c->lanes[DMA_LANE_RECV].pieces);
}

/* ---- both lanes ---- */

static void go_to(dma_cluster_t *c, dma_piece_t *p, dma_piece_state_t state)
{
    p->state = state;
    c->call.moves++;
}

/* Of an all-to-all-v only the two know what one has for the other. */
static uint32_t note_of_message(const dma_cluster_call_t *call, int lane, int peer)
{
    const dma_blocks_t *blocks = lane == DMA_LANE_SEND ? &call->plan->req.send : &call->plan->req.recv;

    return call->plan->req.coll == DMA_ALLTOALLV
               ? dma_cluster_note(DMA_ALLTOALLV, dma_blocks_bytes(blocks, (uint64_t)peer))
               : call->note;
}

/* The piece goes to the network, or the network is to bring it. */
static dma_status_t travel(dma_cluster_t *c, dma_cluster_lane_t lane, uint64_t i)
{
    dma_cluster_call_t *call = &c->call;
    dma_piece_t *p = piece_at(&c->lanes[lane], i);
    const dma_cluster_op_t *op = &call->plan->ops[lane][p->op];
    dma_net_tag_t tag = {.comm = c->id,
                         .owner = c->owner,
                         .seq = call->seq,
                         .step = op->step,
                         .note = note_of_message(call, lane, op->peer)};
    char *memory;
    void *peer;
    dma_status_t status = dma_cluster_connect_peer(c, op->peer, &peer);

    if (status != DMA_OK) {
        return status;
    }
    if (p->slot) {
        memory = dma_relay_slot(call->relay, lane == DMA_LANE_SEND ? DMA_RELAY_OUT : DMA_RELAY_IN, slot_at(c, i));
    } else {
        memory = dma_cluster_at(call, lane == DMA_LANE_SEND ? op->from : op->to) + offset(c, p);
    }
    status = lane == DMA_LANE_SEND ? c->wire->isend(c->net, peer, &tag, memory, bytes_of(c, op, p), &p->req)
                                   : c->wire->irecv(c->net, peer, &tag, memory, bytes_of(c, op, p), &p->req);
    if (status == DMA_OK) {
        go_to(c, p, PIECE_TRAVELS);
    }
    return status;
}

/* The next piece of the lane, as far as its operation may start and there is room for it; else NULL. */
static dma_piece_t *next_piece(dma_cluster_t *c, dma_cluster_lane_t lane)
{
    dma_cluster_call_t *call = &c->call;
    dma_lane_t *l = &c->lanes[lane];
    uint32_t op = call->started[lane];
    uint64_t room = call->relay ? dma_relay_slots(call->relay) : l->room;
    dma_piece_t *p;

    if (op == call->plan->nops[lane] || l->next - l->first >= room ||
        (!l->number && !dma_cluster_may_start(call, &call->plan->ops[lane][op]))) {
        return NULL;
    }
    p = piece_at(l, l->next++);
    *p = (dma_piece_t){.op = op, .number = l->number++, .state = PIECE_FILLED};
    if (l->number == pieces_of(c, &call->plan->ops[lane][op])) {
        l->number = 0;
        call->started[lane]++;
    }
    return p;
}

static void retire(dma_cluster_t *c, dma_cluster_lane_t lane)
{
    dma_lane_t *l = &c->lanes[lane];

    while (l->first < l->next && piece_at(l, l->first)->state == PIECE_OVER) {
        const dma_piece_t *p = piece_at(l, l->first++);

        c->call.ended[lane] += p->number + 1 == pieces_of(c, &c->call.plan->ops[lane][p->op]);
    }
}

/* ---- SENT ---- */

static void note_filled(dma_cluster_t *c, const dma_piece_t *p)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_SEND];
    bool last = p->number + 1 == pieces_of(c, &c->call.plan->ops[DMA_LANE_SEND][p->op]);

    l->op = last ? p->op + 1 : p->op;
    l->filled = last ? 0 : p->number + 1;
}

/* Begins pieces: those without a slot when they can be sent soon, others ahead. `travelling`: some do. */
static dma_status_t begin_sends(dma_cluster_t *c, bool waiting, bool travelling)
{
    dma_cluster_call_t *call = &c->call;
    dma_lane_t *l = &c->lanes[DMA_LANE_SEND];
    dma_status_t status = DMA_OK;
    dma_piece_t *p;

    while (status == DMA_OK && (call->relay || !waiting) && (p = next_piece(c, DMA_LANE_SEND))) {
        const dma_cluster_op_t *op = &call->plan->ops[DMA_LANE_SEND][p->op];

        waiting = true;
        if (!call->on_device[op->from.base]) {
            continue;
        }
        p->slot = true;
        c->filled++;
        c->overlapped += travelling;
        if (op->bytes) {
            status = dma_relay_fill(call->relay, slot_at(c, l->next - 1), dma_cluster_at(call, op->from) + offset(c, p),
                                    bytes_of(c, op, p));
            go_to(c, p, PIECE_FILLS);
        }
    }
    return status;
}

typedef struct traffic {
    uint32_t op, ops, pieces; /* the last operation seen to travel; how many do; and pieces */
    bool filling;             /* an earlier piece is being copied: later ones cannot be there */
    bool blocked;             /* an earlier piece has not been sent: later ones must not be */
} traffic_t;

static bool may_travel(const dma_cluster_call_t *call, const traffic_t *t, uint32_t op)
{
    uint32_t window = call->plan->window[DMA_LANE_SEND];
    bool another = !t->ops || t->op != op;

    return another ? t->ops < window && t->pieces < window + MORE : t->pieces < window + MORE;
}

static void count(traffic_t *t, uint32_t op)
{
    t->ops += !t->ops || t->op != op;
    t->op = op;
    t->pieces++;
}

static dma_status_t move_send(dma_cluster_t *c, uint64_t i, traffic_t *t)
{
    dma_piece_t *p = piece_at(&c->lanes[DMA_LANE_SEND], i);
    dma_status_t status = DMA_OK;

    if (p->state == PIECE_TRAVELS) {
        status = c->wire->test(c->net, &p->req);
        if (status == DMA_OK) {
            go_to(c, p, PIECE_OVER);
        } else if (status == DMA_AGAIN) {
            count(t, p->op);
        }
        return status;
    }
    if (p->state == PIECE_FILLS && !t->filling) {
        status = dma_relay_test(c->call.relay, DMA_RELAY_OUT, slot_at(c, i));
        if (status == DMA_OK) {
            note_filled(c, p);
            go_to(c, p, PIECE_FILLED);
        }
        t->filling = status != DMA_OK;
    }
    if (p->state == PIECE_FILLED && !t->blocked && may_travel(&c->call, t, p->op) &&
        (status = travel(c, DMA_LANE_SEND, i)) == DMA_OK) {
        count(t, p->op);
        return DMA_OK;
    }
    t->blocked = t->blocked || p->state != PIECE_OVER;
    return status;
}

static dma_status_t advance_sent(dma_cluster_t *c)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_SEND];
    uint64_t done = l->first;
    dma_status_t status;
    traffic_t t = {0};

    do {
        for (; done < l->next; done++) {
            if ((status = move_send(c, done, &t)) < 0) {
                return status;
            }
        }
        retire(c, DMA_LANE_SEND);
        if ((status = begin_sends(c, t.blocked, t.ops > 0)) != DMA_OK) {
            return status;
        }
    } while (done < l->next);
    return DMA_OK;
}

/* ---- RECEIVED ---- */

/* In place: what the piece overwrites has been copied away. */
static bool vacated(const dma_cluster_t *c, const dma_cluster_op_t *op, const dma_piece_t *p)
{
    const dma_lane_t *sent = &c->lanes[DMA_LANE_SEND];

    return !op->after || sent->op >= op->after || (sent->op + 1 == op->after && sent->filled > p->number);
}

static dma_status_t move_receive(dma_cluster_t *c, uint64_t i)
{
    dma_cluster_call_t *call = &c->call;
    dma_piece_t *p = piece_at(&c->lanes[DMA_LANE_RECV], i);
    const dma_cluster_op_t *op = &call->plan->ops[DMA_LANE_RECV][p->op];
    dma_status_t status = DMA_OK;

    if (p->state == PIECE_TRAVELS && (status = c->wire->test(c->net, &p->req)) == DMA_OK) {
        go_to(c, p, p->slot && op->bytes ? PIECE_LANDED : PIECE_OVER);
    }
    if (p->state == PIECE_LANDED && vacated(c, op, p)) {
        status = dma_relay_drain(call->relay, slot_at(c, i), dma_cluster_at(call, op->to) + offset(c, p),
                                 bytes_of(c, op, p));
        if (status == DMA_OK) {
            go_to(c, p, PIECE_DRAINS);
            return DMA_OK;
        }
    }
    if (p->state == PIECE_DRAINS && (status = dma_relay_test(call->relay, DMA_RELAY_IN, slot_at(c, i))) == DMA_OK) {
        go_to(c, p, PIECE_OVER);
    }
    return status;
}

static dma_status_t advance_received(dma_cluster_t *c)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_RECV];
    dma_status_t status;
    dma_piece_t *p;

    for (uint64_t i = l->first; i < l->next; i++) {
        if ((status = move_receive(c, i)) < 0) {
            c->running->run.failed_rank = c->call.plan->ops[DMA_LANE_RECV][piece_at(l, i)->op].peer;
            return status;
        }
    }
    retire(c, DMA_LANE_RECV);
    while ((p = next_piece(c, DMA_LANE_RECV))) {
        p->slot = c->call.on_device[c->call.plan->ops[DMA_LANE_RECV][p->op].to.base];
        if ((status = travel(c, DMA_LANE_RECV, l->next - 1)) != DMA_OK) {
            return status;
        }
    }
    return DMA_OK;
}

dma_status_t dma_lane_advance(dma_cluster_t *c, dma_cluster_lane_t lane)
{
    return lane == DMA_LANE_SEND ? advance_sent(c) : advance_received(c);
}
