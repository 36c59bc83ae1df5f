/*
 * Running a cluster plan: its three lanes, each in order, independently of each other.
 *
 * A wait, or progress, advances the call. It tests the messages and advances the collective of the node communicator.
 * The lock of the node communicator is taken with the lock of the communicator held, never the other way round.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"
#include "core/resolve.h"
#include "device/device.h"
#include "dma/copy.h"

/* Turns of a call without a message in flight between two polls of the network, which may be system calls; a power of two. */
#define LOCAL_TURNS 8

/* ---- the beginning ---- */

/* The note of the messages of a call, and of its node-local collectives. */
static uint32_t call_note(const dma_task_t *task, int nranks)
{
    uint64_t sizes = dma_coll_sizes(task->coll) == DMA_SIZES_EQUAL ? task->bytes : 0;

    if (dma_coll_sizes(task->coll) == DMA_SIZES_SHARED) {
        sizes = dma_blocks_digest(&task->run.recv, nranks);
    }
    return dma_cluster_note(task->coll, sizes);
}

/* Sets the addresses of the buffers. Those in device memory are staged in host memory as a whole, unless they are `relayed`. */
static dma_status_t locate_buffers(dma_comm_t *comm, dma_task_t *task, bool relayed, dma_reason_t why)
{
    dma_cluster_call_t *call = &comm->cluster->call;
    struct dma_device_call *d = task->device;
    dma_status_t status;

    if (d && !relayed && (status = dma_device_stage(task, why)) != DMA_OK) {
        return status;
    }
    call->base[DMA_CLUSTER_OUT] = task->run.send.addr;
    call->base[DMA_CLUSTER_IN] = task->run.recv.addr;
    call->on_device[DMA_CLUSTER_OUT] = relayed && d->send_on;
    call->on_device[DMA_CLUSTER_IN] = relayed && d->recv_on;
    return DMA_OK;
}

/* The largest piece that a message of the plan has. */
static uint64_t largest_piece(const dma_cluster_t *c)
{
    const dma_cluster_plan_t *plan = c->call.plan;
    uint64_t bytes = 1;

    for (int lane = 0; lane < 2; lane++) {
        for (uint32_t i = 0; i < plan->nops[lane]; i++) {
            bytes = plan->ops[lane][i].bytes > bytes ? plan->ops[lane][i].bytes : bytes;
        }
    }
    return bytes < c->piece ? bytes : c->piece;
}

static dma_status_t acquire_relay(dma_comm_t *comm, const dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    const struct dma_device_call *d = task->device;
    dma_status_t status = dma_relay_acquire(&c->call.own_relay, comm->proc, d->rt, d->device, largest_piece(c));

    if (status == DMA_OK) {
        c->call.relay = &c->call.own_relay;
        return DMA_OK;
    }
    dma_proc_report(comm->proc, DMA_REPORT_WARN, "no relay",
                    "there is no pinned memory for device memory of %s (%s): its calls are staged as a whole",
                    comm->text, status == DMA_ERR_NOMEM ? "no memory" : dma_gpu_error());
    return DMA_UNSUPPORTED;
}

/* The size of a relay follows from the plan. The plan of a call without one is another one. */
static dma_status_t find_buffers_and_plan(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    bool relayed = d && d->relayed && !d->staged;
    dma_status_t status = locate_buffers(comm, task, relayed, d ? d->why : DMA_REASON_NONE);

    status = status == DMA_OK ? dma_cluster_find_plan(comm, task) : status;
    if (status == DMA_OK && relayed && acquire_relay(comm, task) != DMA_OK) {
        dma_cluster_drop_plan(&comm->cluster->call);
        status = locate_buffers(comm, task, false, DMA_REASON_staged_relay);
        status = status == DMA_OK ? dma_cluster_find_plan(comm, task) : status;
    }
    return status;
}

static dma_status_t alloc_scratch(dma_cluster_call_t *call)
{
    uint64_t bytes = call->plan->temp_bytes;

    call->on_device[DMA_CLUSTER_TEMP] = false;
    if (bytes && call->relay) {
        return dma_relay_scratch(call->relay, bytes, &call->base[DMA_CLUSTER_TEMP], &call->on_device[DMA_CLUSTER_TEMP]);
    }
    call->base[DMA_CLUSTER_TEMP] = call->temp = bytes ? malloc(bytes) : NULL;
    return bytes && !call->temp ? DMA_ERR_NOMEM : DMA_OK;
}

static dma_status_t begin_call(dma_comm_t *comm, dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    dma_cluster_call_t *call = &c->call;
    dma_status_t status;

    if ((status = find_buffers_and_plan(comm, task)) != DMA_OK || (status = alloc_scratch(call)) != DMA_OK) {
        return status;
    }
    c->variant_seq = task->run.seq;
    c->variant = call->plan->variant;
    c->trace = comm->trace;
    dma_trace_plan(c->trace, task->run.seq, DMA_TRACE_NETWORK, dma_cluster_variants[call->plan->variant]->name);
    call->seq = (uint32_t)task->run.seq % ((uint32_t)INT32_MAX);
    call->note = call_note(task, comm->nranks);
    call->waiting_since = 0;
    call->connected = false;
    call->copying = false;
    memset(call->started, 0, sizeof(call->started));
    memset(call->ended, 0, sizeof(call->ended));
    return dma_lanes_begin(c);
}

/* Connects to all peers of the plan. */
static dma_status_t connect_peers(dma_cluster_t *c)
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
    call->connected = all == DMA_OK;
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

/* Is part i as large as the first one, and i parts behind it? With equal blocks all ranks of the node find the same. */
static bool in_sequence(const int64_t *numbers, int n, int i)
{
    return numbers[i] == numbers[0] && numbers[n + i] == numbers[n] + i * numbers[0];
}

static void use_equal_blocks(dma_side_t *side, const int64_t *numbers, int n)
{
    side->addr = (char *)side->addr + numbers[n];
    side->count = (size_t)numbers[0];
    side->counts = side->displs = NULL;
}

/* Copies rows between two places of this rank; the engine of the relay does so if one of them is in device memory. */
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

/* A GATHER or EXCHANGE of a rank that is alone on its node. */
static dma_status_t copy_own_part(dma_cluster_call_t *call, const dma_cluster_op_t *op)
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
    const dma_node_map_t *map = &c->node_map;
    int n = dma_node_map_size(map, map->node);
    dma_call_t gather = {.coll = DMA_ALLGATHERV, .note = call->note};
    bool equal = dma_coll_sizes(call->plan->req.coll) == DMA_SIZES_EQUAL;

    for (int i = 0; i < n; i++) {
        dma_cluster_part_t part = dma_cluster_part(call->plan, op, i);

        call->node_counts[i] = (int64_t)part.get;
        call->node_counts[n + i] = part.to;
        equal = equal && in_sequence(call->node_counts, n, i);
    }
    gather.recv = side(dma_cluster_at(call, op->to), call->node_counts, call->node_counts + n);
    gather.in_place =
        dma_cluster_at(call, op->from) == dma_cluster_at(call, op->to) + call->node_counts[n + map->index];
    if (equal) {
        gather.coll = DMA_ALLGATHER;
        use_equal_blocks(&gather.recv, call->node_counts, n);
    }
    if (!gather.in_place) {
        gather.send = side(dma_cluster_at(call, op->from), NULL, NULL);
        gather.send.count = (size_t)call->node_counts[map->index];
    }
    return dma_comm_post_task(c->node_comm, &gather, call->node_arrays, NULL, NULL,
                              (dma_task_t *)(void *)call->node_task, NULL);
}

static dma_status_t post_exchange(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_cluster_call_t *call = &c->call;
    const dma_node_map_t *map = &c->node_map;
    int n = dma_node_map_size(map, map->node);
    int64_t *number = call->node_counts;
    dma_call_t exchange = {.coll = DMA_ALLTOALLV, .note = call->note};
    bool equal = dma_coll_sizes(call->plan->req.coll) == DMA_SIZES_EQUAL;

    for (int i = 0; i < n; i++) {
        dma_cluster_part_t part = dma_cluster_part(call->plan, op, i);

        number[i] = (int64_t)part.get;
        number[n + i] = part.to;
        number[2 * n + i] = (int64_t)part.give;
        number[3 * n + i] = part.from;
        equal = equal && part.give == part.get && in_sequence(number, n, i) && in_sequence(number + 2 * n, n, i);
    }
    /* Addresses would not do: those of empty buffers may be equal on one rank only. */
    exchange.in_place = call->plan->req.in_place && op->from.base == DMA_CLUSTER_IN;
    exchange.recv = side(dma_cluster_at(call, op->to), number, number + n);
    exchange.send = side(dma_cluster_at(call, op->from), number + 2 * n, number + 3 * n);
    if (equal) {
        exchange.coll = DMA_ALLTOALL;
        use_equal_blocks(&exchange.recv, number, n);
        use_equal_blocks(&exchange.send, number + 2 * n, n);
    }
    return dma_comm_post_task(c->node_comm, &exchange, call->node_arrays, NULL, NULL,
                              (dma_task_t *)(void *)call->node_task, NULL);
}

/* ---- LOCAL ---- */

/* Advances the node communicator, unless another thread does. */
static dma_status_t progress_node_call(dma_cluster_t *c)
{
    if (dma_comm_trylock(c->node_comm)) {
        c->node_comm->turns = c->turns;
        dma_comm_advance(c->node_comm);
        dma_comm_watch(c->node_comm);
        c->call.node_position = dma_comm_position(c->node_comm);
        dma_comm_unlock(c->node_comm);
    }
    return dma_task_test((dma_task_t *)(void *)c->call.node_task);
}

static dma_status_t start_op(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    if (op->code == DMA_CLUSTER_COPY) {
        return copy(&c->call, op->to, op->from, op);
    }
    if (!c->node_comm) {
        return copy_own_part(&c->call, op);
    }
    return op->code == DMA_CLUSTER_GATHER ? post_gather(c, op) : post_exchange(c, op);
}

/* Advances a started operation. DMA_OK: it has ended. */
static dma_status_t test_op(dma_cluster_t *c, const dma_cluster_op_t *op)
{
    dma_status_t status = DMA_OK;

    if (c->call.copying) {
        status = dma_relay_test(c->call.relay, DMA_RELAY_LOCAL, 0);
        c->call.copying = status == DMA_AGAIN;
    } else if (op->code != DMA_CLUSTER_COPY && c->node_comm) {
        status = progress_node_call(c);
    }
    return status;
}

static dma_status_t advance_local_lane(dma_cluster_t *c)
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
            call->local_began = dma_trace_begin(c->trace);
            if ((status = start_op(c, &ops[i])) != DMA_OK) {
                return status;
            }
            call->started[DMA_LANE_LOCAL]++;
        }
        if ((status = test_op(c, &ops[i])) != DMA_OK) {
            return status == DMA_AGAIN ? DMA_OK : status;
        }
        dma_trace_span(c->trace, DMA_TRACE_LOCAL, c->running_task->run.seq, 0, call->local_began, i);
        call->ended[DMA_LANE_LOCAL]++;
        call->state_changes++;
    }
}

static bool all_done(const dma_cluster_call_t *call)
{
    for (int lane = 0; lane < DMA_LANES; lane++) {
        if (call->ended[lane] < call->plan->nops[lane]) {
            return false;
        }
    }
    return true;
}

/* No piece is in progress in SEND or RECV. */
static bool lanes_idle(const dma_cluster_t *c)
{
    return c->lanes[DMA_LANE_SEND].first == c->lanes[DMA_LANE_SEND].next &&
           c->lanes[DMA_LANE_RECV].first == c->lanes[DMA_LANE_RECV].next;
}

/* If no message is in flight, the call waits for its node only. It polls the network now and then even so, because
 * other ranks may need what the network still has to send. */
static void progress_network(dma_cluster_t *c)
{
    if (dma_turns_count(&c->call.local_turns, lanes_idle(c) ? c->turns : LOCAL_TURNS, LOCAL_TURNS)) {
        c->net_ops->progress(c->net);
    }
}

static dma_status_t advance_call(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;
    uint64_t before;
    dma_status_t status;

    if (!call->connected && (status = connect_peers(c)) != DMA_OK) {
        return status;
    }
    do { /* an operation that has ended may let another lane start one */
        before = call->state_changes;
        progress_network(c);
        if ((status = dma_lane_advance(c, DMA_LANE_RECV)) != DMA_OK || (status = advance_local_lane(c)) != DMA_OK ||
            (status = dma_lane_advance(c, DMA_LANE_SEND)) != DMA_OK) {
            return status;
        }
    } while (before != call->state_changes);
    return all_done(call) ? DMA_OK : DMA_AGAIN;
}

const char *dma_cluster_call_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_cluster_t *c = comm->cluster;

    return dma_task_state(task) == DMA_TASK_QUEUED || task != c->running_task ? "queued"
           : !c->call.connected                                               ? "connections"
           : lanes_idle(c)                                                    ? "inside the node"
                                                                              : "messages";
}

uint64_t dma_cluster_position(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return comm->cluster->call.state_changes + comm->cluster->call.node_position;
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
        c->running_task = task;
        if ((status = begin_call(comm, task)) != DMA_OK) {
            return status;
        }
        dma_comm_count(comm, DMA_COUNT_calls_nodes);
        dma_comm_count(comm, DMA_COUNT_NET_VARIANT + c->call.plan->variant);
    }
    c->turns = comm->turns;
    status = advance_call(c);
    if (status == DMA_OK) {
        dma_cluster_end_call(c);
    }
    return status;
}

void dma_cluster_end_call(dma_cluster_t *c)
{
    dma_cluster_call_t *call = &c->call;

    bool failed = call->plan && !all_done(call);

    if (failed) {
        dma_lanes_stop(c);
    }
    if (call->relay) {
        dma_relay_release(call->relay, failed && c->node_comm && c->node_comm->device ? c->node_comm : NULL);
    }
    free(call->temp);
    dma_cluster_drop_plan(call);
    call->relay = NULL;
    call->temp = NULL;
    c->running_task = NULL;
}
