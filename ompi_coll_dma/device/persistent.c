/* Persistent calls in device memory: *_init, starts, and programs that engines have before the start. See device.h. */
#include <string.h>

#include "device/device.h"
#include "gpu/brief.h"
#include "node/entry.h"

static _Atomic uint32_t *ready_word(const dma_comm_t *comm, int rank)
{
    return &dma_window_ready(&comm->window, rank)->word;
}

dma_reason_t dma_device_prepare_offer(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc;
    dma_reason_t why;

    if (!(dc = dma_device_comm(comm, task->device->rt, task->device->device, &why))) {
        return DMA_REASON_unprepared;
    }
    dc->may_arm = dc->device->traits.features & DMA_GPU_PRELAUNCH && comm->proc->params.prelaunch > 0;
    dma_device_check_export(comm, task->device);
    if (dma_device_needs_scratch(dc, task->device) || dma_device_publish_record(comm, task) != DMA_OK) {
        return DMA_REASON_unprepared;
    }
    /* it will be started many times, and is exported only now */
    dma_ipc_count_calls(comm->proc->ipc, dma_device_info(comm, comm->rank, task->run.seq)->number, DMA_BRIEF_CALLS);
    return DMA_REASON_NONE;
}

/* Equal on all ranks, except for the reason. Partitions have no other way than armed programs. */
static dma_reason_t why_not_armed(const dma_comm_t *comm, bool parts)
{
    const struct dma_device_comm *dc = comm->device;

    for (int r = 0; r < comm->nranks; r++) {
        if (!(dc->traits[r].features & DMA_GPU_PRELAUNCH)) {
            return comm->proc->params.prelaunch <= 0 ? DMA_REASON_arm_limit : DMA_REASON_arm_unable;
        }
    }
    return parts || dc->prelaunch_wins ? DMA_REASON_NONE : DMA_REASON_arm_unable;
}

/* Keeps what all starts have in common. */
static void save_prepared_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;

    dc->start_call = *task->device;
    dc->start_call.persistent = true;
    dc->start_call.prepares = false;
    dc->start_call.failed = DMA_OK;
    dc->start_run = task->run;
    dc->start_run.shape = dma_device_sent_shape(&dc->start_call, task->in_place);
    dc->prepared = true;
    dc->start_in_place = task->in_place;
    dc->start_coll = task->coll;
    dc->start_bytes = task->bytes;
}

/* ---- *_init is a call on the channel that only gets ready to run ---- */

static dma_status_t advance_nothing(dma_comm_t *comm, dma_task_t *task)
{
    (void)comm;
    (void)task;
    return DMA_OK;
}

static const dma_device_runner_t by_nobody = {.advance = advance_nothing, .end = dma_device_end_streaming};

dma_status_t dma_device_try_to_prepare(dma_comm_t *comm, dma_task_t *task, dma_status_t status)
{
    if (status == DMA_ERR_TRUNCATE ||
        (status == DMA_OK && dma_device_bind(comm, task, dma_device_largest_block(comm, task)) != DMA_OK)) {
        return DMA_UNSUPPORTED; /* its starts find blocks that differ, and find no engine that has no plan */
    }
    return status;
}

void dma_device_end_init(dma_comm_t *comm, dma_task_t *task, const dma_decision_t *decision)
{
    dma_device_set_runner(task, &by_nobody);
    if (decision->mode == DMA_MODE_PREPARE) {
        save_prepared_call(comm, task);
    } else {
        dma_comm_note_reason(comm, decision->why);
    }
}

dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays)
{
    dma_task_t task;
    dma_status_t status = dma_task_init(comm, &task, call, arrays);

    if (status == DMA_OK && !(task.device && task.device->served)) {
        status = DMA_ERR_ENGINE; /* dma_device_serves has said so; its memory has changed meanwhile */
    }
    if (status == DMA_OK) {
        task.device->prepares = true;
        task.device->why = DMA_REASON_NONE;
    }
    status = dma_comm_run_own(comm, &task, status);
    if (status == DMA_OK && comm->device && comm->device->prepared) {
        comm->device->unarmed = why_not_armed(comm, call->parts != NULL);
        comm->device->all_may_arm = !comm->device->unarmed;
        if (call->parts) {
            status = dma_device_parts_init(comm, call->parts);
        } else {
            dma_comm_lock(comm);
            dma_device_arm(comm);
            dma_comm_unlock(comm);
        }
    }
    if (status != DMA_OK) {
        dma_comm_lock(comm);
        dma_comm_fail(comm, status, "making a persistent call on %s failed: %s", comm->text, dma_status_name(status));
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

void dma_device_arm(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    dma_run_t next = dc->start_run;

    if (dc->next_is_armed || !dc->binding) {
        return;
    }
    if (dc->unarmed) {
        dma_comm_note_reason(comm, dc->unarmed);
        return;
    }
    if (!take_place(comm)) {
        dma_comm_note_reason(comm, DMA_REASON_arm_limit); /* that many are armed already */
        return;
    }
    next.epoch = dc->epoch + 1;
    if (dc->device->engine->arm(&next, &dc->armed_bytes) != DMA_OK) {
        give_place(comm);
        dc->unarmed = DMA_REASON_arm_refused; /* its programs will not change */
        dma_comm_note_reason(comm, dc->unarmed);
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
