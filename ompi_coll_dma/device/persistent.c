/* Persistent calls in device memory: *_init, starts, and programs that engines have before the start. See device.h. */
#include <string.h>

#include "core/setup/bootstrap.h"
#include "device/device.h"
#include "gpu/brief.h"
#include "node/entry.h"

#define LAST_PROGRESS 8 /* calls, so that Open MPI's progress has run everything */

static _Atomic uint32_t *ready_word(const dma_comm_t *comm, int rank)
{
    return &dma_window_ready(&comm->window, rank)->word;
}

/* Blocking, because *_init is. If another rank has failed or ended, what it has sent before may have arrived since the last look. */
dma_status_t dma_device_exchange(dma_comm_t *comm, const void *record, size_t bytes, dma_bootstrap_t *exchange)
{
    dma_pause_t pause = {0};
    double looked = dma_now();
    dma_status_t failed = DMA_OK, status;

    status = dma_bootstrap_begin(exchange, comm->host, comm->handle, comm->rank, comm->nranks, record, bytes);
    if (status != DMA_OK) {
        return status;
    }
    while ((status = dma_bootstrap_advance(exchange)) == DMA_AGAIN && failed == DMA_OK) {
        dma_pause_moved(&pause, (uint64_t)exchange->have);
        dma_pause(&pause);
        failed = dma_host_find_failure(comm, &looked);
        for (int i = 0; i < (failed == DMA_OK ? 1 : LAST_PROGRESS); i++) {
            comm->host->progress();
        }
    }
    if (status != DMA_OK) {
        dma_bootstrap_cancel(exchange);
    }
    return status == DMA_AGAIN ? failed : status;
}

dma_status_t dma_device_all(dma_comm_t *comm, bool yes, bool *all)
{
    dma_bootstrap_t exchange;
    uint64_t word = yes;
    dma_status_t status = dma_device_exchange(comm, &word, sizeof(word), &exchange);

    *all = yes && status == DMA_OK;
    if (status != DMA_OK) {
        return status;
    }
    for (int r = 0; r < comm->nranks; r++) {
        *all = *all && *(const uint64_t *)dma_bootstrap_record(&exchange, r);
    }
    dma_bootstrap_end(&exchange);
    return DMA_OK;
}

/* Makes a task for the call, which dma_device_serves has accepted, and publishes its record. Or says why it could not. */
static dma_reason_t publish_call(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, void *arrays)
{
    struct dma_device_comm *dc;
    dma_reason_t why;

    if (dma_task_init(comm, task, call, arrays) != DMA_OK || !task->device || !task->device->served ||
        !(dc = dma_device_comm(comm, task->device->rt, task->device->device, &why)) ||
        dma_device_needs_scratch(dc, task->device)) {
        return DMA_REASON_unprepared_resolve;
    }
    dc->may_arm = dc->device->traits.features & DMA_GPU_PRELAUNCH && comm->proc->params.prelaunch > 0;
    dma_device_check_export(comm, task->device);
    if (dma_device_needs_scratch(dc, task->device)) {
        return DMA_REASON_unprepared_scratch;
    }
    if (dma_device_publish_record(comm, task) != DMA_OK) {
        return DMA_REASON_unprepared_export;
    }
    /* it will be started many times, and is exported only now */
    dma_ipc_count_calls(comm->proc->ipc, dma_device_info(comm, comm->rank, task->run.seq)->number, DMA_BRIEF_CALLS);
    return DMA_REASON_NONE;
}

/* Opens what all ranks have published, binds the engine and finds the plan. Or says why this rank cannot. */
static dma_reason_t prepare_call(dma_comm_t *comm, dma_task_t *task)
{
    if (dma_device_read_records(comm, task) != DMA_OK) {
        return DMA_REASON_unprepared_open;
    }
    if (!dma_device_all_support_shapes(comm, task)) {
        return DMA_REASON_unprepared_shapes;
    }
    return dma_device_bind(comm, task, dma_device_largest_block(comm, task)) == DMA_OK ? DMA_REASON_NONE
                                                                                       : DMA_REASON_unprepared_plan;
}

/* Keeps what all starts have in common. */
static void save_prepared_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    uint32_t features = UINT32_MAX;

    for (int r = 0; r < comm->nranks; r++) {
        features &= dc->traits[r].features;
    }
    dc->start_call = *task->device;
    dc->start_call.persistent = true;
    dc->start_call.failed = DMA_OK;
    dc->start_run = task->run;
    dc->start_run.shape = dma_device_sent_shape(&dc->start_call, task->in_place);
    dc->prepared = true;
    dc->start_in_place = task->in_place;
    dc->start_coll = task->coll;
    dc->start_bytes = task->bytes;
    dc->all_may_arm = dc->can_arm = features & DMA_GPU_PRELAUNCH;
}

/* *all: all ranks have published the same call. Prepared starts publish no descriptors, in which other starts find a call that
 * differs. A call that differs is not prepared, so its starts find it. If two ranks differ, every rank differs from one. */
static dma_status_t all_published(dma_comm_t *comm, const dma_task_t *task, bool published, bool *all)
{
    struct {
        uint64_t published, sign;
    } own = {published, published ? task->run.sign : 0};
    dma_bootstrap_t exchange;
    dma_status_t status = dma_device_exchange(comm, &own, sizeof(own), &exchange);

    *all = published && status == DMA_OK;
    if (status != DMA_OK) {
        return status;
    }
    for (int r = 0; r < comm->nranks; r++) {
        const uint64_t *record = dma_bootstrap_record(&exchange, r);

        *all = *all && record[0] && dma_entry_compare(own.sign, record[1]) == DMA_OK;
    }
    dma_bootstrap_end(&exchange);
    return DMA_OK;
}

/* `comm` is that of a channel which is being made: no other thread knows of it before this returns, so this takes its lock only for
 * functions that ask for it. A failure of the parent touches the parent's memory only. */
dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays)
{
    dma_task_t task = {.comm = comm};
    dma_reason_t why = publish_call(comm, &task, call, arrays);
    bool all;
    dma_status_t status = all_published(comm, &task, !why, &all);

    if (status == DMA_OK && all) {
        why = prepare_call(comm, &task);
        status = dma_device_all(comm, !why, &all);
        if (status == DMA_OK) {
            dma_device_end_agreement(comm, &task, all);
        }
        if (status == DMA_OK && all) {
            save_prepared_call(comm, &task);
        }
    }
    dma_task_drop(&task);
    if (status == DMA_OK && all && call->parts) {
        status = dma_device_parts_init(comm, call->parts);
    }
    if (status != DMA_OK) {
        dma_comm_lock(comm);
        dma_comm_fail(comm, status, "making a persistent call on %s failed: %s", comm->text, dma_status_name(status));
        dma_comm_unlock(comm);
    } else if (!all) {
        dma_comm_lock(comm);
        dma_comm_note_reason(comm, why ? why : DMA_REASON_unprepared_peer);
        dma_comm_unlock(comm);
    } else if (!call->parts && comm->device && comm->device->prepared) {
        dma_comm_lock(comm);
        dma_device_arm(comm);
        dma_comm_unlock(comm);
    }
    return status;
}

dma_status_t dma_device_persistent_start(dma_comm_t *comm, dma_task_t *task, void *arrays)
{
    struct dma_device_comm *dc = comm->device;

    if (!dc || !dc->prepared) {
        return DMA_UNSUPPORTED;
    }
    memset(task, 0, sizeof(*task));
    task->comm = comm;
    task->coll = dc->start_coll;
    task->in_place = dc->start_in_place;
    task->bytes = dc->start_bytes;
    task->arrays = arrays;
    task->run = dc->start_run;
    task->device = &dc->start_call;
    task->device->phase = DEVICE_ENTER;
    task->device->runner = NULL;
    task->device->under_way = false;
    task->memory = &dma_device_memory;
    task->route = &dma_route_device;
    return dma_device_sync_stream(comm, dc->start_call.rt, dc->start_call.device);
}

/* At most so many calls of a process are armed. One with partitions holds its place as long as it lives (parts.c). */
static bool take_place(const dma_comm_t *comm)
{
    if (comm->device->parts ||
        atomic_fetch_add_explicit(&comm->proc->armed, 1, memory_order_relaxed) < comm->proc->params.prelaunch) {
        return true;
    }
    atomic_fetch_sub_explicit(&comm->proc->armed, 1, memory_order_relaxed);
    return false;
}

static void give_place(const dma_comm_t *comm)
{
    if (!comm->device->parts) {
        atomic_fetch_sub_explicit(&comm->proc->armed, 1, memory_order_relaxed);
    }
}

/* Programs do not wait any more. */
static void count_end_of_wait(dma_comm_t *comm, int how)
{
    double waited = dma_now() - comm->device->armed_at;

    dma_comm_count(comm, how);
    comm->counts.at[DMA_COUNT_armed_ns] += waited > 0 ? (uint64_t)(1e9 * waited) : 0;
}

/* All ranks have started. Each rank stores its ready word before it looks at the others', so the last one finds that, and perhaps
 * some others do as well: then all of them do this. The rank's own programs need no better place: the others wait, too. */
static void release_all(dma_comm_t *comm, uint32_t epoch)
{
    for (int r = 0; comm->device->all_may_arm && r < comm->nranks; r++) {
        dma_trigger_release(dma_window_trigger(&comm->window, r, epoch), epoch);
    }
    dma_device_wake_submitters(comm); /* ranks whose programs were not armed */
}

dma_status_t dma_device_begin_persistent(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    /* If a peer has failed, its caller has its buffers back. A failed rank sets the poison before it stops, claims the triggers,
     * and then gives copies that were started before that 2 s to end. */
    dma_status_t poison = dma_window_poisoned(&comm->window);

    if (poison != DMA_OK) {
        return poison;
    }
    if (dc->start_run.parts && !dc->next_is_armed) {
        dma_device_arm(comm); /* it was removed, or could not be done then: these programs have no other way */
        if (!dc->next_is_armed) {
            return DMA_ERR_ENGINE;
        }
    }
    dc->run_is_armed = dc->next_is_armed;
    dma_device_start_run(comm, task);
    if (dc->run_is_armed) {
        dma_device_set_runner(task, &dma_device_by_engine);
    }
    dc->start_run.repeat = true; /* for the starts after this one */
    if (dc->run_is_armed) {
        count_end_of_wait(comm, DMA_COUNT_armed_started);
        comm->counts.at[DMA_COUNT_bytes_engines] += dc->armed_bytes;
        dc->next_is_armed = false;
        give_place(comm);
    }
    dc->started_at = dma_trace_begin(comm->trace); /* before armed engines can begin */
    /* Release: what the user has written into the buffers comes before what engines do after the last start. Sequentially
     * consistent, as the loads behind it: of ranks that start at the same time, at least one sees all words. */
    atomic_store_explicit(ready_word(comm, comm->rank), task->run.epoch, memory_order_seq_cst);
    if (dma_device_unstarted_rank(comm, task) < 0) {
        release_all(comm, task->run.epoch);
    }
    dma_task_set_running(task);
    if (!dc->run_is_armed) {
        dma_trace_mark(comm->trace, DMA_TRACE_ENTERED, task->run.seq, 0, 0, 0);
        dma_device_copy_early(comm, task);
    }
    return DMA_OK;
}

dma_status_t dma_device_advance_start(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t poison;

    if (dma_device_unstarted_rank(comm, task) >= 0) {
        return DMA_AGAIN;
    }
    /* Then a word may be forged, after the poison was set (in_stream.c). The load of the word was an acquire. */
    if ((poison = dma_window_poisoned(&comm->window)) != DMA_OK) {
        return poison;
    }
    dma_trace_mark(comm->trace, DMA_TRACE_MET, task->run.seq, 0, 0, 0);
    dma_device_set_runner(task, &dma_device_by_engine);
    return DMA_OK;
}

int dma_device_unstarted_rank(const dma_comm_t *comm, const dma_task_t *task)
{
    for (int r = 0; r < comm->nranks; r++) {
        /* acquire: the peer's buffers are written only after its ready word has been seen; and see above */
        if (!dma_ready_started(atomic_load_explicit(ready_word(comm, r), memory_order_seq_cst), task->run.epoch)) {
            return r;
        }
    }
    return -1;
}

static dma_reason_t why_not_armed(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dc->arm_refused                     ? DMA_REASON_arm_refused
           : comm->proc->params.prelaunch <= 0 ? DMA_REASON_arm_off
                                               : DMA_REASON_arm_unable;
}

void dma_device_arm(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    dma_run_t next = dc->start_run;

    if (dc->next_is_armed || !dc->binding) {
        return;
    }
    if (!dc->can_arm) {
        dma_comm_note_reason(comm, why_not_armed(comm));
        return;
    }
    if (!take_place(comm)) {
        dma_comm_note_reason(comm, DMA_REASON_arm_limit); /* that many are armed already */
        return;
    }
    next.epoch = dc->epoch + 1;
    if (dc->device->engine->arm(&next, &dc->armed_bytes) != DMA_OK) {
        give_place(comm);
        dc->can_arm = false;
        dc->arm_refused = true;
        dma_comm_note_reason(comm, DMA_REASON_arm_refused);
        return;
    }
    dc->next_is_armed = true;
    dc->armed_at = dma_now(); /* if a run is in progress, it begins when that has ended */
    dma_comm_count(comm, DMA_COUNT_armed);
    dma_comm_set_active(comm, true); /* progress checks how long the programs stay armed */
}

void dma_device_prepare_next(dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;
    const dma_task_t *task;

    if (!dc || !dc->prepared || !dc->run_is_armed || dc->start_run.parts) {
        return; /* without a lock: only starts and *_init change these */
    }
    dma_comm_lock(comm);
    task = comm->head;
    /* Before it is under way the engine has not all programs of the run. */
    if (comm->state == DMA_COMM_READY &&
        (!task || (task->device->under_way && task->device->runner == &dma_device_by_engine))) {
        dma_device_arm(comm);
    }
    dma_comm_unlock(comm);
}

void dma_device_end_persistent(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed) {
        dc->armed_at = dma_now(); /* from now on nothing else is in front of them */
    } else if (!dc->run_is_armed || dc->start_run.parts) {
        /* Not while it was under way: it was on other queues of the same engines, which a waiting queue would have blocked.
         * Or it has partitions: what is left of it could have been taken back, and be submitted to the same queues. */
        dma_device_arm(comm);
    }
}

void dma_device_claim_all(dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    for (int r = 0; dc->all_may_arm && r < comm->nranks; r++) {
        (void)dma_trigger_claim(dma_window_trigger(&comm->window, r, dc->epoch), dc->epoch);
    }
}

void dma_device_disarm(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed) {
        count_end_of_wait(comm, DMA_COUNT_armed_cancelled);
        dc->next_is_armed = false;
        give_place(comm);
    }
    if (dc->binding && dc->device->engine->disarm) {
        dc->device->engine->disarm(dc->binding); /* also a run that has started and waits for peers */
    }
}

void dma_device_disarm_expired(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed && !comm->head && dma_now() - dc->armed_at > comm->proc->params.armed_seconds) {
        dma_comm_note_reason(comm, DMA_REASON_arm_expired);
        dma_device_disarm(comm);
    }
}
