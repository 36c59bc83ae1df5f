/* The life of a call in device memory: enter, agree, run. See device.h. */
#include "core/resolve.h"
#include "device/device.h"
#include "device/in_stream.h"
#include "device/join.h"
#include "node/entry.h"

#define SPIN_SECONDS 20e-6 /* peers that call at the same time enter within a few microseconds */

/* The word in the agreed line of a rank: the number of the agreement, and in the lowest bits the rank's vote. */
enum { VOTE_YES = 1, VOTE_NO = 2, VOTE_BITS = 2, VOTE_MASK = 3 };

static _Atomic uint32_t *vote_of(const dma_comm_t *comm, int rank, dma_device_ballot_t ballot)
{
    dma_engine_line_t *line = dma_window_agreed(&comm->window, rank);

    return ballot == DEVICE_BALLOT_ENGINE ? &line->word : &line->by_epoch[0];
}

/* How many agreements the rank with this word is ahead of that number; -1: it has not voted in it. A rank is ahead if it has
 * seen that all have voted yes, and votes for the next piece of the call. */
static int votes_ahead(uint32_t number, uint32_t word)
{
    int32_t ahead = (int32_t)((word & ~(uint32_t)VOTE_MASK) - (number << VOTE_BITS)) >> VOTE_BITS;

    return ahead < 0 ? -1 : ahead;
}

void dma_device_vote(dma_comm_t *comm, dma_device_ballot_t ballot, bool yes)
{
    uint32_t number = ++comm->device->agreements[ballot];

    /* release: this rank's reads of the records come before a peer that has seen the vote overwrites its record, and so does
     * what the vote says about its memory */
    atomic_store_explicit(vote_of(comm, comm->rank, ballot), number << VOTE_BITS | (yes ? VOTE_YES : VOTE_NO),
                          memory_order_release);
}

bool dma_device_votes_reached(const dma_comm_t *comm, dma_device_ballot_t ballot, uint32_t number, bool *all)
{
    *all = true;
    for (int r = 0; r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(vote_of(comm, r, ballot), memory_order_acquire);
        int ahead = votes_ahead(number, word);

        if (ahead < 0) {
            return false;
        }
        *all = *all && (ahead || (word & VOTE_MASK) == VOTE_YES);
    }
    return true;
}

bool dma_device_votes_are_in(const dma_comm_t *comm, dma_device_ballot_t ballot, bool *all)
{
    return dma_device_votes_reached(comm, ballot, comm->device->agreements[ballot], all);
}

/* Whoever was the last to come wakes the submitters of the ranks that were waiting. Each rank stores what the others wait for
 * before it looks at the others, so the last one finds all of it there. */
void dma_device_wake_submitters(const dma_comm_t *comm)
{
    dma_bell_fence();
    for (int r = 0; r < comm->nranks; r++) {
        if (r != comm->rank) {
            dma_bell_ring(dma_arena_bell(comm->window.peers[r].mapping->base));
        }
    }
}

/* The next step is one that the submitter must not make. false: the caller's thread makes it. */
static bool is_left_to_caller(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (!dc || !dc->by_submitter) {
        return false;
    }
    dc->left_to_caller = true;
    return true;
}

/* ---- host plan and GPU plan ---- */

dma_status_t dma_device_run_on_host(dma_comm_t *comm, dma_task_t *task, bool second_entry, dma_reason_t reason)
{
    const struct dma_device_comm *dc = comm->device;
    dma_status_t status;

    if (dc && dc->binding && dc->device->engine->wait_early) {
        dc->device->engine->wait_early(dc->binding);
    }
    dma_device_cancel_pieces(task);
    status = dma_device_stage(task, reason);
    task->run.second_entry = second_entry;
    return status == DMA_OK ? dma_host_bind(comm, task) : status;
}

void dma_device_copy_early(dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *call = task->device;
    const dma_run_t *run = &task->run;
    uint64_t rank = (uint64_t)comm->rank, from = dma_coll_gathers(task->coll) ? 0 : rank;
    uint64_t bytes = dma_blocks_bytes(&run->send, from);

    if (!dc->binding || !dc->device->engine->copy_early || task->in_place || call->piece || call->send_shape.row ||
        call->recv_shape.row || !bytes || bytes != dma_blocks_bytes(&run->recv, rank)) {
        return;
    }
    dc->device->engine->copy_early(dc->binding, (uint64_t)(uintptr_t)dma_blocks_addr(&run->recv, rank),
                                   (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, from), bytes);
}

/* `repeat`: plan, addresses and lengths equal those of the last run. */
static dma_status_t bind_plan(dma_comm_t *comm, dma_task_t *task, bool repeat)
{
    struct dma_device_comm *dc = comm->device;
    dma_run_t *run = &task->run;
    dma_status_t status = dma_task_arrays(comm, task);

    if (status != DMA_OK) {
        return status;
    }
    run->repeat = repeat;
    run->beside_device = false;
    run->shape_skip = 0;
    run->cursors = (dma_cursor_t *)((char *)task->arrays + dma_arrays_bytes(comm->nranks));
    run->window = &comm->window;
    run->targets = dc->targets;
    run->shape = dma_device_sent_shape(task->device, task->in_place);
    run->binding = dc->binding;
    run->parts = NULL; /* except of persistent calls with partitions (parts.c) */
    return DMA_OK;
}

dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes)
{
    dma_status_t status = dma_device_find_plan(comm, task, bytes, &task->run.plan);

    return status == DMA_OK ? bind_plan(comm, task, false) : status;
}

void dma_device_start_run(dma_comm_t *comm, dma_task_t *task, dma_device_phase_t phase)
{
    task->run.epoch = ++comm->device->epoch;
    dma_comm_count(comm, DMA_COUNT_VARIANT + (int)task->run.plan->variant);
    dma_comm_count(comm, DMA_COUNT_ENGINE + comm->device->device->engine_index);
    comm->counts.at[DMA_COUNT_calls_repeated] += task->run.repeat;
    comm->engine->start(&task->run);
    task->device->phase = phase;
}

/* All ranks could open all memory. The call takes the GPU plan if the engines of all ranks support its shapes. */
static dma_status_t run_on_engine(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    if (!comm->device->all_support_shapes) {
        return dma_device_run_on_host(comm, task, true, DMA_REASON_staged_shapes);
    }
    if (dma_device_agreed_piece(comm, task)) {
        return dma_device_begin_pieces(comm, task);
    }
    status = dma_device_bind(comm, task, dma_device_largest_block(comm, task));
    if (status == DMA_OK) {
        dma_device_save_call(comm, task);
        dma_device_start_run(comm, task, DEVICE_SUBMIT);
    }
    return status;
}

/* All ranks repeat their last call. */
static dma_status_t repeat_on_engine(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    task->run.plan = comm->device->last.plan;
    status = bind_plan(comm, task, true);
    if (status == DMA_OK) {
        dma_device_start_run(comm, task, DEVICE_SUBMIT);
    }
    return status;
}

/* ---- the phases ---- */

/* Can the call begin without a step that only the caller's thread makes? */
static bool is_sure_of_engine(const dma_comm_t *comm, const struct dma_device_call *call)
{
    const struct dma_device_comm *dc = comm->device;

    return call->served && dc && dc->device && !dc->off && !dma_device_needs_scratch(dc, call);
}

static dma_status_t begin_on_host(dma_comm_t *comm, dma_task_t *task, dma_reason_t why)
{
    if (is_left_to_caller(comm)) { /* the caller's thread begins the call once more */
        comm->streaming = NULL;
        atomic_store_explicit(&task->state, DMA_TASK_QUEUED, memory_order_relaxed); /* with the lock */
        return DMA_AGAIN;
    }
    return dma_device_run_on_host(comm, task, false, why);
}

/* Puts scratch memory in place of what engines cannot use where it is. A buffer that is likely to be freed soon gets it only if the
 * whole call fits. Else peers open that buffer, and if the call needs scratch memory for the rest, that may be in pieces. */
static dma_status_t use_scratch(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    dma_status_t status = DMA_OK;

    if (dma_device_needs_scratch(comm->device, d) && (status = dma_device_use_scratch(comm, task)) != DMA_OK &&
        dma_device_undo_brief(d)) {
        status = dma_device_needs_scratch(comm->device, d) ? dma_device_use_scratch(comm, task) : DMA_OK;
    }
    return status;
}

/* Makes the buffers ready for engines and publishes them, or says why they cannot be used. */
static dma_reason_t prepare_buffers(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    if (comm->device->off) {
        return comm->device->off;
    }
    if ((status = use_scratch(comm, task)) != DMA_OK) {
        return status == DMA_ERR_NOMEM ? DMA_REASON_staged_scratch : DMA_REASON_staged_scratch_runtime;
    }
    status = dma_device_publish_record(comm, task);
    return status == DMA_OK          ? DMA_REASON_NONE
           : status == DMA_ERR_NOMEM ? DMA_REASON_staged_export_memory
                                     : DMA_REASON_staged_export;
}

static dma_status_t begin_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    struct dma_device_comm *dc;
    dma_reason_t why;

    if (!call->persistent && !dma_window_may_publish(&comm->window, (uint32_t)task->run.seq)) {
        return DMA_AGAIN; /* a start of a persistent call publishes no descriptor, so it needs no place in the ring */
    }
    if (comm->streaming) {
        return DMA_AGAIN;
    }
    if (!call->persistent) {
        dma_device_check_export(comm, call);
        dma_device_check_brief(comm, task);
    }
    if (!call->persistent && !is_sure_of_engine(comm, call) && is_left_to_caller(comm)) {
        return DMA_AGAIN;
    }
    comm->streaming = task;
    if (call->persistent) {
        return dma_device_begin_persistent(comm, task);
    }
    dma_task_set_running(task);
    if (call->joins) {
        return dma_device_enter_joined(comm, task) == DMA_OK ? DMA_OK
                                                             : dma_device_run_on_host(comm, task, false, call->why);
    }
    if (!call->served && !(call->rows && dma_device_can_use_slots(comm, task))) {
        return dma_device_run_on_host(comm, task, false, call->why);
    }
    /* A communicator uses one device, that of its first call. Others' memory is replaced by memory of that one. */
    dc = dma_device_comm(comm, call->rt,
                         comm->device && comm->device->device ? comm->device->device->ordinal : call->device, &why);
    if (dc) {
        dma_device_check_export(comm, call); /* once more: this may be the communicator's first call */
        why = call->served ? prepare_buffers(comm, task) : call->why;
    }
    if (why && (!dc || !dma_device_can_use_slots(comm, task))) {
        return begin_on_host(comm, task, why);
    }
    if (why) {
        call->slots_why = why;
        dma_device_publish_slots(comm, task);
    }
    dma_entry_publish(
        &comm->window, task->run.seq,
        task->run.sign | DMA_SIGN_DEVICE | (call->by_link ? DMA_SIGN_LINK : 0) | dma_comm_sign_flags(comm), 0);
    dma_trace_mark(comm->trace, DMA_TRACE_ENTERED, task->run.seq, 0, 0, 0);
    if (!why) {
        dma_device_copy_early(comm, task);
    }
    return DMA_OK;
}

/* Reads all descriptors. DMA_OK: all ranks have entered. */
static dma_status_t read_entries(dma_comm_t *comm, dma_task_t *task, dma_census_t *census)
{
    dma_window_t *w = &comm->window;

    *census = (dma_census_t){.all = true};
    for (int r = 0; r < comm->nranks; r++) {
        const dma_desc_t *d = dma_window_desc(w, r, task->run.seq);
        dma_status_t status;

        if (!dma_entry_seen(d, task->run.seq)) {
            return DMA_AGAIN;
        }
        dma_entry_take_ack(w, r, d);
        if ((status = dma_entry_compare(task->run.sign, d->sign)) != DMA_OK) {
            task->run.failed_rank = r;
            return status;
        }
        dma_census_add(census, d->sign);
    }
    return DMA_OK;
}

static dma_status_t advance_enter(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    dma_census_t census;
    bool by_host, by_slots, new_export;
    dma_status_t status = read_entries(comm, task, &census);

    if (status != DMA_OK) {
        return status;
    }
    by_host = !census.all || (census.joined && !census.devices);
    by_slots = !by_host && dma_device_slots_wanted(comm, task);
    if ((by_host || by_slots || dma_device_agreed_piece(comm, task)) && is_left_to_caller(comm)) {
        return DMA_AGAIN;
    }
    dma_trace_mark(comm->trace, DMA_TRACE_MET, task->run.seq, 0, 0, 0);
    dma_device_note_census(comm, task, &census);
    if (by_host) {
        return dma_device_run_on_host(comm, task, true, DMA_REASON_staged_peer);
    }
    if (by_slots) {
        return dma_device_begin_slots(comm, task, DMA_REASON_staged_peer);
    }
    dma_device_wake_submitters(comm);
    if (dma_device_all_repeat(comm, task)) {
        return repeat_on_engine(comm, task);
    }
    status = dma_device_read_records(comm, task, &new_export);
    if (status != DMA_OK && status != DMA_UNSUPPORTED) {
        return status;
    }
    if (!new_export && status != DMA_OK) {
        return DMA_ERR_ENGINE; /* all ranks have opened these exports, so no peer takes part in an agreement */
    }
    /* A rank that takes the host plan enters a second time and overwrites its record. It must not do so before all
     * ranks have read the record. So a call whose shapes some engine cannot do needs an agreement too. */
    dc->all_support_shapes = dma_device_all_support_shapes(comm, task);
    if (!new_export && dc->all_support_shapes) {
        return run_on_engine(comm, task);
    }
    dma_device_vote(comm, DEVICE_BALLOT_ENGINE, status == DMA_OK);
    task->device->phase = DEVICE_AGREE;
    return DMA_OK;
}

static dma_status_t advance_agree(dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    bool all;

    if (!dma_device_votes_are_in(comm, DEVICE_BALLOT_ENGINE, &all)) {
        return DMA_AGAIN;
    }
    dma_device_wake_submitters(comm);
    if ((!all || !dc->all_support_shapes) && is_left_to_caller(comm)) {
        return DMA_AGAIN;
    }
    dma_device_end_agreement(comm, task, all);
    return all ? run_on_engine(comm, task) : dma_device_begin_slots(comm, task, DMA_REASON_staged_vote);
}

static dma_status_t advance_started(dma_comm_t *comm, dma_task_t *task)
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
    task->device->phase = DEVICE_SUBMIT;
    return DMA_OK;
}

static dma_status_t advance_submit(dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    bool armed = task->device->persistent && dc->run_is_armed;
    uint64_t began = armed ? dc->started_at : dma_trace_begin(comm->trace);
    dma_status_t status = dc->device->engine->start(&task->run);

    dma_trace_span(comm->trace, DMA_TRACE_SUBMIT, task->run.seq, armed, began, 0);
    if (status == DMA_OK) {
        dma_device_trace_commands(comm, task);
        task->device->phase = DEVICE_RUN;
    }
    return status;
}

static dma_status_t advance_on_host(dma_comm_t *comm, dma_task_t *task)
{
    return is_left_to_caller(comm) ? DMA_AGAIN : comm->engine->advance(&task->run);
}

static dma_status_t advance_run(dma_comm_t *comm, dma_task_t *task)
{
    const dma_gpu_engine_t *engine = comm->device->device->engine;
    dma_status_t status = engine->advance ? engine->advance(&task->run) : DMA_OK;

    if (task->stages && is_left_to_caller(comm)) {
        return DMA_AGAIN; /* they would be copied out */
    }
    return status == DMA_OK ? comm->engine->advance(&task->run) : status;
}

static dma_status_t advance_pieces(dma_comm_t *comm, dma_task_t *task)
{
    return is_left_to_caller(comm) ? DMA_AGAIN : dma_device_advance_pieces(comm, task);
}

static dma_status_t advance_slots(dma_comm_t *comm, dma_task_t *task)
{
    return is_left_to_caller(comm) ? DMA_AGAIN : dma_device_advance_slots(comm, task);
}

static dma_status_t (*const phases[])(dma_comm_t *comm, dma_task_t *task) = {
    [DEVICE_ENTER] = advance_enter,
    [DEVICE_AGREE] = advance_agree,
    [DEVICE_STARTED] = advance_started,
    [DEVICE_SUBMIT] = advance_submit,
    [DEVICE_RUN] = advance_run,
    [DEVICE_PIECES] = advance_pieces,
    [DEVICE_BY_SLOTS] = advance_slots,
    [DEVICE_ON_HOST] = advance_on_host,
    [DEVICE_IN_STREAM] = dma_device_advance_in_stream,
};

dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    dma_status_t status = dma_task_state(task) == DMA_TASK_QUEUED ? begin_call(comm, task) : call->failed;
    dma_device_phase_t phase = call->phase;

    while (status == DMA_OK) {
        phase = call->phase;
        status = phases[phase](comm, task);
        if (status == DMA_OK && call->phase == phase && call->persistent &&
            (status = dma_window_poisoned(&comm->window)) != DMA_OK) {
            return status; /* a line may be forged (in_stream.c) */
        }
        if (status == DMA_OK && call->phase == phase) {
            if (task->run.plan && phase != DEVICE_IN_STREAM) {
                dma_host_finish(comm, task);
            } else {
                comm->streaming = NULL; /* by slots */
            }
            if (phase == DEVICE_RUN && comm->device->device->engine->end) {
                comm->device->device->engine->end(comm->device->binding);
            }
            dma_device_trace_stamps(comm, task);
            if (!call->scratch.stage.receives) { /* else when it has been copied out */
                dma_device_put_scratch(comm->proc, call, false);
            }
            if (call->persistent) {
                dma_device_end_persistent(comm);
            }
            return DMA_OK;
        }
    }
    return status;
}

/* ---- waiting ---- */

static void spin(dma_comm_t *comm, const dma_task_t *task)
{
    double until = 0;

    /* If ranks share cores, the peer may need this core. */
    while (!comm->oversubscribed && comm->state == DMA_COMM_READY && dma_task_state(task) == DMA_TASK_RUNNING &&
           task->device->phase < DEVICE_RUN) {
        double now = dma_now();

        if (!until) {
            until = now + SPIN_SECONDS;
        } else if (now > until) {
            return;
        }
        dma_cpu_pause();
        dma_comm_advance(comm);
    }
}

void dma_device_spin(dma_comm_t *comm, const dma_task_t *task)
{
    spin(comm, task);
    dma_submitter_take(comm);
}

/* The ranks that have not voted. */
static dma_wait_t waits_for_vote(const dma_comm_t *comm, dma_device_ballot_t ballot)
{
    dma_wait_t wait = {0};

    for (int r = 0; r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(vote_of(comm, r, ballot), memory_order_relaxed);

        if (votes_ahead(comm->device->agreements[ballot], word) < 0) {
            dma_wait_add(&wait, DMA_WAIT_FLAG, r);
        }
    }
    return wait;
}

dma_wait_t dma_device_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *call = task->device;
    dma_wait_t wait = {0};
    int rank;

    if (call->phase == DEVICE_IN_STREAM) {
        return dma_device_in_stream_waits_for(comm);
    }
    if (call->persistent) {
        if ((rank = dma_device_unstarted_rank(comm, task)) >= 0) {
            dma_wait_add(&wait, DMA_WAIT_ENTRY, rank);
        }
    } else {
        wait = dma_host_waits_for_entry(comm, task);
    }
    if (wait.kind != DMA_WAIT_NONE || dma_task_state(task) != DMA_TASK_RUNNING) {
        return wait;
    }
    if (call->phase == DEVICE_BY_SLOTS) {
        return waits_for_vote(comm, DEVICE_BALLOT_SLOTS);
    }
    if (call->phase == DEVICE_AGREE || (call->phase == DEVICE_PIECES && dma_device_piece_votes(comm->device))) {
        return waits_for_vote(comm, DEVICE_BALLOT_ENGINE);
    }
    return call->phase >= DEVICE_RUN ? dma_host_waits_for_flag(comm, task) : wait;
}

const char *dma_device_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    static const char *const names[] = {
        [DEVICE_ENTER] = "entry",
        [DEVICE_AGREE] = "agreement",
        [DEVICE_STARTED] = "entry",
        [DEVICE_SUBMIT] = "submission",
        [DEVICE_RUN] = "engine",
        [DEVICE_PIECES] = "engine, in pieces",
        [DEVICE_BY_SLOTS] = "copies through shared pinned memory",
        [DEVICE_ON_HOST] = "copies by cores",
        [DEVICE_IN_STREAM] = "in a stream",
    };

    (void)comm;
    return dma_task_state(task) == DMA_TASK_QUEUED ? NULL : names[task->device->phase];
}

uint64_t dma_device_position(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_device_phase_t phase = task->device->phase;

    if (phase == DEVICE_BY_SLOTS) {
        return ((uint64_t)phase << 24) + dma_device_slots_position(comm->device);
    }
    if (phase == DEVICE_IN_STREAM) {
        return dma_device_in_stream_position(comm);
    }
    return ((uint64_t)phase << 24) + (phase == DEVICE_PIECES ? dma_device_piece_position(comm->device) : 0) +
           (phase >= DEVICE_RUN ? dma_host_position(comm, task) : 0);
}
