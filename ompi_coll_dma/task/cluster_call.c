/*
 * Running cluster plans: three lanes, each in order, side by side.
 *
 * Everything moves on from the progress of whoever waits: messages are tested, node-local calls are moved on with the lock
 * of their communicator, which is taken with ours held and never the other way round.
 */
#include <stdlib.h>
#include <string.h>

#include "task/cluster.h"
#include "task/device.h"

#define LAST_SECONDS 0.3 /* for what is under way in a call that has failed */

static char *base_of(const dma_cluster_call_t *call, uint8_t base)
{
    return base == DMA_CLUSTER_OUT ? call->send.addr : base == DMA_CLUSTER_IN ? call->recv.addr : call->temp;
}

static char *at(const dma_cluster_call_t *call, dma_cluster_place_t place)
{
    return base_of(call, place.base) + place.at;
}

/* ---- the plan ---- */

static bool even(const dma_task_t *task)
{
    return task->coll == DMA_ALLGATHER || task->coll == DMA_ALLTOALL;
}

static dma_status_t find_plan(dma_cluster_t *c, const dma_task_t *task)
{
    uint64_t key = dma_sign(task->coll, false, task->bytes) | (uint64_t)task->in_place << 63;
    dma_cluster_memo_t *memo = &c->memo[(key * UINT64_C(0x9e3779b97f4a7c15) >> 60) % CLUSTER_MEMO];
    dma_cluster_call_t *call = &c->call;
    dma_cluster_req_t req = {
        .coll = task->coll,
        .in_place = task->in_place,
        .layout = &c->layout,
        .send = task->run.send,
        .recv = task->run.recv,
        .chunk = c->chunk,
    };
    dma_status_t status;
    int variant;

    call->kept = even(task) && !task->run.recv.counts && !task->run.send.counts;
    if (call->kept && memo->plan && memo->key == key) {
        call->plan = memo->plan;
        return DMA_OK;
    }
    variant = dma_cluster_choose(&c->profile, &req, task->bytes, c->forced);
    if (variant < 0) {
        return DMA_ERR_ENGINE;
    }
    status = dma_cluster_build(&req, variant, &call->plan);
    if (status == DMA_OK && call->kept) {
        dma_cluster_free(memo->plan);
        memo->plan = call->plan;
        memo->key = key;
    }
    return status;
}

/* What all ranks think of a call, or both ends of a message: the operation, and sizes in the other bits. */
static uint32_t note_of(dma_coll_t coll, uint64_t sizes)
{
    return 1 + (uint32_t)coll + ((uint32_t)(sizes * UINT64_C(0x9e3779b97f4a7c15) >> 40) << 8);
}

static uint32_t note_of_call(const dma_layout_t *l, const dma_task_t *task)
{
    uint64_t sizes = even(task) ? task->bytes : 0;

    for (int r = 0; task->coll == DMA_ALLGATHERV && r < l->nranks; r++) {
        sizes = (sizes ^ dma_blocks_bytes(&task->run.recv, (uint64_t)r)) * UINT64_C(0x9e3779b97f4a7c15);
        sizes ^= sizes >> 29;
    }
    return note_of(task->coll, sizes);
}

/* Of an all-to-all-v only the two know what one has for the other. */
static uint32_t note_of_message(const dma_cluster_call_t *call, int lane, int peer)
{
    const dma_blocks_t *blocks = lane == DMA_SENT ? &call->send : &call->recv;

    return call->plan->req.coll == DMA_ALLTOALLV ? note_of(DMA_ALLTOALLV, dma_blocks_bytes(blocks, (uint64_t)peer))
                                                 : call->note;
}

static dma_status_t begin(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    dma_cluster_call_t *call = &c->call;
    dma_status_t status;

    if (task->device && task->device->phase != DEVICE_STAGED && (status = dma_device_stage(task)) != DMA_OK) {
        return status;
    }
    if ((status = find_plan(c, task)) != DMA_OK) {
        return status;
    }
    call->send = task->run.send;
    call->recv = task->run.recv;
    call->seq = (uint32_t)task->run.seq % ((uint32_t)INT32_MAX);
    call->note = note_of_call(&c->layout, task);
    call->since = 0;
    call->met = false;
    memset(call->started, 0, sizeof(call->started));
    memset(call->ended, 0, sizeof(call->ended));
    call->temp = malloc(call->plan->temp_bytes + 1);
    call->reqs[0] = calloc((size_t)call->plan->nops[0] + call->plan->nops[1] + 1, sizeof(void *));
    if (!call->temp || !call->reqs[0]) {
        return DMA_ERR_NOMEM;
    }
    call->reqs[1] = call->reqs[0] + call->plan->nops[0];
    return DMA_OK;
}

/* All whom the plan has messages for or from. */
static dma_status_t meet(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    dma_status_t all = dma_cluster_connect(c);

    if (all < 0) {
        return all;
    }
    for (int lane = 0; lane < 2; lane++) {
        for (uint32_t i = 0; i < call->plan->nops[lane]; i++) {
            void *peer;
            dma_status_t status = dma_cluster_meet(c, call->plan->ops[lane][i].peer, &peer);

            if (status < 0) {
                return status;
            }
            all = status == DMA_AGAIN ? DMA_AGAIN : all;
        }
    }
    call->met = all == DMA_OK;
    return all;
}

/* ---- node-local calls ---- */

static dma_side_t side(char *addr, int64_t *counts, int64_t *displs)
{
    return (dma_side_t){.addr = addr,
                        .dense = true,
                        .width = sizeof(int64_t),
                        .size = 1,
                        .extent = 1,
                        .ub = 1,
                        .counts = counts,
                        .displs = displs};
}

/* Part i is as large as the first and lies i parts behind it. Equal on all ranks of the node if blocks are all equal. */
static bool follows(const int64_t *numbers, int n, int i)
{
    return numbers[i] == numbers[0] && numbers[n + i] == numbers[n] + i * numbers[0];
}

static void make_even(dma_side_t *side, const int64_t *numbers, int n)
{
    side->addr = (char *)side->addr + numbers[n];
    side->count = (size_t)numbers[0];
    side->counts = side->displs = NULL;
}

/* A node with one rank: what it would give itself. */
static void alone(const dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    dma_cluster_part_t part = dma_cluster_part(call->plan, op, 0);
    char *to = at(call, op->to) + part.to;
    char *from = at(call, op->from) + (op->code == DMA_CLUSTER_GATHER ? 0 : part.from);

    if (to != from && part.get) {
        memcpy(to, from, part.get);
    }
}

static dma_status_t post_gather(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_cluster_call_t *call = &c->call;
    const dma_layout_t *l = &c->layout;
    int n = dma_layout_size(l, l->node);
    dma_call_t gather = {.coll = DMA_ALLGATHERV, .note = call->note};
    bool even = call->plan->req.coll == DMA_ALLGATHER;

    for (int i = 0; i < n; i++) {
        dma_cluster_part_t part = dma_cluster_part(call->plan, op, i);

        call->numbers[i] = (int64_t)part.get;
        call->numbers[n + i] = part.to;
        even = even && follows(call->numbers, n, i);
    }
    gather.recv = side(at(call, op->to), call->numbers, call->numbers + n);
    gather.in_place = at(call, op->from) == at(call, op->to) + call->numbers[n + l->index];
    if (even) {
        gather.coll = DMA_ALLGATHER;
        make_even(&gather.recv, call->numbers, n);
    }
    if (!gather.in_place) {
        gather.send = side(at(call, op->from), NULL, NULL);
        gather.send.count = (size_t)call->numbers[l->index];
    }
    return dma_comm_post_in(c->local, &gather, NULL, NULL, call->task);
}

static dma_status_t post_exchange(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_cluster_call_t *call = &c->call;
    const dma_layout_t *l = &c->layout;
    int n = dma_layout_size(l, l->node);
    int64_t *number = call->numbers;
    dma_call_t exchange = {.coll = DMA_ALLTOALLV, .note = call->note};
    bool even = call->plan->req.coll == DMA_ALLTOALL;

    for (int i = 0; i < n; i++) {
        dma_cluster_part_t part = dma_cluster_part(call->plan, op, i);

        number[i] = (int64_t)part.get;
        number[n + i] = part.to;
        number[2 * n + i] = (int64_t)part.give;
        number[3 * n + i] = part.from;
        even = even && part.give == part.get && follows(number, n, i) && follows(number + 2 * n, n, i);
    }
    /* not by addresses: of empty buffers they may be equal on one rank alone */
    exchange.in_place = call->plan->req.in_place && op->from.base == DMA_CLUSTER_IN;
    exchange.recv = side(at(call, op->to), number, number + n);
    exchange.send = side(at(call, op->from), number + 2 * n, number + 3 * n);
    if (even) {
        exchange.coll = DMA_ALLTOALL;
        make_even(&exchange.recv, number, n);
        make_even(&exchange.send, number + 2 * n, n);
    }
    return dma_comm_post_in(c->local, &exchange, NULL, NULL, call->task);
}

static void copy(const dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    char *to = at(call, op->to);
    const char *from = at(call, op->from);

    for (uint32_t row = 0; row < op->rows && op->bytes; row++) {
        memcpy(to + (int64_t)row * op->to_pitch, from + (int64_t)row * op->from_pitch, op->bytes);
    }
}

/* ---- the lanes ---- */

static bool may_start(const dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    return op->need[0] <= call->ended[0] && op->need[1] <= call->ended[1] && op->need[2] <= call->ended[2];
}

static dma_status_t start_message(dma_cluster_t *c, int lane, uint32_t i)
{
    dma_cluster_call_t *call = &c->call;
    const dma_cluster_op_t *op = &call->plan->ops[lane][i];
    dma_wire_tag_t tag = {.comm = c->id,
                          .owner = c->owner,
                          .seq = call->seq,
                          .step = op->step,
                          .note = note_of_message(call, lane, op->peer)};
    void *peer;
    dma_status_t status = dma_cluster_meet(c, op->peer, &peer);

    if (status != DMA_OK) {
        return status;
    }
    return lane == DMA_SENT ? c->wire->isend(c->net, peer, &tag, at(call, op->from), op->bytes, &call->reqs[lane][i])
                            : c->wire->irecv(c->net, peer, &tag, at(call, op->to), op->bytes, &call->reqs[lane][i]);
}

static dma_status_t message_lane(dma_cluster_t *c, int lane)
{
    dma_cluster_call_t *call = &c->call;
    uint32_t busy = 0;
    dma_status_t status;

    for (uint32_t i = call->ended[lane]; i < call->started[lane]; i++) {
        void **req = &call->reqs[lane][i];

        if (*req && (status = c->wire->test(c->net, req)) < 0) {
            return status;
        }
        busy += *req != NULL;
        call->ended[lane] += !*req && i == call->ended[lane];
    }
    while (call->started[lane] < call->plan->nops[lane] && busy < call->plan->window[lane] &&
           may_start(call, &call->plan->ops[lane][call->started[lane]])) {
        if ((status = start_message(c, lane, call->started[lane])) != DMA_OK) {
            return status;
        }
        call->started[lane]++;
        busy++;
    }
    return DMA_OK;
}

/* Moves the communicator beneath on, unless another thread does. */
static dma_status_t move_local(dma_cluster_t *c)
{
    if (dma_comm_trylock(c->local)) {
        dma_comm_advance(c->local);
        dma_comm_watch(c->local);
        dma_comm_unlock(c->local);
    }
    return dma_task_test((dma_task_t *)(void *)c->call.task);
}

static dma_status_t start_local(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    if (op->code == DMA_CLUSTER_COPY) {
        copy(&c->call, op);
        return DMA_OK;
    }
    if (!c->local) {
        alone(&c->call, op);
        return DMA_OK;
    }
    return op->code == DMA_CLUSTER_GATHER ? post_gather(c, op) : post_exchange(c, op);
}

static dma_status_t local_lane(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    const dma_cluster_op_t *ops = call->plan->ops[DMA_LOCAL];
    dma_status_t status;

    for (;;) {
        uint32_t i = call->ended[DMA_LOCAL];

        if (i == call->plan->nops[DMA_LOCAL]) {
            return DMA_OK;
        }
        if (i == call->started[DMA_LOCAL]) {
            if (!may_start(call, &ops[i])) {
                return DMA_OK;
            }
            if ((status = start_local(c, &ops[i])) != DMA_OK) {
                return status;
            }
            call->started[DMA_LOCAL]++;
        }
        if (ops[i].code != DMA_CLUSTER_COPY && c->local && (status = move_local(c)) != DMA_OK) {
            return status == DMA_AGAIN ? DMA_OK : status;
        }
        call->ended[DMA_LOCAL]++;
    }
}

static bool over(const dma_cluster_call_t *call)
{
    for (int lane = 0; lane < DMA_LANES; lane++) {
        if (call->ended[lane] < call->plan->nops[lane]) {
            return false;
        }
    }
    return true;
}

static dma_status_t run(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    uint32_t before;
    dma_status_t status;

    if (!call->met && (status = meet(c)) != DMA_OK) {
        return status;
    }
    do { /* what one lane has ended may let another start */
        before = call->ended[0] + call->ended[1] + call->ended[2];
        c->wire->progress(c->net);
        if ((status = message_lane(c, DMA_RECEIVED)) != DMA_OK || (status = local_lane(c)) != DMA_OK ||
            (status = message_lane(c, DMA_SENT)) != DMA_OK) {
            return status;
        }
    } while (before != call->ended[0] + call->ended[1] + call->ended[2]);
    return over(call) ? DMA_OK : DMA_AGAIN;
}

dma_status_t dma_cluster_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    dma_status_t status;

    if (task != comm->head) {
        return DMA_AGAIN;
    }
    if (atomic_load_explicit(&task->state, memory_order_relaxed) == DMA_TASK_QUEUED) {
        atomic_store_explicit(&task->state, DMA_TASK_RUNNING, memory_order_relaxed);
        c->running = task;
        if ((status = begin(comm, task)) != DMA_OK) {
            return status;
        }
    }
    status = run(c);
    if (status == DMA_OK) {
        dma_cluster_end_call(c);
    }
    return status;
}

/* True when no message uses our memory any more. */
static bool quiet(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    double end = dma_now() + LAST_SECONDS;
    bool busy = false;

    for (int lane = 0; lane < 2; lane++) {
        for (uint32_t i = call->ended[lane]; i < call->started[lane]; i++) {
            if (call->reqs[lane][i]) {
                c->wire->cancel(c->net, call->reqs[lane][i]);
            }
        }
    }
    do {
        busy = false;
        c->wire->progress(c->net);
        for (int lane = 0; lane < 2; lane++) {
            for (uint32_t i = call->ended[lane]; i < call->started[lane]; i++) {
                busy = (call->reqs[lane][i] && c->wire->test(c->net, &call->reqs[lane][i]) == DMA_AGAIN) || busy;
            }
        }
    } while (busy && dma_now() < end);
    return !busy;
}

void dma_cluster_end_call(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;

    if (!call->plan) {
        return;
    }
    if (!call->reqs[0] || over(call) || quiet(c)) {
        free(call->temp); /* else a message of a call that has failed is under way and keeps it */
    }
    free(call->reqs[0]);
    if (!call->kept) {
        dma_cluster_free(call->plan);
    }
    call->plan = NULL;
    call->temp = NULL;
    call->reqs[0] = NULL;
    c->running = NULL;
}
