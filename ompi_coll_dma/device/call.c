/* The life of a call with device memory: see device.h. */
#include "device/device.h"

#include <string.h>

#include "core/resolve.h"

#define LINGER_SECONDS 20e-6 /* peers that call together are here within a few microseconds */

/* In a verdict about a meeting. */
enum { ALL_WELL = 1, THIS_TIME_NOT = 2 };

static uint32_t verdict_word(const struct dma_device_comm *dc, uint32_t verdict)
{
    return dc->meetings << 2 | verdict;
}

/* Publishes the descriptor of a call without its data, the brief and the record. */
static void enter(dma_comm_t *comm, dma_task_t *task)
{
    dma_window_t *w = &comm->window;
    dma_desc_t *d = dma_window_desc(w, w->rank, task->run.seq);

    d->ack = w->ack;
    d->sign = task->run.sign | DMA_SIGN_DEVICE | dma_comm_sign_flags(comm);
    w->ack_published = w->ack;
    /* release: header and record come first */
    atomic_store_explicit(&d->seq, (uint32_t)task->run.seq, memory_order_release);
}

/* The own block, out of place, before the peers are there: only where the last call has bound the engine. */
void dma_device_early(dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *call = task->device;
    const dma_run_t *run = &task->run;
    uint64_t rank = (uint64_t)comm->rank, from = dma_coll_gathers(task->coll) ? 0 : rank;
    uint64_t bytes = dma_blocks_bytes(&run->send, from);

    if (!dc->bound || !dc->device->engine->early || task->in_place || call->send_shape.row || call->recv_shape.row ||
        !bytes || bytes != dma_blocks_bytes(&run->recv, rank)) {
        return;
    }
    dc->device->engine->early(dc->bound, (uint64_t)(uintptr_t)dma_blocks_addr(&run->recv, rank),
                              (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, from), bytes);
}

/* The host plan on host memory. Where we have entered already, our data come with a later entry. */
static dma_status_t go_by_host(dma_comm_t *comm, dma_task_t *task, bool later)
{
    const struct dma_device_comm *dc = comm->device;
    dma_status_t status;

    if (dc && dc->bound && dc->device->engine->settle) {
        dc->device->engine->settle(dc->bound);
    }
    status = dma_device_stage(task);
    task->run.second_entry = later;
    return status == DMA_OK ? dma_task_bind(comm, task) : status;
}

dma_status_t dma_device_begin(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    struct dma_device_comm *dc;

    if (comm->streaming) {
        return DMA_AGAIN;
    }
    comm->streaming = task;
    if (call->frozen) {
        return dma_device_begin_persistent(comm, task);
    }
    atomic_store_explicit(&task->state, DMA_TASK_RUNNING, memory_order_relaxed);
    if (!call->served) {
        return dma_task_bind(comm, task);
    }
    dc = dma_device_comm(comm, call->rt, call->device);
    if (!dc || dc->off ||
        (!dma_device_can(dc, &call->send_shape, &call->recv_shape) && dma_device_pack_shapes(comm, task) != DMA_OK) ||
        dma_device_publish_record(comm, task) != DMA_OK) {
        return go_by_host(comm, task, false);
    }
    enter(comm, task);
    dma_device_early(comm, task);
    return DMA_OK;
}

/* All descriptors: DMA_OK when they are there, and whether all have device memory. */
static dma_status_t meet(dma_comm_t *comm, dma_task_t *task, bool *all)
{
    dma_window_t *w = &comm->window;

    *all = true;
    for (int r = 0; r < comm->nranks; r++) {
        const dma_desc_t *d = dma_window_desc(w, r, task->run.seq);
        uint64_t differ;

        /* acquire: header and record are read after the number that announces them */
        if (atomic_load_explicit(&d->seq, memory_order_acquire) != (uint32_t)task->run.seq) {
            return DMA_AGAIN;
        }
        if ((int32_t)(d->ack - w->acks[r]) > 0) {
            w->acks[r] = d->ack;
        }
        differ = (d->sign ^ task->run.sign) & ~(DMA_SIGN_DEVICE | DMA_SIGN_REFUSED);
        if (differ) {
            task->run.failed_rank = r;
            return differ >> 56 ? DMA_ERR_MISMATCH : DMA_ERR_TRUNCATE;
        }
        *all = *all && (d->sign & DMA_SIGN_DEVICE);
    }
    return DMA_OK;
}

/* With its plan. */
static dma_status_t bind_plan(dma_comm_t *comm, dma_task_t *task, bool again)
{
    struct dma_device_comm *dc = comm->device;
    dma_run_t *run = &task->run;
    dma_status_t status = dma_task_arrays(comm, task);

    if (status != DMA_OK) {
        return status;
    }
    run->again = again;
    run->cursors = (dma_cursor_t *)((char *)task->arrays + dma_arrays_bytes(comm->nranks));
    run->window = &comm->window;
    run->targets = dc->targets;
    run->shape = dma_device_sent_shape(task->device, task->in_place);
    run->bound = dc->bound;
    return DMA_OK;
}

dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = dma_device_find_plan(comm, task, &task->run.plan);

    return status == DMA_OK ? bind_plan(comm, task, false) : status;
}

void dma_device_go(dma_comm_t *comm, dma_task_t *task, dma_device_phase_t phase)
{
    dma_run_t *run = &task->run;
    const dma_prog_t *host = &run->plan->progs[0];

    run->epoch = ++comm->device->epoch;
    comm->engine->start(run);
    while (run->cursors[0].pc < host->nops && host->ops[run->cursors[0].pc].flag.kind == DMA_FLAG_ENTRY) {
        run->cursors[0].pc++;
    }
    task->device->phase = phase;
}

/* All could open all memory. */
static dma_status_t bind(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    if (!comm->device->all_can) {
        return go_by_host(comm, task, true);
    }
    status = dma_device_bind(comm, task);
    if (status == DMA_OK) {
        dma_device_remember_call(comm, task);
        dma_device_go(comm, task, DEVICE_SUBMIT);
    }
    return status;
}

/* All ranks call as they did. */
static dma_status_t bind_again(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    task->run.plan = comm->device->last.plan;
    status = bind_plan(comm, task, true);
    if (status == DMA_OK) {
        dma_device_go(comm, task, DEVICE_SUBMIT);
    }
    return status;
}

/* Everybody has entered. */
static dma_status_t decide(dma_comm_t *comm, dma_task_t *task, bool all)
{
    struct dma_device_comm *dc = comm->device;
    dma_status_t status;
    bool fresh;

    if (!all) {
        return go_by_host(comm, task, true);
    }
    if (dma_device_all_repeat(comm, task)) {
        return bind_again(comm, task);
    }
    status = dma_device_read_records(comm, task, &fresh);
    if (status != DMA_OK && status != DMA_UNSUPPORTED) {
        return status;
    }
    if (!fresh && status != DMA_OK) {
        return DMA_ERR_ENGINE; /* nobody asks for a verdict on what all should have known */
    }
    /* Who goes by the host enters again, and what he has said of his memory is gone: not before all have read it. */
    dc->all_can = dma_device_all_can(comm, task);
    if (!fresh && dc->all_can) {
        return bind(comm, task);
    }
    dc->meetings++;
    /* release: our reads of the records come before whoever sees this may write the next one */
    atomic_store_explicit(&dma_window_agreed(&comm->window, comm->rank)->word,
                          verdict_word(dc, status == DMA_OK ? ALL_WELL : THIS_TIME_NOT), memory_order_release);
    task->device->phase = DEVICE_AGREE;
    return DMA_OK;
}

/* The verdicts of all. */
static dma_status_t agree(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    bool all = true;

    for (int r = 0; r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(&dma_window_agreed(&comm->window, r)->word, memory_order_acquire);

        if (word >> 2 != (dc->meetings & (UINT32_MAX >> 2))) {
            return DMA_AGAIN;
        }
        all = all && (word & 3) == ALL_WELL;
    }
    dma_device_count_meeting(comm, task, all);
    return all ? bind(comm, task) : go_by_host(comm, task, true);
}

dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    dma_status_t status = DMA_OK;
    bool all;

    if (call->phase == DEVICE_MEET && (status = meet(comm, task, &all)) == DMA_OK) {
        status = decide(comm, task, all);
    }
    if (status == DMA_OK && call->phase == DEVICE_AGREE) {
        status = agree(comm, task);
    }
    if (status == DMA_OK && call->phase == DEVICE_READY && (status = dma_device_all_ready(comm, task)) == DMA_OK) {
        call->phase = DEVICE_SUBMIT;
    }
    if (status == DMA_OK && call->phase == DEVICE_SUBMIT) {
        status = comm->device->device->engine->start(&task->run);
        if (status == DMA_OK) {
            call->phase = DEVICE_RUN;
        }
    }
    if (status == DMA_OK && call->phase == DEVICE_RUN && comm->device->device->engine->advance) {
        status = comm->device->device->engine->advance(&task->run);
    }
    if (status == DMA_OK && (call->phase == DEVICE_RUN || call->phase == DEVICE_ON_HOST)) {
        status = comm->engine->advance(&task->run);
    }
    return status;
}

void dma_device_spin(dma_comm_t *comm, const dma_task_t *task)
{
    double until = 0;

    /* Where ranks share cores, the peer that is waited for may need this one. */
    while (!comm->oversubscribed && comm->state == DMA_COMM_READY &&
           atomic_load_explicit(&task->state, memory_order_relaxed) == DMA_TASK_RUNNING &&
           task->device->phase < DEVICE_RUN) {
        double now = dma_now();

        if (!until) {
            until = now + LINGER_SECONDS;
        } else if (now > until) {
            return;
        }
        dma_cpu_pause();
        dma_comm_advance(comm);
    }
}

int dma_device_holding(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;

    if (task->device->phase == DEVICE_READY) {
        return dma_device_not_ready(comm, task);
    }
    for (int r = 0; task->device->phase == DEVICE_AGREE && r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(&dma_window_agreed(&comm->window, r)->word, memory_order_relaxed);

        if (word >> 2 != (dc->meetings & (UINT32_MAX >> 2))) {
            return r;
        }
    }
    return -1;
}
