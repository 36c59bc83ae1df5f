/*
 * Starts of persistent calls in a stream of the application (dma/in_stream.h).
 *
 * *_init has prepared the call. Its starts need no descriptors: a rank says by its ready word that it has started, and its engine
 * says by its lines that copies have landed (persistent.c). Streams can store and wait for these words as well as the host can:
 *
 *     the ready word of this rank, the waits for those of the peers, the copies, the lines, and the waits for those of the peers
 *
 * The engine puts all of that into the stream (dma_gpu_engine_t.enqueue). So peers cannot tell how a rank has
 * started, and need not agree. Epochs and sequence numbers count starts of either kind.
 *
 * From the first start to `end` the communicator has one task, carried out by dma_device_by_stream, however many starts the stream has.
 * With it, progress looks for ranks that have failed, and users see what the call waits for. Its epoch and its sequence number
 * are those of the last start. The task ends when the caller says that the stream has done everything.
 *
 * The caller asks its stream, or, if the program may have destroyed it, the words: a start has ended when the words that its stream
 * waits for have come, its lines say that its copies have landed, and the event behind the copy of the own block is reached. What is
 * then left of it in the stream are waits for what has come. So starts need no event of their own, which takes the host 0.2 to 0.5 us.
 *
 * On a communicator of one rank a start is a copy in the stream, with an event, without a task.
 *
 * Invariants:
 *   - A start ends with the waits for the lines of its peers. So at most one run of the communicator is in progress at any time,
 *     and no word gets further than one epoch ahead of what a stream waits for.
 *   - The words stay where they are until the task has ended.
 *
 * Failure. A stream that waits for a rank that has failed must go on. So whoever fails stores the last epoch to all words that its
 * stream waits for, after it has poisoned the window. It does so again until the communicator is destroyed, because streams of
 * other ranks still store to these words. The stream then does the copies of all starts that it has left, also into buffers of ranks
 * that have not failed. A host that has seen such a forged word looks at the poison before it copies, and before it reports that a
 * call has ended. The owner's stream has done everything before `end`. What the stream uses stays allocated
 * and registered: to free it could wait for another stream, which goes on only when its own communicator has failed, too.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/in_stream.h"

#define LEAST_TEMP (UINT64_C(1) << 20)
#define MOST_TEMP  (UINT64_C(32) << 20)

/* What the streams of a channel need of its window, in the address space of the device. */
struct dma_device_in_stream {
    dma_reason_t refused; /* the communicator cannot do it; it will not be tried again */
    bool active;          /* there are starts that have not ended */
    bool over;            /* the stream has done everything: the task may end */
    dma_comm_t *next_failed;
    unsigned arenas;    /* that are registered; the first ranks' */
    uint32_t submitted; /* the epoch of the last start that the stream has as a whole */
    uint32_t seen;      /* how far the stream had got when the task was advanced last */
    dma_gpu_in_stream_t device;
    uint64_t room[]; /* the words of `device` */
};

static _Atomic uint32_t *ready_of(const dma_comm_t *comm, int rank)
{
    return &dma_window_ready(&comm->window, rank)->word;
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

/* ---- what a communicator can ---- */

/* A stream waits for one word. */
static bool all_have_streams(const dma_comm_t *comm)
{
    for (int r = 0; r < comm->nranks; r++) {
        if (comm->window.peers[r].epoch_words) {
            return false;
        }
    }
    return true;
}

/*
 * Does another rank use this device, too, and only one of them at a time? A process that waits in one stream only gives its turn up at
 * once. With the second stream, that of the own block, it seems to keep it until its time is over: two ranks on an H200 without MPS take
 * 4,344 us for a call then, 291 in place, and 325 if the host makes the starts.
 */
static bool would_keep_turn(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;
    uint32_t node = dc->traits[comm->rank].node;
    bool shares = false;

    if (dc->start_in_place || node == UINT32_MAX || !dc->rt->takes_turns) {
        return false;
    }
    for (int r = 0; r < comm->nranks; r++) {
        shares = shares || (r != comm->rank && dc->traits[r].node == node);
    }
    return shares && dc->rt->takes_turns(dc->device->ordinal);
}

static dma_reason_t find_obstacle(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    if (!dc || !dc->prepared || dc->parts) {
        return DMA_REASON_in_stream_unprepared;
    }
    if (!dc->rt->write_and_wait32 || !dc->rt->stream_wait_event) {
        return DMA_REASON_in_stream_engine;
    }
    if (!dc->device->engine->enqueue || !all_have_streams(comm)) {
        return DMA_REASON_in_stream_engine;
    }
    return would_keep_turn(comm) ? DMA_REASON_in_stream_turns : DMA_REASON_NONE;
}

/* The device's address of a word in the window of rank r, whose arena is registered at `at`. */
static uint64_t address_of(const dma_comm_t *comm, int r, const void *word, uint64_t at)
{
    return at + (uint64_t)((const char *)word - (const char *)comm->window.peers[r].mapping->base);
}

/* Registers the arenas of all ranks with the device, and notes where the words are. */
static bool find_words(dma_comm_t *comm, struct dma_device_in_stream *s)
{
    uint64_t *peers = s->room, *lines = s->room + comm->nranks, at;
    size_t npeers = 0, nlines = 0;
    const dma_op_t *op;

    for (int r = 0; r < comm->nranks; r++) {
        if (!dma_device_register_arena(comm, &s->arenas, &at)) {
            return false;
        }
        if (r == comm->rank) {
            s->device.own = address_of(comm, r, ready_of(comm, r), at);
        } else {
            peers[npeers++] = address_of(comm, r, ready_of(comm, r), at);
        }
        for (uint32_t i = 0; (op = next_line(comm, &i));) {
            if (op->flag.rank == r) {
                const void *word = &dma_window_queue(&comm->window, r, op->flag.peer)->word;

                lines[nlines++] = address_of(comm, r, word, at);
            }
        }
    }
    s->device.peers = peers;
    s->device.npeers = npeers;
    s->device.lines = lines;
    s->device.nlines = nlines;
    return true;
}

static bool exchanges(const dma_plan_t *plan)
{
    for (uint32_t i = 1; i < plan->nprogs; i++) {
        for (uint32_t k = 0; k < plan->progs[i].nops; k++) {
            if (plan->progs[i].ops[k].code == DMA_OP_SWAP) {
                return true;
            }
        }
    }
    return false;
}

/* Memory for exchanges: as much as they need at once, within bounds. */
static bool take_temp(dma_comm_t *comm, dma_gpu_in_stream_t *d)
{
    const struct dma_device_comm *dc = comm->device;
    uint64_t wanted = dc->start_bytes * (uint64_t)comm->nranks, bytes = LEAST_TEMP;
    dma_gpu_scope_t scope;
    dma_status_t status;

    while (bytes < wanted && bytes < MOST_TEMP) {
        bytes *= 2;
    }
    if (!dma_budget_take(&comm->proc->budget, DMA_BUDGET_DEVICE, bytes)) {
        return false;
    }
    if ((status = dc->rt->enter(dc->device->ordinal, &scope)) == DMA_OK) {
        status = dc->rt->alloc(bytes, &d->temp);
        dc->rt->leave(&scope);
    }
    if (status != DMA_OK) {
        dma_budget_give(&comm->proc->budget, DMA_BUDGET_DEVICE, bytes);
        d->temp = 0;
        return false;
    }
    d->temp_bytes = bytes;
    return true;
}

static size_t count_lines(const dma_comm_t *comm)
{
    size_t n = 0;

    for (uint32_t i = 0; next_line(comm, &i);) {
        n++;
    }
    return n;
}

static dma_reason_t make(dma_comm_t *comm)
{
    struct dma_device_in_stream *s = comm->device ? comm->device->in_stream : NULL;
    dma_reason_t why = s ? s->refused : find_obstacle(comm);

    if (s || why) {
        return why;
    }
    s = calloc(1, sizeof(*s) + ((size_t)comm->nranks + count_lines(comm)) * sizeof(s->room[0]));
    if (!s) {
        return DMA_REASON_in_stream_refused;
    }
    comm->device->in_stream = s;
    if (!find_words(comm, s) || (exchanges(comm->device->start_run.plan) && !take_temp(comm, &s->device))) {
        s->refused = DMA_REASON_in_stream_refused;
    }
    return s->refused;
}

void dma_device_in_stream_give_back(dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;
    struct dma_device_in_stream *s = dc->in_stream;
    dma_gpu_scope_t scope;

    if (!s) {
        return;
    }
    dma_device_unregister_arenas(comm, &s->arenas);
    if (s->device.temp && dc->rt->enter_to_release(dc->device->ordinal, &scope) == DMA_OK) {
        (void)dc->rt->free(s->device.temp);
        dc->rt->leave(&scope);
    }
    dma_budget_give(&comm->proc->budget, DMA_BUDGET_DEVICE, s->device.temp_bytes);
    s->device.temp = s->device.temp_bytes = 0;
}

/* ---- starts ---- */

static void set_active(struct dma_device_in_stream *s, bool active)
{
    s->active = active;
    s->over = false;
    dma_gpu_note_waiting_stream(active);
}

static void begin_task(dma_comm_t *comm, dma_task_t *task)
{
    dma_task_post(comm, task);
    dma_event_begin(comm, task, DMA_FORM_PERSISTENT);
    if (dma_trace_on(comm->trace)) {
        dma_task_trace_begin(task, dma_trace_now());
    }
    dma_task_set_running(task);
    dma_device_set_runner(task, &dma_device_by_stream);
}

static void count_start(dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;

    dma_comm_count(comm, DMA_COUNT_PERSISTENT + (int)task->coll);
    dma_comm_count(comm, DMA_COUNT_calls_in_stream);
    dma_comm_count(comm, DMA_COUNT_VARIANT + (int)task->run.plan->variant);
    dma_comm_count(comm, DMA_COUNT_ENGINE + dc->device->engine_index);
}

dma_status_t dma_device_in_stream_start(dma_comm_t *comm, dma_task_t *task, void *arrays, dma_app_stream_t *stream,
                                        unsigned *operations)
{
    dma_reason_t why = make(comm);
    struct dma_device_comm *dc = comm->device;
    dma_status_t status;
    bool first;

    why = why ? why : dma_device_adopt_stream(dc->rt, dc->device->ordinal, stream);
    if (why) {
        dma_comm_note_reason(comm, why);
        return DMA_UNSUPPORTED;
    }
    first = !dc->in_stream->active;
    if (first && (status = dma_device_persistent_start(comm, task, arrays)) != DMA_OK) {
        return status;
    }
    task->run.epoch = ++dc->epoch;
    if (first) {
        set_active(dc->in_stream, true); /* before: if not everything could be submitted, the stream may wait already */
    }
    *operations = 4 * (unsigned)comm->nranks; /* two stores, the waits for peers twice, copies, and events */
    status = dc->device->engine->enqueue(&task->run, stream->handle, &dc->in_stream->device);
    if (status == DMA_UNSUPPORTED) {
        task->run.epoch = --dc->epoch;
        if (first) {
            set_active(dc->in_stream, false);
        }
        dma_comm_note_reason(comm, DMA_REASON_in_stream_refused);
    }
    if (status != DMA_OK) {
        return status;
    }
    dc->in_stream->submitted = dc->epoch;
    dc->start_run.repeat = task->run.repeat = true;
    count_start(comm, task);
    if (first) {
        begin_task(comm, task);
    } else {
        comm->watched_seq += comm->watched_seq == task->run.seq; /* a start does not make a new wait */
        task->run.seq = ++comm->seq;
        dma_state_count_begun(comm);
    }
    return DMA_OK;
}

void dma_device_in_stream_end(dma_comm_t *comm)
{
    comm->device->in_stream->over = true;
}

bool dma_device_is_in_stream(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dc && dc->in_stream && dc->in_stream->active;
}

bool dma_device_in_stream_has_begun(const dma_comm_t *comm, uint32_t epoch)
{
    return dma_ready_started(atomic_load_explicit(ready_of(comm, comm->rank), memory_order_relaxed), epoch);
}

/* ---- a communicator of one rank ---- */

static dma_reason_t copy_alone(dma_task_t *task, dma_app_stream_t *stream)
{
    const struct dma_device_call *d = task->device;
    const dma_run_t *run = &task->run;
    uint64_t bytes = dma_blocks_bytes(&run->send, 0);
    const dma_gpu_app_stream_t *app;
    dma_gpu_scope_t scope;
    dma_reason_t why;
    dma_status_t status;

    /* not relayed: the blocks are in host memory by now */
    if (!d || !d->relayed || task->stages || !d->send_on || !d->recv_on) {
        return DMA_REASON_in_stream_unprepared;
    }
    if (!d->rt->stream_adopt) {
        return DMA_REASON_in_stream_engine;
    }
    if ((why = dma_device_adopt_stream(d->rt, d->device, stream))) {
        return why;
    }
    app = stream->handle;
    status = d->rt->enter(d->device, &scope);
    if (status == DMA_OK) {
        if (bytes && !task->in_place) {
            status = d->rt->copy_async(app->stream, (uint64_t)(uintptr_t)dma_blocks_addr(&run->recv, 0),
                                       (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, 0), bytes);
        }
        status = status == DMA_OK ? d->rt->event_record(app->copied, app->stream) : status;
        d->rt->leave(&scope);
    }
    return status == DMA_OK ? DMA_REASON_NONE : DMA_REASON_in_stream_refused;
}

dma_status_t dma_device_in_stream_alone(dma_comm_t *comm, const dma_call_t *call, void *arrays,
                                        dma_app_stream_t *stream)
{
    dma_task_t task = {.comm = comm};
    dma_status_t status = dma_task_init(comm, &task, call, arrays);
    dma_reason_t why = DMA_REASON_NONE;

    if (status == DMA_OK && (why = copy_alone(&task, stream))) {
        dma_comm_note_reason(comm, why);
        status = DMA_UNSUPPORTED;
    } else if (status == DMA_OK) {
        dma_comm_count(comm, DMA_COUNT_PERSISTENT + (int)call->coll);
        dma_comm_count(comm, DMA_COUNT_calls_in_stream);
        dma_comm_count(comm, DMA_COUNT_calls_self);
    }
    dma_task_drop(&task);
    return status;
}

/* ---- the task ---- */

/* The epoch that the stream has reached: that of its last start which the device has begun. */
static uint32_t reached(const dma_comm_t *comm)
{
    return atomic_load_explicit(ready_of(comm, comm->rank), memory_order_relaxed);
}

static dma_status_t advance_stream(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_in_stream *s = comm->device->in_stream;

    (void)task;
    if (s->over) {
        /* The stream has gone on also if another rank has failed, and has forged what it waits for. */
        dma_status_t poison = dma_window_poisoned(&comm->window);

        if (poison == DMA_OK) {
            set_active(s, false);
        }
        return poison;
    }
    if (s->seen != reached(comm)) {
        s->seen = reached(comm);
        comm->watched_seq = 0; /* it has moved: what it waits for now is a new wait */
    }
    return DMA_AGAIN;
}

static dma_wait_t stream_waits_for(const dma_comm_t *comm)
{
    uint32_t epoch = reached(comm), i = 0;
    dma_wait_t wait = {0};
    const dma_op_t *op;

    for (int r = 0; r < comm->nranks; r++) {
        if (!dma_ready_started(atomic_load_explicit(ready_of(comm, r), memory_order_relaxed), epoch)) {
            dma_wait_add(&wait, DMA_WAIT_ENTRY, r);
        }
    }
    while (wait.kind == DMA_WAIT_NONE && (op = next_line(comm, &i))) {
        if (!dma_window_queue_reached(&comm->window, op->flag.rank, op->flag.peer, epoch)) {
            dma_wait_add(&wait, DMA_WAIT_FLAG, op->flag.rank);
            break;
        }
    }
    return wait;
}

/* Everything that starts with an engine write and wait for, except for the own block. */
static bool words_have_come(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dma_ready_started(reached(comm), dc->in_stream->submitted) && stream_waits_for(comm).kind == DMA_WAIT_NONE &&
           (!dc->binding || dc->device->engine->enqueued_ended(dc->binding));
}

/* After a fault of the device, all calls with its objects fail. */
dma_status_t dma_device_in_stream_look(const dma_comm_t *comm, const dma_app_stream_t *stream)
{
    const dma_gpu_runtime_t *rt = dma_proc_runtime(comm->proc);
    const dma_gpu_app_stream_t *app = stream->handle;
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter_to_release(stream->device, &scope);

    if (status == DMA_OK) {
        status = rt->event_query(app->copied);
        rt->leave(&scope);
    }
    if (status == DMA_OK && comm->nranks > 1 && !words_have_come(comm)) {
        return DMA_AGAIN;
    }
    return status;
}

static dma_wait_t task_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return stream_waits_for(comm);
}

static uint64_t task_position(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return reached(comm);
}

const dma_device_runner_t dma_device_by_stream = {
    .name = "in a stream",
    .advance = advance_stream,
    .end = dma_device_end_streaming,
    .waits_for = task_waits_for,
    .position = task_position,
};

bool dma_device_may_report(dma_comm_t *comm)
{
    const dma_task_t *task = comm->head;
    bool streams = task && task->route == &dma_route_device && dma_task_state(task) == DMA_TASK_RUNNING &&
                   task->device->runner == &dma_device_by_stream;

    /* the stream may have other work before its next start */
    return !streams || stream_waits_for(comm).kind != DMA_WAIT_NONE;
}

/* ---- failure ---- */

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
    const struct dma_device_comm *dc = comm->device;
    uint32_t i = 0;
    const dma_op_t *op;

    for (int r = 0; r < comm->nranks; r++) {
        if (r != comm->rank) {
            forge(ready_of(comm, r), dc->epoch);
        }
    }
    while ((op = next_line(comm, &i))) {
        forge(&dma_window_queue(&comm->window, op->flag.rank, op->flag.peer)->word, dc->epoch);
    }
}

bool dma_device_in_stream_release(dma_comm_t *comm)
{
    struct dma_device_in_stream *s = comm->device->in_stream;

    if (!dma_device_is_in_stream(comm)) {
        return false;
    }
    forge_all(comm);
    pthread_mutex_lock(&failed.lock);
    s->next_failed = failed.first;
    failed.first = comm;
    pthread_mutex_unlock(&failed.lock);
    set_active(s, false);
    return true;
}

void dma_device_in_stream_push_on(void)
{
    pthread_mutex_lock(&failed.lock);
    for (const dma_comm_t *comm = failed.first; comm; comm = comm->device->in_stream->next_failed) {
        forge_all(comm);
    }
    pthread_mutex_unlock(&failed.lock);
}

void dma_device_in_stream_destroy(dma_comm_t *comm)
{
    dma_comm_t **link = &failed.first;

    if (!comm->device->in_stream) {
        return;
    }
    pthread_mutex_lock(&failed.lock);
    while (*link && *link != comm) {
        link = &(*link)->device->in_stream->next_failed;
    }
    if (*link) {
        *link = comm->device->in_stream->next_failed;
    }
    pthread_mutex_unlock(&failed.lock);
    free(comm->device->in_stream);
    comm->device->in_stream = NULL;
}
