/*
 * Starts in a stream of the application (dma/in_stream.h): a starter of starts.h.
 *
 * The engine puts all of a start into the stream (dma_gpu_engine_t.enqueue): the ready word of this rank, the waits for those of the
 * peers, the copies, the lines, and the waits for those of the peers.
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
 * After a failure what the stream uses stays allocated and registered: to free it could wait for another stream, which goes on only
 * when its own communicator has failed, too.
 */
#include <stdlib.h>

#include "core/channel.h"
#include "device/in_stream.h"
#include "device/starts.h"

#define LEAST_TEMP (UINT64_C(1) << 20)
#define MOST_TEMP  (UINT64_C(32) << 20)

struct dma_device_in_stream {
    dma_reason_t refused; /* the communicator cannot do it; it will not be tried again */
    bool active;          /* there are starts that have not ended */
    bool over;            /* the stream has done everything: the task may end */
    uint32_t submitted;   /* the epoch of the last start that the stream has as a whole */
    uint32_t seen;        /* how far the stream had got when the task was advanced last */
    dma_gpu_in_stream_t words;
    uint64_t room[]; /* the addresses of `words` */
};

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

static dma_reason_t make(dma_comm_t *comm)
{
    struct dma_device_in_stream *s = comm->device ? comm->device->in_stream : NULL;
    dma_reason_t why = s ? s->refused : find_obstacle(comm);

    if (s || why) {
        return why;
    }
    s = calloc(1, sizeof(*s) + dma_starts_count_words(comm) * sizeof(s->room[0]));
    if (!s) {
        return DMA_REASON_in_stream_refused;
    }
    comm->device->in_stream = s;
    if (!dma_starts_find_words(comm, &s->words, s->room) ||
        (exchanges(comm->device->start_run.plan) && !take_temp(comm, &s->words))) {
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
    if (s->words.temp && dc->rt->enter_to_release(dc->device->ordinal, &scope) == DMA_OK) {
        (void)dc->rt->free(s->words.temp);
        dc->rt->leave(&scope);
    }
    dma_budget_give(&comm->proc->budget, DMA_BUDGET_DEVICE, s->words.temp_bytes);
    s->words.temp = s->words.temp_bytes = 0;
}

/* ---- a start ---- */

static void set_active(struct dma_device_in_stream *s, bool active)
{
    s->active = active;
    s->over = false;
    dma_gpu_note_waiting_stream(active);
}

static void begin_task(dma_channel_t *ch)
{
    dma_comm_t *comm = ch->comm;
    dma_task_t *task = &ch->task;

    dma_task_post(comm, task);
    dma_event_begin(comm, task, DMA_FORM_PERSISTENT);
    if (dma_trace_on(comm->trace)) {
        dma_task_trace_begin(task, dma_trace_now());
    }
    dma_task_set_running(task);
    dma_device_set_runner(task, &dma_device_by_stream);
}

static void count_start(dma_comm_t *comm, dma_coll_t coll)
{
    dma_comm_count(comm, DMA_COUNT_PERSISTENT + (int)coll);
    dma_comm_count(comm, DMA_COUNT_calls_in_stream);
}

/* DMA_UNSUPPORTED: the stream has got nothing. */
static dma_status_t submit(dma_comm_t *comm, dma_task_t *task, dma_app_stream_t *stream, bool first)
{
    struct dma_device_comm *dc = comm->device;
    dma_status_t status;

    task->run.epoch = ++dc->epoch;
    if (first) {
        set_active(dc->in_stream, true); /* before: if not everything could be submitted, the stream may wait already */
    }
    status = dc->device->engine->enqueue(&task->run, stream->handle, &dc->in_stream->words);
    if (status == DMA_UNSUPPORTED) {
        task->run.epoch = --dc->epoch;
        if (first) {
            set_active(dc->in_stream, false);
        }
        dma_comm_note_reason(comm, DMA_REASON_in_stream_refused);
    }
    return status;
}

static dma_status_t start(dma_channel_t *ch, dma_app_stream_t *stream)
{
    dma_comm_t *comm = ch->comm;
    dma_reason_t why = make(comm);
    struct dma_device_comm *dc = comm->device;
    dma_task_t *task = &ch->task;
    dma_status_t status;
    bool first;

    why = why ? why : dma_device_adopt_stream(dc->rt, dc->device->ordinal, stream);
    if (why) {
        dma_comm_note_reason(comm, why);
        return DMA_UNSUPPORTED;
    }
    first = !dc->in_stream->active;
    if (first && (status = dma_device_persistent_start(comm, task, ch->arrays)) != DMA_OK) {
        return status;
    }
    if ((status = submit(comm, task, stream, first)) != DMA_OK) {
        return status;
    }
    dc->in_stream->submitted = dc->epoch;
    dc->start_run.repeat = task->run.repeat = true;
    count_start(comm, task->coll);
    dma_device_count_run(comm, task);
    if (first) {
        begin_task(ch);
    } else {
        comm->watched_seq += comm->watched_seq == task->run.seq; /* a start does not make a new wait */
        task->run.seq = ++comm->seq;
        dma_state_count_begun(comm);
    }
    task->done = ch->done;
    task->arg = ch->arg;
    dma_comm_set_active(comm, true);
    return DMA_OK;
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

static dma_status_t start_alone(dma_channel_t *ch, dma_app_stream_t *stream)
{
    dma_comm_t *comm = ch->comm;
    dma_task_t task = {.comm = comm};
    dma_status_t status = dma_task_init(comm, &task, &ch->call, ch->arrays);
    dma_reason_t why = DMA_REASON_NONE;

    if (status == DMA_OK && (why = copy_alone(&task, stream))) {
        dma_comm_note_reason(comm, why);
        status = DMA_UNSUPPORTED;
    } else if (status == DMA_OK) {
        count_start(comm, ch->call.coll);
        dma_comm_count(comm, DMA_COUNT_calls_self);
    }
    dma_task_drop(&task);
    return status;
}

/* ---- the task ---- */

static dma_status_t advance_stream(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_in_stream *s = comm->device->in_stream;
    uint32_t reached = dma_starts_reached(comm);

    (void)task;
    if (s->over) { /* also if another rank has failed, and has forged what the stream waits for */
        dma_status_t poison = dma_window_poisoned(&comm->window);

        if (poison == DMA_OK) {
            set_active(s, false);
        }
        return poison;
    }
    if (s->seen != reached) {
        s->seen = reached;
        comm->watched_seq = 0; /* it has moved: what it waits for now is a new wait */
    }
    return DMA_AGAIN;
}

static dma_wait_t waits_for(const dma_comm_t *comm)
{
    return dma_starts_wait(comm, dma_starts_reached(comm), true);
}

static dma_wait_t task_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return waits_for(comm);
}

static uint64_t task_position(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return dma_starts_reached(comm);
}

const dma_device_runner_t dma_device_by_stream = {
    .name = "in a stream",
    .advance = advance_stream,
    .end = dma_device_end_streaming,
    .waits_for = task_waits_for,
    .position = task_position,
};

bool dma_device_is_in_stream(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dc && dc->in_stream && dc->in_stream->active;
}

bool dma_device_may_report(dma_comm_t *comm)
{
    /* the stream may have other work before its next start */
    return !dma_device_is_in_stream(comm) || waits_for(comm).kind != DMA_WAIT_NONE;
}

bool dma_device_in_stream_leave(dma_comm_t *comm)
{
    bool active = dma_device_is_in_stream(comm);

    if (active) {
        set_active(comm->device->in_stream, false);
    }
    return active;
}

/* ---- for the component: a channel ---- */

static dma_status_t start_channel(dma_channel_t *ch, dma_app_stream_t *stream)
{
    dma_comm_t *comm = ch->comm;
    dma_status_t status = DMA_UNSUPPORTED;

    if (comm->state == DMA_COMM_POISONED) {
        return comm->error;
    }
    if (comm->parent->state == DMA_COMM_POISONED) {
        return comm->parent->error;
    }
    if (comm->state != DMA_COMM_READY || !comm->proc->memory || ch->resolved) {
        return DMA_UNSUPPORTED;
    }
    if (comm->nranks == 1) {
        return start_alone(ch, stream);
    }
    status = start(ch, stream);
    if (status != DMA_OK && status != DMA_UNSUPPORTED) {
        dma_comm_fail(comm, status, "a start of %s in a stream failed: %s", comm->text, dma_status_name(status));
    }
    return status;
}

dma_status_t dma_channel_start_in_stream(dma_channel_t *ch, dma_app_stream_t *stream, dma_in_stream_started_t *started)
{
    int n = ch->comm->nranks;
    dma_status_t status;

    dma_comm_lock(ch->comm);
    status = start_channel(ch, stream);
    started->number = ch->task.run.epoch;
    started->operations = n > 1 ? 4 * (unsigned)n : 1; /* two stores, the waits for peers twice, copies, and events */
    dma_comm_unlock(ch->comm);
    return status;
}

bool dma_channel_has_begun_in_stream(const dma_channel_t *ch, uint32_t number)
{
    return ch->comm->nranks == 1 || dma_ready_started(dma_starts_reached(ch->comm), number);
}

bool dma_channel_has_failed_in_stream(dma_channel_t *ch)
{
    bool failed;

    dma_comm_lock(ch->comm);
    failed = ch->comm->state == DMA_COMM_POISONED;
    dma_comm_unlock(ch->comm);
    return failed;
}

/* Everything that starts with an engine write and wait for, except for the own block. */
static bool words_have_come(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dma_ready_started(dma_starts_reached(comm), dc->in_stream->submitted) &&
           waits_for(comm).kind == DMA_WAIT_NONE && (!dc->binding || dc->device->engine->enqueued_ended(dc->binding));
}

/* After a fault of the device, all calls with its objects fail. */
dma_status_t dma_channel_look_in_stream(dma_channel_t *ch, const dma_app_stream_t *stream)
{
    const dma_gpu_runtime_t *rt = dma_proc_runtime(ch->comm->proc);
    const dma_gpu_app_stream_t *app = stream->handle;
    dma_gpu_scope_t scope;
    dma_status_t status;

    dma_comm_lock(ch->comm);
    if ((status = rt->enter_to_release(stream->device, &scope)) == DMA_OK) {
        status = rt->event_query(app->copied);
        rt->leave(&scope);
    }
    if (status == DMA_OK && ch->comm->nranks > 1 && !words_have_come(ch->comm)) {
        status = DMA_AGAIN;
    }
    dma_comm_unlock(ch->comm);
    return status;
}

dma_status_t dma_channel_end_in_stream(dma_channel_t *ch, bool broken)
{
    dma_comm_t *comm = ch->comm;
    dma_status_t status;

    dma_comm_lock(comm);
    if (broken) {
        dma_comm_fail(comm, DMA_ERR_ENGINE, "a stream that starts calls on %s has failed", comm->text);
    } else if (comm->head) {
        comm->device->in_stream->over = true;
        dma_comm_advance(comm);
    }
    status = comm->state == DMA_COMM_POISONED ? comm->error : DMA_OK;
    dma_comm_unlock(comm);
    return status;
}
