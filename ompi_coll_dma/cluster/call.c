/*
 * Running cluster plans: three lanes, each in order, side by side.
 *
 * Everything moves on from the progress of whoever waits: messages are tested, node-local calls are moved on with the lock
 * of their communicator, which is taken with ours held and never the other way round.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"
#include "device/device.h"
#include "dma/copy.h"

#define INSIDE_TURNS 8 /* between two looks at the network, which may be a system call */

/* ---- the plan ---- */

static bool even(const dma_task_t *task)
{
    return task->coll == DMA_ALLGATHER || task->coll == DMA_ALLTOALL;
}

static bool same_numbers(const void *a, const void *b, size_t bytes)
{
    return a && b ? !memcmp(a, b, bytes) : a == b;
}

static bool same_side(const dma_blocks_t *a, const dma_blocks_t *b, size_t n)
{
    return a->bytes == b->bytes && same_numbers(a->counts, b->counts, n * sizeof(*a->counts)) &&
           same_numbers(a->displs, b->displs, n * sizeof(*a->displs));
}

/* All that a plan follows from, but for what is fixed with the communicator; the choice goes by sizes that are in here. */
static bool same(const dma_cluster_req_t *a, const dma_cluster_req_t *b)
{
    size_t n = (size_t)a->node_map->nranks;

    return a->coll == b->coll && a->in_place == b->in_place && a->relayed == b->relayed &&
           a->mixed_memory == b->mixed_memory && same_side(&a->send, &b->send, n) && same_side(&a->recv, &b->recv, n);
}

static dma_cluster_plan_t *find_kept(dma_cluster_t *c, const dma_cluster_req_t *req)
{
    for (int i = 0; i < CLUSTER_KEPT; i++) {
        int k = (c->newest + i) % CLUSTER_KEPT;

        if (c->kept[k].plan && same(&c->kept[k].plan->req, req)) {
            c->newest = k;
            return c->kept[k].plan;
        }
    }
    return NULL;
}

static dma_blocks_t copy_side(const dma_blocks_t *side, uint64_t *numbers, size_t n)
{
    dma_blocks_t copy = {.bytes = side->bytes};

    if (side->counts) {
        copy.counts = memcpy(numbers, side->counts, n * sizeof(*side->counts));
    }
    if (side->displs) {
        copy.displs = memcpy(numbers + n, side->displs, n * sizeof(*side->displs));
    }
    return copy;
}

/* In place of the one that has not been used for longer. Whether it is kept: without room it is the call's alone. */
static bool keep(dma_cluster_t *c, dma_cluster_plan_t *plan)
{
    size_t n = (size_t)c->node_map.nranks;
    int k = (c->newest + 1) % CLUSTER_KEPT;
    dma_cluster_kept_t *kept = &c->kept[k];

    if (dma_cluster_bytes(plan) > CLUSTER_KEPT_BYTES ||
        (!kept->numbers && !(kept->numbers = malloc(4 * n * sizeof(*kept->numbers))))) {
        return false;
    }
    dma_cluster_free(kept->plan);
    plan->req.send = copy_side(&plan->req.send, kept->numbers, n);
    plan->req.recv = copy_side(&plan->req.recv, kept->numbers + 2 * n, n);
    kept->plan = plan;
    c->newest = k;
    return true;
}

void dma_cluster_free_plans(dma_cluster_t *c)
{
    for (int i = 0; i < CLUSTER_MEMO; i++) {
        dma_cluster_free(c->memo[i].plan);
    }
    for (int i = 0; i < CLUSTER_KEPT; i++) {
        dma_cluster_free(c->kept[i].plan);
        free(c->kept[i].numbers);
    }
}

static dma_status_t find_plan(dma_cluster_t *c, const dma_task_t *task)
{
    bool relayed = c->call.on_device[DMA_CLUSTER_IN] && task->in_place && !dma_coll_gathers(task->coll);
    bool mixed_memory = c->call.on_device[DMA_CLUSTER_IN] != c->call.on_device[DMA_CLUSTER_OUT];
    uint64_t key = dma_sign(task->coll, false, task->bytes) | (uint64_t)task->in_place << 63 | (uint64_t)relayed << 62 |
                   (uint64_t)mixed_memory << 61;
    dma_cluster_memo_t *memo = &c->memo[(key * UINT64_C(0x9e3779b97f4a7c15) >> 60) % CLUSTER_MEMO];
    dma_cluster_call_t *call = &c->call;
    dma_cluster_req_t req = {
        .coll = task->coll,
        .in_place = task->in_place,
        .relayed = relayed,
        .mixed_memory = mixed_memory,
        .node_map = &c->node_map,
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
    if (!call->kept && (call->plan = find_kept(c, &req))) {
        call->kept = true;
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
    } else if (status == DMA_OK) {
        call->kept = keep(c, call->plan);
    }
    return status;
}

static uint32_t note_of_call(const dma_node_map_t *l, const dma_task_t *task)
{
    uint64_t sizes = even(task) ? task->bytes : 0;

    for (int r = 0; task->coll == DMA_ALLGATHERV && r < l->nranks; r++) {
        sizes = (sizes ^ dma_blocks_bytes(&task->run.recv, (uint64_t)r)) * UINT64_C(0x9e3779b97f4a7c15);
        sizes ^= sizes >> 29;
    }
    return dma_cluster_note(task->coll, sizes);
}

/* Where the task's sides are, and a relay if one of them is device memory. Without one they are staged as a whole. */
static dma_status_t find_sides(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_call_t *call = &comm->cluster->call;
    struct dma_device_call *d = task->device;
    bool relayed = d && d->relayed && d->phase != DEVICE_ON_HOST;
    dma_status_t status;

    if (relayed &&
        (status = dma_relay_take(comm->proc, d->rt, d->device, comm->cluster->piece, &call->relay)) != DMA_OK) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "no relay",
                        "there is no pinned memory for device memory of %s (%s): its calls are staged as a whole",
                        comm->text, status == DMA_ERR_NOMEM ? "no memory" : dma_gpu_error());
        call->relay = NULL;
        relayed = false;
    }
    if (d && !relayed && (status = dma_device_stage(task)) != DMA_OK) {
        return status;
    }
    if (relayed) {
        d->phase = DEVICE_RUN;
    }
    call->base[DMA_CLUSTER_OUT] = task->run.send.addr;
    call->base[DMA_CLUSTER_IN] = task->run.recv.addr;
    call->on_device[DMA_CLUSTER_OUT] = relayed && d->send_on;
    call->on_device[DMA_CLUSTER_IN] = relayed && d->recv_on;
    return DMA_OK;
}

static dma_status_t find_scratch(dma_cluster_call_t *call)
{
    uint64_t bytes = call->plan->temp_bytes;

    call->on_device[DMA_CLUSTER_TEMP] = false;
    if (bytes && call->relay) {
        return dma_relay_scratch(call->relay, bytes, &call->base[DMA_CLUSTER_TEMP], &call->on_device[DMA_CLUSTER_TEMP]);
    }
    call->base[DMA_CLUSTER_TEMP] = call->temp = bytes ? malloc(bytes) : NULL;
    return bytes && !call->temp ? DMA_ERR_NOMEM : DMA_OK;
}

static dma_status_t begin(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    dma_cluster_call_t *call = &c->call;
    dma_status_t status;

    if ((status = find_sides(comm, task)) != DMA_OK || (status = find_plan(c, task)) != DMA_OK ||
        (status = find_scratch(call)) != DMA_OK) {
        return status;
    }
    call->seq = (uint32_t)task->run.seq % ((uint32_t)INT32_MAX);
    call->note = note_of_call(&c->node_map, task);
    call->since = 0;
    call->met = false;
    call->copying = false;
    memset(call->started, 0, sizeof(call->started));
    memset(call->ended, 0, sizeof(call->ended));
    return dma_lanes_begin(c);
}

/* All whom the plan has messages for or from. */
static dma_status_t meet(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    dma_status_t all = DMA_OK;

    for (int lane = 0; lane < 2; lane++) {
        for (uint32_t i = 0; i < call->plan->nops[lane]; i++) {
            void *peer;
            dma_status_t status = dma_cluster_connect_peer(c, call->plan->ops[lane][i].peer, &peer);

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

/* Rows between two places of this rank; by the engine where one of them is device memory. */
static dma_status_t copy(dma_cluster_call_t *call, dma_cluster_addr_t to, dma_cluster_addr_t from,
                         const dma_cluster_op_t *rows)
{
    char *into = dma_cluster_at(call, to);
    const char *out = dma_cluster_at(call, from);

    if (!rows->bytes || into == out) {
        return DMA_OK;
    }
    if (call->on_device[to.base] || call->on_device[from.base]) {
        call->copying = true;
        return dma_relay_copy(call->relay, into, rows->to_pitch, out, rows->from_pitch, rows->bytes, rows->rows);
    }
    for (uint32_t row = 0; row < rows->rows; row++) {
        dma_copy(into + (int64_t)row * rows->to_pitch, out + (int64_t)row * rows->from_pitch, rows->bytes);
    }
    return DMA_OK;
}

/* A node with one rank: what it would give itself. */
static dma_status_t alone(dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    dma_cluster_part_t part = dma_cluster_part(call->plan, op, 0);
    dma_cluster_op_t row = {.bytes = part.get, .rows = 1};
    dma_cluster_addr_t to = op->to, from = op->from;

    to.at += part.to;
    from.at += op->code == DMA_CLUSTER_GATHER ? 0 : part.from;
    return copy(call, to, from, &row);
}

static dma_status_t post_gather(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_cluster_call_t *call = &c->call;
    const dma_node_map_t *l = &c->node_map;
    int n = dma_node_map_size(l, l->node);
    dma_call_t gather = {.coll = DMA_ALLGATHERV, .note = call->note};
    bool even = call->plan->req.coll == DMA_ALLGATHER;

    for (int i = 0; i < n; i++) {
        dma_cluster_part_t part = dma_cluster_part(call->plan, op, i);

        call->numbers[i] = (int64_t)part.get;
        call->numbers[n + i] = part.to;
        even = even && follows(call->numbers, n, i);
    }
    gather.recv = side(dma_cluster_at(call, op->to), call->numbers, call->numbers + n);
    gather.in_place = dma_cluster_at(call, op->from) == dma_cluster_at(call, op->to) + call->numbers[n + l->index];
    if (even) {
        gather.coll = DMA_ALLGATHER;
        make_even(&gather.recv, call->numbers, n);
    }
    if (!gather.in_place) {
        gather.send = side(dma_cluster_at(call, op->from), NULL, NULL);
        gather.send.count = (size_t)call->numbers[l->index];
    }
    return dma_comm_post_task(c->local, &gather, call->arrays, NULL, NULL, (dma_task_t *)(void *)call->task, NULL);
}

static dma_status_t post_exchange(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_cluster_call_t *call = &c->call;
    const dma_node_map_t *l = &c->node_map;
    int n = dma_node_map_size(l, l->node);
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
    exchange.recv = side(dma_cluster_at(call, op->to), number, number + n);
    exchange.send = side(dma_cluster_at(call, op->from), number + 2 * n, number + 3 * n);
    if (even) {
        exchange.coll = DMA_ALLTOALL;
        make_even(&exchange.recv, number, n);
        make_even(&exchange.send, number + 2 * n, n);
    }
    return dma_comm_post_task(c->local, &exchange, call->arrays, NULL, NULL, (dma_task_t *)(void *)call->task, NULL);
}

/* ---- the local lane ---- */

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
        return copy(&c->call, op->to, op->from, op);
    }
    if (!c->local) {
        return alone(&c->call, op);
    }
    return op->code == DMA_CLUSTER_GATHER ? post_gather(c, op) : post_exchange(c, op);
}

/* The operation that has been started: DMA_OK when it is over. */
static dma_status_t move_on(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_status_t status = DMA_OK;

    if (c->call.copying) {
        status = dma_relay_test(c->call.relay, DMA_RELAY_INSIDE, 0);
        c->call.copying = status == DMA_AGAIN;
    } else if (op->code != DMA_CLUSTER_COPY && c->local) {
        status = move_local(c);
    }
    return status;
}

static dma_status_t local_lane(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    const dma_cluster_op_t *ops = call->plan->ops[DMA_LANE_LOCAL];
    dma_status_t status;

    for (;;) {
        uint32_t i = call->ended[DMA_LANE_LOCAL];

        if (i == call->plan->nops[DMA_LANE_LOCAL]) {
            return DMA_OK;
        }
        if (i == call->started[DMA_LANE_LOCAL]) {
            if (!dma_cluster_may_start(call, &ops[i])) {
                return DMA_OK;
            }
            if ((status = start_local(c, &ops[i])) != DMA_OK) {
                return status;
            }
            call->started[DMA_LANE_LOCAL]++;
        }
        if ((status = move_on(c, &ops[i])) != DMA_OK) {
            return status == DMA_AGAIN ? DMA_OK : status;
        }
        call->ended[DMA_LANE_LOCAL]++;
        call->moves++;
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

/* Who waits for ranks of its node alone looks at the network now and then: others may need what is left there. */
static void move_network(dma_cluster_t *c)
{
    if (!dma_lanes_idle(c) || ++c->call.inside % INSIDE_TURNS == 0) {
        c->wire->progress(c->net);
    }
}

static dma_status_t run(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    uint64_t before;
    dma_status_t status;

    if (!call->met && (status = meet(c)) != DMA_OK) {
        return status;
    }
    do { /* what one lane has ended may let another start */
        before = call->moves;
        move_network(c);
        if ((status = dma_lane_advance(c, DMA_LANE_RECV)) != DMA_OK || (status = local_lane(c)) != DMA_OK ||
            (status = dma_lane_advance(c, DMA_LANE_SEND)) != DMA_OK) {
            return status;
        }
    } while (before != call->moves);
    return over(call) ? DMA_OK : DMA_AGAIN;
}

dma_wait_t dma_cluster_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    int rank = dma_lanes_waits_for(comm->cluster);

    (void)task;
    return (dma_wait_t){.kind = rank >= 0 ? DMA_WAIT_MESSAGE : DMA_WAIT_NONE, .rank = rank};
}

dma_status_t dma_cluster_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    dma_status_t status;

    if (task != comm->head) {
        return DMA_AGAIN;
    }
    if (dma_task_state(task) == DMA_TASK_QUEUED) {
        dma_task_set_running(task);
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

void dma_cluster_end_call(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;

    if (call->plan && !over(call)) {
        dma_lanes_stop(c);
    }
    if (call->relay) {
        dma_relay_give(c->proc, call->relay);
    }
    free(call->temp);
    if (call->plan && !call->kept) {
        dma_cluster_free(call->plan);
    }
    call->plan = NULL;
    call->relay = NULL;
    call->temp = NULL;
    c->running = NULL;
}
