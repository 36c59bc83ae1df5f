/* Starts of persistent calls: see starts.h. */
#include "device/starts.h"

#include <pthread.h>

/* ---- words ---- */

static _Atomic uint32_t *ready_of(const dma_comm_t *comm, int rank)
{
    return &dma_window_ready(&comm->window, rank)->word;
}

static _Atomic uint32_t *line_of(const dma_comm_t *comm, const dma_op_t *op)
{
    return &dma_window_queue(&comm->window, op->flag.rank, op->flag.peer)->word;
}

uint32_t dma_starts_reached(const dma_comm_t *comm)
{
    return atomic_load_explicit(ready_of(comm, comm->rank), memory_order_relaxed);
}

static bool has_started(const dma_comm_t *comm, int rank, uint32_t epoch)
{
    /* acquire: the rank's buffers are written only after its ready word has been seen; sequentially consistent: see `begin` */
    return dma_ready_started(atomic_load_explicit(ready_of(comm, rank), memory_order_seq_cst), epoch);
}

static bool all_have_started(const dma_comm_t *comm, uint32_t epoch)
{
    int r = 0;

    while (r < comm->nranks && has_started(comm, r, epoch)) {
        r++;
    }
    return r == comm->nranks;
}

/* The waits of the plan for lines of other ranks: the i-th, or NULL. */
static const dma_op_t *next_line(const dma_comm_t *comm, uint32_t *i)
{
    const dma_prog_t *host = &comm->device->start_run.plan->progs[0];

    while (*i < host->nops) {
        const dma_op_t *op = &host->ops[(*i)++];

        if (op->code == DMA_OP_WAIT && op->flag.kind == DMA_FLAG_QUEUE && op->flag.rank != comm->rank) {
            return op;
        }
    }
    return NULL;
}

dma_wait_t dma_starts_wait(const dma_comm_t *comm, uint32_t epoch, bool lines)
{
    dma_wait_t wait = {0};
    const dma_op_t *op;

    for (int r = 0; r < comm->nranks; r++) {
        if (!has_started(comm, r, epoch)) {
            dma_wait_add(&wait, DMA_WAIT_ENTRY, r);
        }
    }
    lines = lines && wait.kind == DMA_WAIT_NONE;
    for (uint32_t i = 0; lines && (op = next_line(comm, &i));) {
        if (!dma_window_queue_reached(&comm->window, op->flag.rank, op->flag.peer, epoch)) {
            dma_wait_add(&wait, DMA_WAIT_FLAG, op->flag.rank);
        }
    }
    return wait;
}

bool dma_starts_map(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    for (; dc->arenas_mapped < comm->nranks; dc->arenas_mapped++) {
        const dma_mapping_t *m = comm->window.peers[dc->arenas_mapped].mapping;

        if (dma_ipc_register(comm->proc->ipc, dc->device->ordinal, m->base, m->bytes, &dc->arenas[dc->arenas_mapped]) !=
            DMA_OK) {
            return false;
        }
    }
    return true;
}

void dma_starts_unmap(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    while (dc->arenas_mapped > 0) {
        --dc->arenas_mapped;
        dma_slots_unregister(comm, dc->arenas_mapped, comm->window.peers[dc->arenas_mapped].mapping->base);
    }
}

size_t dma_starts_count_words(const dma_comm_t *comm)
{
    size_t n = (size_t)comm->nranks;

    for (uint32_t i = 0; next_line(comm, &i);) {
        n++;
    }
    return n;
}

/* The device's address of a word in the window of a rank. */
static uint64_t address_of(const dma_comm_t *comm, int rank, const _Atomic uint32_t *word)
{
    return comm->device->arenas[rank] +
           (uint64_t)((const char *)word - (const char *)comm->window.peers[rank].mapping->base);
}

bool dma_starts_find_words(dma_comm_t *comm, dma_gpu_in_stream_t *words, uint64_t *room)
{
    const dma_op_t *op;

    if (!dma_starts_map(comm)) {
        return false;
    }
    words->own = address_of(comm, comm->rank, ready_of(comm, comm->rank));
    words->peers = room;
    for (int r = 0; r < comm->nranks; r++) {
        if (r != comm->rank) {
            room[words->npeers++] = address_of(comm, r, ready_of(comm, r));
        }
    }
    words->lines = room += words->npeers;
    for (uint32_t i = 0; (op = next_line(comm, &i));) {
        room[words->nlines++] = address_of(comm, op->flag.rank, line_of(comm, op));
    }
    return true;
}

/* ---- arming ---- */

bool dma_starts_take_place(dma_proc_t *proc)
{
    if (atomic_fetch_add_explicit(&proc->armed, 1, memory_order_relaxed) < proc->params.prelaunch) {
        return true;
    }
    dma_starts_give_place(proc);
    return false;
}

void dma_starts_give_place(dma_proc_t *proc)
{
    atomic_fetch_sub_explicit(&proc->armed, 1, memory_order_relaxed);
}

/* Programs do not wait any more. Those with partitions hold their place as long as the call lives (parts.c). */
static void end_wait(dma_comm_t *comm, int how)
{
    struct dma_device_comm *dc = comm->device;
    double waited = dma_now() - dc->armed_at;

    dc->next_is_armed = false;
    dma_comm_count(comm, how);
    comm->counts.at[DMA_COUNT_armed_ns] += waited > 0 ? (uint64_t)(1e9 * waited) : 0;
    if (!dc->parts) {
        dma_starts_give_place(comm->proc);
    }
}

void dma_starts_arm(dma_comm_t *comm)
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
    if (!dc->parts && !dma_starts_take_place(comm->proc)) {
        dma_comm_note_reason(comm, DMA_REASON_arm_limit); /* that many are armed already */
        return;
    }
    next.epoch = dc->epoch + 1;
    if (dc->device->engine->arm(&next, &dc->armed_bytes) != DMA_OK) {
        if (!dc->parts) {
            dma_starts_give_place(comm->proc);
        }
        dc->unarmed = DMA_REASON_arm_refused; /* its programs will not change */
        dma_comm_note_reason(comm, dc->unarmed);
        return;
    }
    dc->next_is_armed = true;
    dc->armed_at = dma_now(); /* if a run is in progress, it begins when that has ended */
    dma_comm_count(comm, DMA_COUNT_armed);
    dma_comm_set_active(comm, true); /* progress checks how long the programs stay armed */
}

void dma_starts_prepare_next(dma_comm_t *comm)
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
        dma_starts_arm(comm);
    }
    dma_comm_unlock(comm);
}

void dma_starts_disarm(dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed) {
        end_wait(comm, DMA_COUNT_armed_cancelled);
    }
    if (dc->binding && dc->device->engine->disarm) {
        dc->device->engine->disarm(dc->binding); /* also a run that has started and waits for peers */
    }
}

void dma_starts_disarm_expired(dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed && !comm->head && dma_now() - dc->armed_at > comm->proc->params.armed_seconds) {
        dma_comm_note_reason(comm, DMA_REASON_arm_expired);
        dma_starts_disarm(comm);
    }
}

/* ---- starts by the host ---- */

/* All ranks have started. The rank's own programs need no better place: the others wait, too. */
static void release_all(dma_comm_t *comm, uint32_t epoch)
{
    for (int r = 0; comm->device->all_may_arm && r < comm->nranks; r++) {
        dma_trigger_release(dma_window_trigger(&comm->window, r, epoch), epoch);
    }
    dma_device_wake_submitters(comm); /* ranks whose programs were not armed */
}

/* Begins the run, and takes what is armed for it. DMA_ERR_ENGINE: it has no other way. */
static dma_status_t begin_run(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;

    if (dc->start_run.parts && !dc->next_is_armed) {
        dma_starts_arm(comm); /* it was removed, or could not be done then */
        if (!dc->next_is_armed) {
            return DMA_ERR_ENGINE;
        }
    }
    dc->run_is_armed = dc->next_is_armed;
    dma_device_start_run(comm, task);
    dc->start_run.repeat = true; /* for the starts after this one */
    if (dc->run_is_armed) {
        dma_device_set_runner(task, &dma_device_by_engine);
        comm->counts.at[DMA_COUNT_bytes_engines] += dc->armed_bytes;
        end_wait(comm, DMA_COUNT_armed_started);
    }
    return DMA_OK;
}

dma_status_t dma_starts_begin(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    /* If a peer has failed, its caller has its buffers back. */
    dma_status_t status = dma_window_poisoned(&comm->window);

    if (status != DMA_OK || (status = begin_run(comm, task)) != DMA_OK) {
        return status;
    }
    dc->started_at = dma_trace_begin(comm->trace); /* before armed engines can begin */
    /* Release: what the user has written into the buffers comes before what engines do after the last start. Sequentially
     * consistent, as the loads behind it: of ranks that start at the same time, at least one sees all words. */
    atomic_store_explicit(ready_of(comm, comm->rank), task->run.epoch, memory_order_seq_cst);
    if (all_have_started(comm, task->run.epoch)) {
        release_all(comm, task->run.epoch);
    }
    dma_task_set_running(task);
    if (!dc->run_is_armed) {
        dma_trace_mark(comm->trace, DMA_TRACE_ENTERED, task->run.seq, 0, 0, 0);
        dma_device_copy_early(comm, task);
    }
    return DMA_OK;
}

dma_status_t dma_starts_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t poison;

    if (!all_have_started(comm, task->run.epoch)) {
        return DMA_AGAIN;
    }
    if ((poison = dma_window_poisoned(&comm->window)) != DMA_OK) { /* then a word may be forged */
        return poison;
    }
    dma_trace_mark(comm->trace, DMA_TRACE_MET, task->run.seq, 0, 0, 0);
    dma_device_set_runner(task, &dma_device_by_engine);
    return DMA_OK;
}

void dma_starts_end(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (dc->next_is_armed) {
        dc->armed_at = dma_now(); /* from now on nothing else is in front of them */
    } else if (!dc->run_is_armed || dc->start_run.parts) {
        /* Not while it was under way: it was on other queues of the same engines, which a waiting queue would have blocked.
         * Or it has partitions: what is left of it could have been taken back, and be submitted to the same queues. */
        dma_starts_arm(comm);
    }
}

/* ---- the end ---- */

/* Communicators that have failed while a stream had starts of them, until they are destroyed. */
static struct {
    pthread_mutex_t lock;
    dma_comm_t *first;
} failed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Release: who sees this word, and then looks at the poison, sees that as well. */
static void forge(_Atomic uint32_t *word, uint32_t epoch)
{
    uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);

    while (!dma_ready_started(seen, epoch) &&
           !atomic_compare_exchange_weak_explicit(word, &seen, epoch, memory_order_release, memory_order_relaxed)) {
    }
}

static void forge_all(const dma_comm_t *comm)
{
    uint32_t i = 0, epoch = comm->device->epoch;
    const dma_op_t *op;

    for (int r = 0; r < comm->nranks; r++) {
        if (r != comm->rank) {
            forge(ready_of(comm, r), epoch);
        }
    }
    while ((op = next_line(comm, &i))) {
        forge(line_of(comm, op), epoch);
    }
}

void dma_starts_stop(dma_comm_t *comm, bool streams)
{
    struct dma_device_comm *dc = comm->device;

    if (streams) {
        forge_all(comm);
        pthread_mutex_lock(&failed.lock);
        dc->next_failed = failed.first;
        failed.first = comm;
        pthread_mutex_unlock(&failed.lock);
    }
    for (int r = 0; dc->all_may_arm && r < comm->nranks; r++) {
        (void)dma_trigger_claim(dma_window_trigger(&comm->window, r, dc->epoch), dc->epoch);
    }
    dma_starts_disarm(comm);
}

void dma_starts_push_on(void)
{
    pthread_mutex_lock(&failed.lock);
    for (const dma_comm_t *comm = failed.first; comm; comm = comm->device->next_failed) {
        forge_all(comm);
    }
    pthread_mutex_unlock(&failed.lock);
}

void dma_starts_destroy(dma_comm_t *comm)
{
    dma_comm_t **link = &failed.first;

    if (!comm->device->in_stream) {
        return;
    }
    pthread_mutex_lock(&failed.lock);
    while (*link && *link != comm) {
        link = &(*link)->device->next_failed;
    }
    if (*link) {
        *link = comm->device->next_failed;
    }
    pthread_mutex_unlock(&failed.lock);
}
