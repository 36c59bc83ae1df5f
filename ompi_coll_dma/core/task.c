/*
 * Tasks: from a call to a bound plan, through the queue, to completion.
 *
 * What runs is chosen when a task starts, not when it is posted: one that reads peers' memory starts when its predecessor has
 * ended, which may have taught all ranks that they cannot after all. A rank that is refused says so in the
 * descriptor of its next call of that kind, which all read in that call: so all learn it there, or none. What they choose later
 * without reading they would have chosen anyway.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "core/comm.h"
#include "core/resolve.h"
#include "device/device.h"

/* In an all-to-all all ranks are in place or none, and the choice may depend on it. */
static inline bool counts_in_place(const dma_task_t *task)
{
    return task->in_place && !dma_coll_gathers(task->coll);
}

static inline uint64_t key_of(const dma_task_t *task)
{
    return dma_sign(task->coll, task->in_place, task->bytes);
}

static inline dma_memo_t *memo_of(dma_comm_t *comm, uint64_t key)
{
    return &comm->memo[key * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

_Static_assert(DMA_MEMO == 64, "the hash above yields 6 bits");

static unsigned variant_count(void)
{
    unsigned n = 0;

    while (dma_variants[n]) {
        n++;
    }
    return n;
}

size_t dma_plans_count(void)
{
    return 2 * (size_t)DMA_COLL_COUNT * variant_count();
}

/* The plans of an operation and a variant: out of place, in place. */
static dma_plan_t **plans_of(const dma_comm_t *comm, const dma_task_t *task, const dma_memo_t *memo)
{
    return comm->plans + 2 * (task->coll * variant_count() + memo->choice.variant);
}

static dma_plan_req_t request(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_plan_req_t req = comm->req;

    req.coll = task->coll;
    req.bytes = task->bytes;
    req.in_place = task->in_place;
    return req;
}

static dma_status_t choose(dma_comm_t *comm, const dma_task_t *task, dma_memo_t *memo)
{
    dma_plan_req_t req = request(comm, task);
    const char *reason;
    dma_status_t status;
    dma_plan_t **plans;

    req.in_place = counts_in_place(task);
    status = dma_plan_choose(&comm->profile, &req, comm->forced, &memo->choice, &reason);
    if (reason && comm->forced >= 0 && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "forced", "%s cannot do %llu bytes (%s); %s instead",
                        dma_variants[comm->forced]->name, (unsigned long long)task->bytes, reason,
                        status == DMA_OK ? dma_variants[memo->choice.variant]->name : "nothing");
    }
    if (status != DMA_OK) {
        return status;
    }
    plans = plans_of(comm, task, memo);
    memo->plans[0] = plans[0];
    memo->plans[1] = plans[1];
    memo->key = key_of(task);
    return DMA_OK;
}

/* An engine is not given a plan with operations that it does not have. */
static bool can_run(const dma_engine_t *engine, const dma_plan_t *plan)
{
    for (uint32_t i = 0; i < plan->nprogs; i++) {
        for (uint32_t k = 0; k < plan->progs[i].nops; k++) {
            if (!(engine->ops >> plan->progs[i].ops[k].code & 1)) {
                return false;
            }
        }
    }
    return true;
}

/* The plan for a task; built at the first call that needs it, then kept. */
static dma_status_t find_plan(dma_comm_t *comm, const dma_task_t *task, const dma_plan_t **plan, uint32_t *chunk)
{
    uint64_t key = key_of(task);
    dma_memo_t *memo = memo_of(comm, key);
    dma_status_t status;

    if (__builtin_expect(memo->key != key, 0) && (status = choose(comm, task, memo)) != DMA_OK) {
        return status;
    }
    *chunk = memo->choice.chunk;
    if (__builtin_expect(!memo->plans[task->in_place], 0)) {
        dma_plan_req_t req = request(comm, task);
        dma_plan_t **cached = plans_of(comm, task, memo) + task->in_place;

        if (!*cached && (status = dma_plan_build(&req, &memo->choice, comm->rank, cached)) != DMA_OK) {
            return status;
        }
        if (!can_run(comm->engine, *cached)) {
            return DMA_ERR_ENGINE;
        }
        memo->plans[task->in_place] = *cached;
    }
    *plan = memo->plans[task->in_place];
    return DMA_OK;
}

size_t dma_arrays_total(int nranks)
{
    /* no plan has more programs than one, and two per peer */
    return dma_arrays_bytes(nranks) + (2 * (size_t)nranks + 1) * sizeof(dma_cursor_t);
}

dma_status_t dma_task_arrays(dma_comm_t *comm, dma_task_t *task)
{
    if (!task->arrays) {
        task->arrays = malloc(dma_arrays_total(comm->nranks));
        task->own_arrays = true;
    }
    return task->arrays ? DMA_OK : DMA_ERR_NOMEM;
}

static dma_status_t bind(dma_comm_t *comm, dma_task_t *task, const dma_plan_t *plan, uint32_t chunk)
{
    dma_run_t *run = &task->run;

    run->cursors = &task->cursor;
    if (plan->nprogs > 1) {
        if (dma_task_arrays(comm, task) != DMA_OK) {
            return DMA_ERR_NOMEM;
        }
        run->cursors = (dma_cursor_t *)((char *)task->arrays + dma_arrays_bytes(comm->nranks));
    }
    run->plan = plan;
    run->window = &comm->window;
    run->chunk = chunk;
    run->stream = comm->stream;
    run->pair_out = comm->pair_out;
    run->pair_in = comm->pair_in;
    /* Calls that read run one by one, so what the one before has taught is known; but a first entry may have been earlier. Its
     * descriptor is what all go by. */
    run->sign_flags = run->second_entry ? dma_window_desc(&comm->window, comm->rank, run->seq)->sign & DMA_SIGN_REFUSED
                      : plan->fallback_max_bytes ? dma_comm_sign_flags(comm)
                                                 : 0;
    run->refused_rank = run->sign_flags ? comm->rank : -1;
    return DMA_OK;
}

dma_status_t dma_task_bind(dma_comm_t *comm, dma_task_t *task)
{
    const dma_plan_t *plan;
    dma_status_t status;
    uint32_t chunk;

    status = find_plan(comm, task, &plan, &chunk);
    if (status != DMA_OK) {
        return status;
    }
    if (plan->streams && comm->streaming != task) {
        if (comm->streaming) {
            return DMA_AGAIN;
        }
        comm->streaming = task;
    }
    status = bind(comm, task, plan, chunk);
    if (status == DMA_OK) {
        atomic_store_explicit(&task->state, DMA_TASK_RUNNING, memory_order_relaxed);
        status = comm->engine->start(&task->run);
    }
    return status;
}

/* DMA_AGAIN: it must wait for its turn. */
static dma_status_t start(dma_comm_t *comm, dma_task_t *task)
{
    bool frozen = __builtin_expect(task->device != NULL, 0) && task->device->frozen; /* publishes nothing */

    if (!frozen && !dma_window_may_publish(&comm->window, (uint32_t)task->run.seq)) {
        return DMA_AGAIN;
    }
    return __builtin_expect(task->device != NULL, 0) ? dma_device_begin(comm, task) : dma_task_bind(comm, task);
}

/* The streams that this call has used have moved on by its chunks. */
static void stream_on(dma_comm_t *comm, const dma_task_t *task)
{
    for (uint32_t i = 0; i < task->run.plan->nprogs; i++) {
        const dma_prog_t *prog = &task->run.plan->progs[i];
        const dma_cursor_t *c = &task->run.cursors[i];
        uint64_t trips = c->trips;

        for (uint32_t k = 0; trips && k < prog->nops; k++) {
            const dma_op_t *op = &prog->ops[k];
            bool signal = op->code == DMA_OP_SIGNAL;

            if ((!signal && op->code != DMA_OP_WAIT) || !(op->flags & DMA_OP_CHUNKED) ||
                (op->flags & DMA_OP_FALLBACK && !c->fallback)) {
                continue;
            }
            if (op->flag.kind == DMA_FLAG_PRODUCED) {
                comm->stream[op->flag.rank] += trips;
            } else if (op->flag.kind == DMA_FLAG_PAIR_PRODUCED && signal) {
                comm->pair_out[op->flag.peer] += trips;
            } else if (op->flag.kind == DMA_FLAG_PAIR_PRODUCED && op->flag.rank != comm->rank) {
                comm->pair_in[op->flag.rank] += trips;
            }
        }
    }
}

/* A reading of this rank that was refused: the block went through shared memory. */
static const dma_op_t *refused_reading(const dma_run_t *run)
{
    for (uint32_t i = 0; i < run->plan->nprogs; i++) {
        const dma_prog_t *prog = &run->plan->progs[i];

        for (uint32_t k = 0; run->cursors[i].refused && k < prog->nops; k++) {
            if (dma_op_reads_peer(&prog->ops[k])) {
                return &prog->ops[k];
            }
        }
    }
    return NULL;
}

/* Once. */
static void tell_refusal(dma_comm_t *comm, const dma_task_t *task)
{
    const dma_op_t *op = comm->refusal_reported ? NULL : refused_reading(&task->run);

    if (!op) {
        return;
    }
    comm->refusal_reported = true;
    dma_proc_report(comm->proc, DMA_REPORT_INFO, "refused",
                    "rank %d of %s could not read memory of rank %d; shared memory is used instead", comm->rank,
                    comm->text, op->src.rank);
}

/* Had any rank been refused when it entered this call? What happens in the call itself is for the next one. */
static void see_refusals(dma_comm_t *comm, const dma_task_t *task)
{
    if (task->run.refused_rank >= 0) {
        comm->req.cross_memory = false;
        memset(comm->memo, 0, sizeof(comm->memo));
        dma_proc_report(comm->proc, comm->rank == 0 ? DMA_REPORT_WARN : DMA_REPORT_INFO, "refusals",
                        "rank %d of %s could not read a peer's memory: all ranks use shared memory from now on",
                        task->run.refused_rank, comm->text);
    }
}

/* A run has ended. */
static void finish(dma_comm_t *comm, dma_task_t *task)
{
    if (task->run.plan->streams) {
        stream_on(comm, task);
    }
    if (task->run.plan->fallback_max_bytes) {
        tell_refusal(comm, task);
        see_refusals(comm, task);
    }
    if (comm->streaming == task) {
        comm->streaming = NULL;
    }
    if (__builtin_expect(task->device != NULL, 0) && task->device->frozen) {
        dma_device_arm(comm);
    }
}

void dma_task_drop(dma_task_t *task)
{
    if (__builtin_expect(task->messages != NULL, 0)) {
        dma_messages_drop(task);
        if (task->messages) {
            /* under way after an error: what they read and write stays theirs */
            task->send_staging = task->recv_staging = NULL;
            if (task->device) {
                task->device->staging = NULL;
            }
        }
    }
    if (__builtin_expect(task->device != NULL, 0)) {
        dma_device_drop(task);
    }
    if (task->own_arrays) {
        free(task->arrays);
        task->arrays = NULL;
        task->own_arrays = false;
    }
    if (__builtin_expect(task->send_staging || task->recv_staging, 0)) {
        dma_task_unstage(task);
    }
}

void dma_task_complete(dma_task_t *task, dma_status_t status)
{
    if (status == DMA_OK && task->recv_staging) {
        status = dma_task_unpack(task);
    }
    if (__builtin_expect(task->device != NULL, 0) && status == DMA_OK) {
        status = dma_device_unstage(task);
    }
    task->status = status;
    if (task->done) {
        task->next = task->comm->completed;
        task->comm->completed = task;
    } else {
        dma_task_drop(task);
    }
    /* release: whoever waits in another thread sees the data; a task without `done` may be gone from here on */
    atomic_store_explicit(&task->state, DMA_TASK_COMPLETE, memory_order_release);
}

static void dequeue(dma_comm_t *comm, dma_task_t *task, dma_task_t *before)
{
    if (before) {
        before->next = task->next;
    } else {
        comm->head = task->next;
    }
    if (comm->tail == task) {
        comm->tail = before;
    }
    /* all calls before the oldest one that is left have been completed here */
    if (comm->window.own) {
        dma_window_completed(&comm->window, (uint32_t)(comm->head ? comm->head->run.seq - 1 : comm->seq));
    }
}

static void report_failure(dma_comm_t *comm, const dma_task_t *task, dma_status_t status)
{
    if (status == DMA_ERR_TRUNCATE || status == DMA_ERR_MISMATCH) {
        char who[32] = "a rank";

        if (task->run.failed_rank >= 0) {
            snprintf(who, sizeof(who), "rank %d", task->run.failed_rank);
        }
        dma_comm_fail(comm, status, "%s of %s has called %s with %s in call %llu", who, comm->text,
                      status == DMA_ERR_TRUNCATE ? "this operation" : "another operation",
                      status == DMA_ERR_TRUNCATE ? "another number of bytes" : "different arguments",
                      (unsigned long long)task->run.seq);
    } else {
        dma_comm_fail(comm, status, "call %llu on %s failed: %s", (unsigned long long)task->run.seq, comm->text,
                      dma_status_name(status));
    }
}

/* One task, as far as it goes now. */
static dma_status_t move(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = DMA_OK;

    if (__builtin_expect(comm->cluster && comm->state == DMA_COMM_READY, 0)) {
        return dma_cluster_advance(comm, task);
    }
    if (__builtin_expect(comm->state == DMA_COMM_ASIDE, 0)) {
        if (task->device && task->device->phase != DEVICE_ON_HOST && (status = dma_device_stage(task)) != DMA_OK) {
            return status;
        }
        return dma_messages_advance(task);
    }
    if (atomic_load_explicit(&task->state, memory_order_relaxed) == DMA_TASK_QUEUED) {
        status = start(comm, task);
    }
    if (status == DMA_OK) {
        status = __builtin_expect(task->device != NULL, 0) ? dma_device_advance(comm, task)
                                                           : comm->engine->advance(&task->run);
    }
    if (status == DMA_OK) {
        finish(comm, task);
    }
    return status;
}

int dma_tasks_advance(dma_comm_t *comm)
{
    int completed = 0;
    dma_task_t *before = NULL, *task = comm->head, *next;

    for (; task; task = next) {
        dma_status_t status = move(comm, task);

        next = task->next;
        if (status == DMA_AGAIN) {
            if (atomic_load_explicit(&task->state, memory_order_relaxed) == DMA_TASK_QUEUED) {
                break; /* those behind it wait too: calls start in order */
            }
            before = task;
        } else if (status == DMA_OK) {
            dequeue(comm, task, before);
            dma_task_complete(task, DMA_OK);
            completed++;
        } else {
            report_failure(comm, task, status);
            return completed + 1;
        }
    }
    return completed;
}

/* Ready to be posted. `arrays`: memory of dma_arrays_total that nobody else uses meanwhile, or NULL. */
dma_status_t dma_task_init(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, void *arrays)
{
    const dma_gpu_runtime_t *rt = comm->proc->runtime ? comm->proc->runtime : dma_gpu_runtime_loaded();
    dma_status_t status;

    task->comm = comm;
    task->coll = call->coll;
    task->keep_own = false;
    task->arrays = arrays;
    task->own_arrays = false;
    task->send_staging = task->recv_staging = NULL;
    task->messages = NULL;
    task->device = NULL;
    task->done = NULL;
    task->run.second_entry = false;
    task->run.failed_rank = -1;
    if (__builtin_expect(rt != NULL, 0)) {
        status = dma_task_arrays(comm, task);
        status = status == DMA_OK ? dma_device_resolve(comm, task, call, rt) : status;
        if (status != DMA_UNSUPPORTED) {
            return status;
        }
    }
    /* equal blocks that need no packing: most small calls, and nothing but a few stores */
    if (__builtin_expect(!call->recv.counts && call->recv.dense && (call->in_place || call->send.dense), 1)) {
        uint64_t bytes = call->recv.count * call->recv.size, own = 0;

        if (call->in_place && call->coll == DMA_ALLGATHER) {
            own = (uint64_t)comm->rank * bytes;
        }
        task->bytes = bytes;
        task->in_place = call->in_place;
        task->run.recv = (dma_blocks_t){.addr = call->recv.addr, .bytes = bytes};
        task->run.send = (dma_blocks_t){
            .addr = call->in_place ? (char *)call->recv.addr + own : (char *)call->send.addr, .bytes = bytes};
        task->run.sign = dma_sign(call->coll, call->in_place, bytes);
        return call->in_place || call->send.count * call->send.size == bytes ? DMA_OK : DMA_ERR_TRUNCATE;
    }
    status = dma_task_arrays(comm, task);
    return status == DMA_OK ? dma_task_resolve(comm, task, call) : status;
}

/* Queues an initialised task. */
void dma_task_post(dma_comm_t *comm, dma_task_t *task)
{
    task->next = NULL;
    atomic_store_explicit(&task->state, DMA_TASK_QUEUED, memory_order_relaxed);
    task->run.seq = ++comm->seq;
    if (comm->tail) {
        comm->tail->next = task;
    } else {
        comm->head = task;
    }
    comm->tail = task;
}
