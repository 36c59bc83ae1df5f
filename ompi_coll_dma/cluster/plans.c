/*
 * The plans of calls. Plans of equal blocks are kept by operation and size, some others by all of their sizes. Other calls have a
 * plan of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/resolve.h"

/* Flags in the key of a kept plan, in bits that dma_sign leaves free. */
#define KEY_IN_PLACE     (UINT64_C(1) << 63)
#define KEY_RELAYED      (UINT64_C(1) << 62)
#define KEY_MIXED_MEMORY (UINT64_C(1) << 61)

/* ---- the plan ---- */

static bool equal_blocks(const dma_task_t *task)
{
    return dma_coll_sizes(task->coll) == DMA_SIZES_EQUAL;
}

static bool equal_arrays(const void *a, const void *b, size_t bytes)
{
    return a && b ? !memcmp(a, b, bytes) : a == b;
}

static bool equal_sides(const dma_blocks_t *a, const dma_blocks_t *b, size_t n)
{
    return a->bytes == b->bytes && equal_arrays(a->counts, b->counts, n * sizeof(*a->counts)) &&
           equal_arrays(a->displs, b->displs, n * sizeof(*a->displs));
}

/* Compares everything that a plan depends on, except constants of the communicator. The variant depends on sizes that
 * are compared here. */
static bool equal_requests(const dma_cluster_req_t *a, const dma_cluster_req_t *b)
{
    size_t n = (size_t)a->node_map->nranks;

    return a->coll == b->coll && a->in_place == b->in_place && a->relayed == b->relayed &&
           a->mixed_memory == b->mixed_memory && equal_sides(&a->send, &b->send, n) &&
           equal_sides(&a->recv, &b->recv, n);
}

static dma_cluster_plan_t *find_kept(dma_cluster_t *c, const dma_cluster_req_t *req)
{
    for (int i = 0; i < CLUSTER_KEPT; i++) {
        int k = (c->newest + i) % CLUSTER_KEPT;

        if (c->kept[k].plan && equal_requests(&c->kept[k].plan->req, req)) {
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

/* Keeps the plan in place of the least recently used one. False: it is not kept, and the call owns it. */
static bool keep_plan(dma_cluster_t *c, dma_cluster_plan_t *plan)
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

/* The variant that the user has named does not fit. */
static void report_forced(dma_comm_t *comm, const dma_task_t *task, const char *reason, int instead)
{
    dma_comm_count_reason(comm, DMA_REASON_variant_unfit);
    if (comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "forced", "%s cannot do %llu bytes between nodes (%s); %s instead",
                        dma_cluster_variants[comm->cluster->forced]->name, (unsigned long long)task->bytes, reason,
                        instead < 0 ? "nothing" : dma_cluster_variants[instead]->name);
    }
}

dma_status_t dma_cluster_find_plan(dma_comm_t *comm, const dma_task_t *task)
{
    dma_cluster_t *c = comm->cluster;
    bool relayed = c->call.on_device[DMA_CLUSTER_IN] && task->in_place && !dma_coll_gathers(task->coll);
    bool mixed_memory = c->call.on_device[DMA_CLUSTER_IN] != c->call.on_device[DMA_CLUSTER_OUT];
    uint64_t key = dma_sign(task->coll, false, task->bytes) | (task->in_place ? KEY_IN_PLACE : 0) |
                   (relayed ? KEY_RELAYED : 0) | (mixed_memory ? KEY_MIXED_MEMORY : 0);
    dma_cluster_memo_t *memo = &c->memo[dma_plan_hash(key, CLUSTER_MEMO_BITS)];
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
    const char *reason;
    dma_status_t status;
    int variant;

    call->kept = equal_blocks(task) && !task->run.recv.counts && !task->run.send.counts;
    if (call->kept && memo->plan && memo->key == key) {
        call->plan = memo->plan;
        return DMA_OK;
    }
    if (!call->kept && (call->plan = find_kept(c, &req))) {
        call->kept = true;
        return DMA_OK;
    }
    dma_comm_count(comm, DMA_COUNT_plans_chosen);
    variant = dma_cluster_choose(&c->profile, &req, task->bytes, c->forced, &reason);
    if (reason) {
        report_forced(comm, task, reason, variant);
    }
    if (variant < 0) {
        return DMA_ERR_ENGINE;
    }
    status = dma_cluster_build(&req, variant, &call->plan);
    if (status == DMA_OK) {
        dma_comm_count(comm, DMA_COUNT_plans_built);
    }
    if (status == DMA_OK && call->kept) {
        dma_cluster_free(memo->plan);
        memo->plan = call->plan;
        memo->key = key;
    } else if (status == DMA_OK) {
        call->kept = keep_plan(c, call->plan);
    }
    return status;
}

void dma_cluster_drop_plan(dma_cluster_call_t *call)
{
    if (call->plan && !call->kept) {
        dma_cluster_free(call->plan);
    }
    call->plan = NULL;
}
