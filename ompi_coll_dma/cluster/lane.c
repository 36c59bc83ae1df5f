/*
 * The lanes SEND and RECV: the operations of a plan in pieces, which pass through slots if they are in device memory.
 * See cluster.h.
 *
 * With slots, SEND begins pieces as long as a slot is free, before it is their turn to be sent. So copies overlap with
 * messages. The plan's window limits the operations that have pieces in flight. EXTRA_PIECES more pieces may be in
 * flight, so that the adapter has work when a message of several pieces ends.
 */
#include <stdlib.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"

#define EXTRA_PIECES 3
/* After a failure: how long peers have to complete what has been cancelled. Then their connections are declared dead.
 * */
#define CANCEL_SECONDS 10.0

static uint32_t piece_count(const dma_cluster_t *c, const dma_cluster_op_t *op)
{
    return op->bytes ? (uint32_t)((op->bytes + c->piece - 1) / c->piece) : 1;
}

static uint64_t piece_offset(const dma_cluster_t *c, const dma_piece_t *p)
{
    return p->number * c->piece;
}

static uint64_t piece_bytes(const dma_cluster_t *c, const dma_cluster_op_t *op, const dma_piece_t *p)
{
    uint64_t left = op->bytes - piece_offset(c, p);

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

/* ---- begin and end of a call ---- */

static dma_status_t reserve_pieces(const dma_cluster_t *c, dma_lane_t *l, int lane)
{
    const dma_cluster_plan_t *plan = c->call.plan;
    uint64_t pieces = c->call.relay ? dma_relay_slots(c->call.relay) : 0;
    dma_piece_t *more;

    for (uint32_t i = 0; i < plan->nops[lane] && pieces < CLUSTER_PIECES; i++) {
        pieces += piece_count(c, &plan->ops[lane][i]);
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
        status = reserve_pieces(c, l, lane);
    }
    return status;
}

/* Calls `visit` for each request of the call that has not completed. Returns whether there is one. */
static bool for_each_in_flight(dma_cluster_t *c, void (*visit)(void *net, void *req))
{
    bool any = false;

    for (int lane = 0; lane < 2; lane++) {
        const dma_lane_t *l = &c->lanes[lane];

        for (uint64_t i = l->first; i < l->next; i++) {
            void **req = &piece_at(l, i)->req;

            if (*req && c->net_ops->test(c->net, req) == DMA_AGAIN) {
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
    double end = dma_now() + CANCEL_SECONDS;
    dma_pause_t pause = {0};
    bool aborted = false;

    for_each_in_flight(c, c->net_ops->cancel);
    do {
        dma_pause(&pause); /* peers on the same core need it for their progress */
        c->net_ops->progress(c->net);
        if (!aborted && dma_now() > end) {
            aborted = true;
            for_each_in_flight(c, c->net_ops->abort);
        }
    } while (for_each_in_flight(c, NULL));
}

dma_wait_t dma_lanes_waits_for(const dma_cluster_t *c)
{
    const dma_lane_t *l = &c->lanes[DMA_LANE_RECV];
    dma_wait_t wait = {0};

    for (uint64_t i = l->first; c->running_task && c->call.plan && i < l->next; i++) {
        if (piece_at(l, i)->state == PIECE_IN_FLIGHT) {
            dma_wait_add(&wait, DMA_WAIT_MESSAGE, c->call.plan->ops[DMA_LANE_RECV][piece_at(l, i)->op].peer);
        }
    }
    return wait;
}

void dma_lanes_free(dma_cluster_t *c)
{
    free(c->lanes[DMA_LANE_SEND].pieces);
    free(c->lanes[DMA_LANE_RECV].pieces);
}

/* ---- both lanes ---- */

static void trace_message(const dma_cluster_t *c, dma_cluster_lane_t lane, const dma_piece_t *p)
{
    const dma_cluster_op_t *op = &c->call.plan->ops[lane][p->op];

    dma_trace_span(c->trace, lane == DMA_LANE_SEND ? DMA_TRACE_SEND : DMA_TRACE_RECV, c->running_task->run.seq,
                   op->step, p->posted, (uint64_t)(uint32_t)op->peer << 40 | piece_bytes(c, op, p));
}

static void set_state(dma_cluster_t *c, dma_piece_t *p, dma_piece_state_t state)
{
    p->state = state;
    c->call.state_changes++;
}

/* A size that only two ranks know is in the notes of their messages. */
static uint32_t message_note(const dma_cluster_call_t *call, int lane, int peer)
{
    const dma_blocks_t *blocks = lane == DMA_LANE_SEND ? &call->plan->req.send : &call->plan->req.recv;

    return dma_coll_sizes(call->plan->req.coll) == DMA_SIZES_OWN
               ? dma_cluster_note(call->plan->req.coll, dma_blocks_bytes(blocks, (uint64_t)peer))
               : call->note;
}

static void count_message(const dma_cluster_t *c, dma_cluster_lane_t lane, uint64_t bytes)
{
    dma_comm_t *comm = c->running_task->comm;

    dma_comm_count(comm, lane == DMA_LANE_SEND ? DMA_COUNT_messages_sent : DMA_COUNT_messages_received);
    comm->counts.at[lane == DMA_LANE_SEND ? DMA_COUNT_bytes_sent : DMA_COUNT_bytes_received] += bytes;
}

/* Posts the send or the receive of piece i. */
static dma_status_t post_message(dma_cluster_t *c, dma_cluster_lane_t lane, uint64_t i)
{
    dma_cluster_call_t *call = &c->call;
    dma_piece_t *p = piece_at(&c->lanes[lane], i);
    const dma_cluster_op_t *op = &call->plan->ops[lane][p->op];
    dma_net_tag_t tag = {.comm = c->id,
                         .owner = c->owner,
                         .seq = call->seq,
                         .step = op->step,
                         .note = message_note(call, lane, op->peer)};
    char *memory;
    void *peer;
    dma_status_t status = dma_cluster_connect_peer(c, op->peer, &peer);

    if (status != DMA_OK) {
        return status;
    }
    if (p->slot) {
        memory = dma_relay_slot(call->relay, lane == DMA_LANE_SEND ? DMA_RELAY_OUT : DMA_RELAY_IN, slot_at(c, i));
    } else {
        memory = dma_cluster_at(call, lane == DMA_LANE_SEND ? op->from : op->to) + piece_offset(c, p);
    }
    p->posted = dma_trace_begin(c->trace); /* before it can arrive */
    status = lane == DMA_LANE_SEND ? c->net_ops->isend(c->net, peer, &tag, memory, piece_bytes(c, op, p), &p->req)
                                   : c->net_ops->irecv(c->net, peer, &tag, memory, piece_bytes(c, op, p), &p->req);
    if (status == DMA_OK) {
        set_state(c, p, PIECE_IN_FLIGHT);
        count_message(c, lane, piece_bytes(c, op, p));
    }
    return status;
}

/* Begins the next piece of the lane. NULL: its operation may not start yet, or there is no room. */
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
    if (l->number == piece_count(c, &call->plan->ops[lane][op])) {
        l->number = 0;
        call->started[lane]++;
    }
    return p;
}

static void remove_done(dma_cluster_t *c, dma_cluster_lane_t lane)
{
    dma_lane_t *l = &c->lanes[lane];

    while (l->first < l->next && piece_at(l, l->first)->state == PIECE_DONE) {
        const dma_piece_t *p = piece_at(l, l->first++);

        c->call.ended[lane] += p->number + 1 == piece_count(c, &c->call.plan->ops[lane][p->op]);
    }
}

/* ---- SEND ---- */

static void count_filled(dma_cluster_t *c, const dma_piece_t *p)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_SEND];
    bool last = p->number + 1 == piece_count(c, &c->call.plan->ops[DMA_LANE_SEND][p->op]);

    l->op = last ? p->op + 1 : p->op;
    l->filled = last ? 0 : p->number + 1;
}

/* Begins pieces. Pieces with a slot are begun ahead; others only if no piece is `waiting` to be sent. `in_flight`: some
 * pieces are. */
static dma_status_t begin_sends(dma_cluster_t *c, bool waiting, bool in_flight)
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
        c->overlapped += in_flight;
        if (op->bytes) {
            status = dma_relay_fill(call->relay, slot_at(c, l->next - 1),
                                    dma_cluster_at(call, op->from) + piece_offset(c, p), piece_bytes(c, op, p));
            set_state(c, p, PIECE_FILLING);
        }
    }
    return status;
}

typedef struct send_window {
    uint32_t op, ops, pieces; /* the last operation with pieces in flight; how many operations and pieces are */
    bool filling;             /* an earlier piece is being copied, so later ones cannot have been */
    bool blocked;             /* an earlier piece has not been posted, so later ones must not be */
} send_window_t;

static bool may_post(const dma_cluster_call_t *call, const send_window_t *w, uint32_t op)
{
    uint32_t window = call->plan->window[DMA_LANE_SEND];
    bool another = !w->ops || w->op != op;

    return another ? w->ops < window && w->pieces < window + EXTRA_PIECES : w->pieces < window + EXTRA_PIECES;
}

static void count_in_flight(send_window_t *w, uint32_t op)
{
    w->ops += !w->ops || w->op != op;
    w->op = op;
    w->pieces++;
}

static dma_status_t advance_send_piece(dma_cluster_t *c, uint64_t i, send_window_t *w)
{
    dma_piece_t *p = piece_at(&c->lanes[DMA_LANE_SEND], i);
    dma_status_t status = DMA_OK;

    if (p->state == PIECE_IN_FLIGHT) {
        status = c->net_ops->test(c->net, &p->req);
        if (status == DMA_OK) {
            trace_message(c, DMA_LANE_SEND, p);
            set_state(c, p, PIECE_DONE);
        } else if (status == DMA_AGAIN) {
            count_in_flight(w, p->op);
        }
        return status;
    }
    if (p->state == PIECE_FILLING && !w->filling) {
        status = dma_relay_test(c->call.relay, DMA_RELAY_OUT, slot_at(c, i));
        if (status == DMA_OK) {
            count_filled(c, p);
            set_state(c, p, PIECE_FILLED);
        }
        w->filling = status != DMA_OK;
    }
    if (p->state == PIECE_FILLED && !w->blocked && may_post(&c->call, w, p->op) &&
        (status = post_message(c, DMA_LANE_SEND, i)) == DMA_OK) {
        count_in_flight(w, p->op);
        return DMA_OK;
    }
    w->blocked = w->blocked || p->state != PIECE_DONE;
    return status;
}

static dma_status_t advance_send_lane(dma_cluster_t *c)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_SEND];
    uint64_t i = l->first;
    dma_status_t status;
    send_window_t w = {0};

    do {
        for (; i < l->next; i++) {
            if ((status = advance_send_piece(c, i, &w)) < 0) {
                return status;
            }
        }
        remove_done(c, DMA_LANE_SEND);
        if ((status = begin_sends(c, w.blocked, w.ops > 0)) != DMA_OK) {
            return status;
        }
    } while (i < l->next);
    return DMA_OK;
}

/* ---- RECV ---- */

/* In place: has the data that the piece overwrites been copied away? */
static bool may_overwrite(const dma_cluster_t *c, const dma_cluster_op_t *op, const dma_piece_t *p)
{
    const dma_lane_t *sent = &c->lanes[DMA_LANE_SEND];

    return !op->after || sent->op >= op->after || (sent->op + 1 == op->after && sent->filled > p->number);
}

static dma_status_t advance_recv_piece(dma_cluster_t *c, uint64_t i)
{
    dma_cluster_call_t *call = &c->call;
    dma_piece_t *p = piece_at(&c->lanes[DMA_LANE_RECV], i);
    const dma_cluster_op_t *op = &call->plan->ops[DMA_LANE_RECV][p->op];
    dma_status_t status = DMA_OK;

    if (p->state == PIECE_IN_FLIGHT && (status = c->net_ops->test(c->net, &p->req)) == DMA_OK) {
        trace_message(c, DMA_LANE_RECV, p);
        set_state(c, p, p->slot && op->bytes ? PIECE_RECEIVED : PIECE_DONE);
    }
    if (p->state == PIECE_RECEIVED && may_overwrite(c, op, p)) {
        status = dma_relay_drain(call->relay, slot_at(c, i), dma_cluster_at(call, op->to) + piece_offset(c, p),
                                 piece_bytes(c, op, p));
        if (status == DMA_OK) {
            set_state(c, p, PIECE_DRAINING);
            return DMA_OK;
        }
    }
    if (p->state == PIECE_DRAINING && (status = dma_relay_test(call->relay, DMA_RELAY_IN, slot_at(c, i))) == DMA_OK) {
        set_state(c, p, PIECE_DONE);
    }
    return status;
}

static dma_status_t advance_recv_lane(dma_cluster_t *c)
{
    dma_lane_t *l = &c->lanes[DMA_LANE_RECV];
    dma_status_t status;
    dma_piece_t *p;

    for (uint64_t i = l->first; i < l->next; i++) {
        if ((status = advance_recv_piece(c, i)) < 0) {
            c->running_task->run.failed_rank = c->call.plan->ops[DMA_LANE_RECV][piece_at(l, i)->op].peer;
            return status;
        }
    }
    remove_done(c, DMA_LANE_RECV);
    while ((p = next_piece(c, DMA_LANE_RECV))) {
        p->slot = c->call.on_device[c->call.plan->ops[DMA_LANE_RECV][p->op].to.base];
        if ((status = post_message(c, DMA_LANE_RECV, l->next - 1)) != DMA_OK) {
            return status;
        }
    }
    return DMA_OK;
}

dma_status_t dma_lane_advance(dma_cluster_t *c, dma_cluster_lane_t lane)
{
    return lane == DMA_LANE_SEND ? advance_send_lane(c) : advance_recv_lane(c);
}
