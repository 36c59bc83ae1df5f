/*
 * Tasks: from a call to a bound plan, through the queue, to completion.
 *
 * What runs is chosen when a task starts, not when it is posted: a streaming task starts when its predecessor has ended,
 * and the predecessor may have taught all ranks that peers' memory cannot be read after all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/comm.h"

static dma_memo_t *memo_of(dma_comm_t *comm, uint64_t bytes)
{
    return &comm->memo[bytes * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

_Static_assert(DMA_MEMO == 64, "the hash above yields 6 bits");

static dma_status_t choose(dma_comm_t *comm, const dma_task_t *task, dma_memo_t *memo)
{
    dma_plan_req_t req = comm->req;
    const char *reason;
    dma_status_t status;

    req.coll = task->coll;
    req.bytes = task->bytes;
    status = dma_plan_choose(&comm->profile, &req, comm->forced, &memo->choice, &reason);
    if (reason && comm->forced >= 0 && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "forced", "%s cannot do %llu bytes (%s); %s instead",
                        dma_variants[comm->forced]->name, (unsigned long long)task->bytes, reason,
                        status == DMA_OK ? dma_variants[memo->choice.variant]->name : "the module below");
    }
    if (status != DMA_OK) {
        return status;
    }
    memo->plans[0] = comm->plans[2 * memo->choice.variant];
    memo->plans[1] = comm->plans[2 * memo->choice.variant + 1];
    memo->bytes = task->bytes + 1;
    return DMA_OK;
}

/* The plan for a task; built at the first call that needs it, then kept. */
static dma_status_t find_plan(dma_comm_t *comm, const dma_task_t *task, const dma_plan_t **plan, uint32_t *chunk)
{
    dma_memo_t *memo = memo_of(comm, task->bytes);
    dma_plan_t **cached;
    dma_status_t status;

    if (__builtin_expect(memo->bytes != task->bytes + 1, 0) && (status = choose(comm, task, memo)) != DMA_OK) {
        return status;
    }
    *chunk = memo->choice.chunk;
    if (__builtin_expect(!memo->plans[task->in_place], 0)) {
        dma_plan_req_t req = comm->req;

        req.coll = task->coll;
        req.bytes = task->bytes;
        req.in_place = task->in_place;
        cached = &comm->plans[2 * memo->choice.variant + task->in_place];
        if (!*cached && (status = dma_plan_build(&req, &memo->choice, comm->rank, cached)) != DMA_OK) {
            return status;
        }
        memo->plans[task->in_place] = *cached;
    }
    *plan = memo->plans[task->in_place];
    return DMA_OK;
}

static dma_status_t bind(dma_comm_t *comm, dma_task_t *task, const dma_plan_t *plan, uint32_t chunk)
{
    dma_run_t *run = &task->run;

    if (plan->nprogs == 1) {
        run->cursors = &task->cursor;
    } else if (!(run->cursors = malloc(plan->nprogs * sizeof(*run->cursors)))) {
        return DMA_ERR_NOMEM;
    }
    run->plan = plan;
    run->window = &comm->window;
    run->chunk = chunk;
    run->stream = comm->stream;
    return DMA_OK;
}

static inline void unbind(dma_task_t *task)
{
    if (task->run.cursors != &task->cursor) {
        free(task->run.cursors);
        task->run.cursors = NULL;
    }
}

/* DMA_AGAIN: it must wait for its turn. */
static dma_status_t start(dma_comm_t *comm, dma_task_t *task)
{
    const dma_plan_t *plan;
    dma_status_t status;
    uint32_t chunk;

    if (!dma_window_may_publish(&comm->window, (uint32_t)task->run.seq)) {
        return DMA_AGAIN;
    }
    status = find_plan(comm, task, &plan, &chunk);
    if (status != DMA_OK) {
        return status;
    }
    if (plan->streams) {
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

/* Every rank has moved its stream on by the chunks of its block. */
static void stream_on(dma_comm_t *comm, const dma_task_t *task)
{
    for (uint32_t i = 0; i < task->run.plan->nprogs; i++) {
        const dma_prog_t *prog = &task->run.plan->progs[i];

        for (uint32_t k = 0; k < prog->nops; k++) {
            const dma_op_t *op = &prog->ops[k];

            if (op->flag.kind == DMA_FLAG_PRODUCED && (op->flags & DMA_OP_CHUNKED) &&
                (op->code == DMA_OP_WAIT || op->code == DMA_OP_SIGNAL)) {
                comm->stream[op->flag.rank] += task->run.cursors[i].trips;
            }
        }
    }
}

/* A run has ended. Some rank could not read a peer's memory: all have learned it, none uses it any more on this
 * communicator, and the call is done again through staging, which is harmless since nobody has returned from it. */
static dma_status_t finish(dma_comm_t *comm, dma_task_t *task)
{
    if (task->run.plan->streams) {
        stream_on(comm, task);
        comm->streaming = NULL;
    }
    if (!task->run.refused) {
        return DMA_OK;
    }
    unbind(task);
    task->run.refused = false;
    comm->req.cross_memory = false;
    memset(comm->memo, 0, sizeof(comm->memo));
    dma_proc_report(comm->proc, DMA_REPORT_WARN, "refused",
                    "a rank of %s could not read a peer's memory; staging through shared memory is used instead",
                    comm->text);
    return start(comm, task);
}

void dma_task_complete(dma_task_t *task, dma_status_t status)
{
    unbind(task);
    if (status == DMA_OK && task->unpack.addr) {
        const dma_buffer_t *u = &task->unpack;

        for (int r = 0; r < task->comm->nranks && status == DMA_OK; r++) {
            if (task->keep_own && r == task->comm->rank) {
                continue; /* in place: the own block never left its place */
            }
            status = task->comm->host->unpack((char *)u->addr + r * u->extent, u->count, u->type,
                                              task->staging + (size_t)r * u->bytes, u->bytes);
        }
    }
    if (task->staging) {
        free(task->staging);
        task->staging = NULL;
    }
    task->status = status;
    /* release: whoever waits in another thread sees the data; the task may be gone from here on */
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
    dma_window_completed(&comm->window, (uint32_t)(comm->head ? comm->head->run.seq - 1 : comm->seq));
}

static void report_failure(dma_comm_t *comm, const dma_task_t *task, dma_status_t status)
{
    if (status == DMA_ERR_TRUNCATE || status == DMA_ERR_MISMATCH) {
        dma_comm_fail(comm, status, "rank %d of %s has called %s with %s in call %llu", task->run.failed_rank,
                      comm->text, status == DMA_ERR_TRUNCATE ? "this operation" : "another operation",
                      status == DMA_ERR_TRUNCATE ? "another number of bytes" : "different arguments",
                      (unsigned long long)task->run.seq);
    } else {
        dma_comm_fail(comm, status, "call %llu on %s failed: %s", (unsigned long long)task->run.seq, comm->text,
                      dma_status_name(status));
    }
}

void dma_tasks_advance(dma_comm_t *comm)
{
    dma_task_t *before = NULL, *task = comm->head, *next;

    for (; task; task = next) {
        dma_status_t status = DMA_OK;

        next = task->next;
        if (atomic_load_explicit(&task->state, memory_order_relaxed) == DMA_TASK_QUEUED) {
            status = start(comm, task);
            if (status == DMA_AGAIN) {
                break; /* those behind it wait too: calls start in order */
            }
        }
        if (status == DMA_OK) {
            status = comm->engine->advance(&task->run);
            if (status == DMA_OK) {
                status = finish(comm, task);
                if (status == DMA_OK && task->run.live) {
                    status = DMA_AGAIN; /* begun again */
                }
            }
        }
        if (status == DMA_AGAIN) {
            before = task;
            continue;
        }
        if (status != DMA_OK) {
            report_failure(comm, task, status);
            return;
        }
        dequeue(comm, task, before);
        dma_task_complete(task, DMA_OK);
    }
}

/* Where the bytes are: in the user's buffers where those are contiguous, packed into staging where not. What has to be
 * packed is packed straight into the own block of the result, and the call then runs in place. */
static dma_status_t place(dma_task_t *task, const dma_buffer_t *send, const dma_buffer_t *recv)
{
    const dma_comm_t *comm = task->comm;
    size_t bytes = recv->bytes;
    char *result = recv->addr, *own;
    const dma_buffer_t *pack = send && !send->contiguous ? send : NULL;
    dma_buffer_t own_block = *recv;
    dma_status_t status;

    task->in_place = !send || pack;
    if (!recv->contiguous) {
        if (!(task->staging = malloc((size_t)comm->nranks * bytes))) {
            return DMA_ERR_NOMEM;
        }
        result = task->staging;
        task->unpack = *recv;
        if (!send) {
            task->keep_own = true;
            own_block.addr = (char *)recv->addr + comm->rank * recv->extent;
            pack = &own_block;
        }
    }
    own = result + (size_t)comm->rank * bytes;
    if (pack && (status = comm->host->pack(pack->addr, pack->count, pack->type, own, bytes)) != DMA_OK) {
        return status;
    }
    task->run.recv = (dma_blocks_t){.addr = result, .bytes = bytes};
    task->run.send = (dma_blocks_t){.addr = task->in_place ? own : send->addr, .bytes = bytes};
    return DMA_OK;
}

dma_status_t dma_task_init(dma_comm_t *comm, dma_task_t *task, dma_coll_t coll, const dma_buffer_t *send,
                           const dma_buffer_t *recv)
{
    task->comm = comm;
    task->coll = coll;
    task->bytes = recv->bytes;
    task->staging = NULL;
    task->keep_own = false;
    task->unpack.addr = NULL;
    task->run.cursors = NULL;
    task->run.temp = NULL;
    task->run.peer_signs = NULL;
    task->run.entered = false;
    task->run.refused = false;
    task->run.sign = dma_sign(coll, recv->bytes);
    if (__builtin_expect(recv->contiguous && (!send || send->contiguous), 1)) {
        task->in_place = !send;
        task->run.recv = (dma_blocks_t){.addr = recv->addr, .bytes = recv->bytes};
        task->run.send = (dma_blocks_t){
            .addr = send ? send->addr : (char *)recv->addr + (size_t)comm->rank * recv->bytes, .bytes = recv->bytes};
        return DMA_OK;
    }
    return place(task, send, recv);
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
