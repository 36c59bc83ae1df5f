/* The life of a call in device memory: enter, agree, run. See device.h and decide.h. */
#include "device/decide.h"
#include "device/device.h"
#include "device/join.h"
#include "device/starts.h"
#include "node/entry.h"

#define SPIN_SECONDS 20e-6 /* peers that call at the same time enter within a few microseconds */

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

bool dma_device_is_left_to_caller(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;

    if (!dc || !dc->by_submitter) {
        return false;
    }
    dc->left_to_caller = true;
    return true;
}

void dma_device_set_runner(dma_task_t *task, const dma_device_runner_t *runner)
{
    task->device->phase = DEVICE_RUN;
    task->device->runner = runner;
    task->device->under_way = runner != &dma_device_by_engine;
}

void dma_device_end_streaming(dma_comm_t *comm, dma_task_t *task)
{
    (void)task;
    comm->streaming = NULL;
}

/* ---- enter ---- */

/* Can the call begin without a step that only the caller's thread makes? */
static bool is_sure_of_engine(const dma_comm_t *comm, const struct dma_device_call *call)
{
    const struct dma_device_comm *dc = comm->device;

    return call->served && dc && dc->device && !dc->off && !dma_device_needs_scratch(dc, call);
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
        return DMA_REASON_staged_scratch;
    }
    status = dma_device_publish_record(comm, task);
    return status == DMA_OK          ? DMA_REASON_NONE
           : status == DMA_ERR_NOMEM ? DMA_REASON_staged_memory
                                     : DMA_REASON_staged_export;
}

/* Does what this rank's offer takes, and publishes it. *why: it is less than ENGINE. */
static dma_offer_t make_offer(dma_comm_t *comm, dma_task_t *task, dma_reason_t *why)
{
    struct dma_device_call *call = task->device;
    struct dma_device_comm *dc = comm->device;
    dma_facts_t facts = {.joins = call->joins, .served = call->served, .rows = call->rows};
    dma_offer_t offer;

    if (call->prepares) {
        *why = call->why = dma_device_prepare_offer(comm, task);
        return dma_device_offer(&(dma_facts_t){.prepares = true, .ready = !*why});
    }
    *why = call->joins ? DMA_REASON_joined : call->why;
    facts.slots = !facts.joins && !facts.served && dma_device_can_use_slots(comm, task);
    if (facts.joins) {
        facts.state = dma_device_comm_of_host(comm);
    } else if (facts.served || (facts.rows && facts.slots)) {
        /* A communicator uses one device, that of its first call. Others' memory is replaced by memory of that one. */
        facts.state = dma_device_comm(comm, call->rt, dc && dc->device ? dc->device->ordinal : call->device, why);
    }
    if (facts.state && facts.served) {
        dma_device_check_export(comm, call); /* once more: this may be the communicator's first call */
        *why = prepare_buffers(comm, task);
        facts.ready = !*why;
        facts.slots = !facts.ready && dma_device_can_use_slots(comm, task);
    }
    offer = dma_device_offer(&facts);
    if (offer == DMA_OFFER_JOIN || offer == DMA_OFFER_SLOTS) {
        call->slots_why = *why ? *why : call->why;
        dma_device_publish_slots(comm, task);
    }
    return offer;
}

static dma_status_t begin_on_host(dma_comm_t *comm, dma_task_t *task, dma_reason_t why)
{
    if (dma_device_is_left_to_caller(comm)) { /* the caller's thread begins the call once more */
        comm->streaming = NULL;
        atomic_store_explicit(&task->state, DMA_TASK_QUEUED, memory_order_relaxed); /* with the lock */
        return DMA_AGAIN;
    }
    return dma_device_begin_host(comm, task, false, why);
}

static dma_status_t begin_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    uint64_t flags = DMA_SIGN_DEVICE | dma_comm_sign_flags(comm);
    dma_offer_t offer;
    dma_reason_t why;

    if (!call->persistent && !dma_window_may_publish(&comm->window, (uint32_t)task->run.seq)) {
        return DMA_AGAIN; /* a start of a persistent call publishes no descriptor, so it needs no place in the ring */
    }
    if (comm->streaming) {
        return DMA_AGAIN;
    }
    if (!call->joins && dma_gpu_is_lost(call->rt, call->device)) {
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "reset",
                        "device %d has been reset: collectives in its memory fail", call->device);
        return DMA_ERR_ENGINE;
    }
    if (!call->persistent) {
        dma_device_check_export(comm, call);
        dma_device_check_brief(comm, task);
        if (!is_sure_of_engine(comm, call) && dma_device_is_left_to_caller(comm)) {
            return DMA_AGAIN;
        }
    }
    comm->streaming = task;
    if (call->persistent) {
        return dma_starts_begin(comm, task);
    }
    dma_task_set_running(task);
    offer = make_offer(comm, task, &why);
    if (offer == DMA_OFFER_DATA) {
        return begin_on_host(comm, task, why);
    }
    flags ^= offer == DMA_OFFER_NOTHING ? DMA_SIGN_DEVICE : 0;
    flags |= call->by_link ? DMA_SIGN_LINK : offer == DMA_OFFER_JOIN ? DMA_SIGN_JOINS : 0;
    dma_entry_publish(&comm->window, task->run.seq, task->run.sign | flags, 0);
    dma_trace_mark(comm->trace, DMA_TRACE_ENTERED, task->run.seq, 0, 0, 0);
    if (offer == DMA_OFFER_ENGINE) {
        dma_device_copy_early(comm, task);
    }
    return DMA_OK;
}

/* Reads how all ranks have entered. DMA_OK: they have. */
static dma_status_t read_entries(dma_comm_t *comm, dma_task_t *task, dma_census_t *c)
{
    dma_window_t *w = &comm->window;

    *c = (dma_census_t){.prepares = task->device->prepares, .repeats = true, .shapes = true, .in_place = true};
    for (int r = 0; r < comm->nranks; r++) {
        const dma_desc_t *d = dma_window_desc(w, r, task->run.seq);
        dma_status_t status;

        if (!dma_entry_seen(d, task->run.seq)) {
            return DMA_AGAIN;
        }
        dma_entry_take_ack(w, r, d);
        /* Starts find a call that differs: it is not prepared. If two ranks differ, every rank differs from one. */
        if ((status = dma_entry_compare(task->run.sign, d->sign)) != DMA_OK && !c->prepares) {
            task->run.failed_rank = r;
            return status;
        }
        c->data = c->data || status != DMA_OK || !(d->sign & DMA_SIGN_DEVICE);
        c->joined = c->joined || d->sign & DMA_SIGN_JOINS;
        c->device = c->device || dma_sign_has_device(d->sign);
    }
    return DMA_OK;
}

/* Reads what all ranks have published in their descriptors. */
static void read_infos(const dma_comm_t *comm, const dma_task_t *task, dma_census_t *c)
{
    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_info_t *info = dma_device_info(comm, r, task->run.seq);
        uint64_t piece = (uint64_t)info->piece * DEVICE_PIECE_UNIT;

        c->slots = c->slots || info->flags & DMA_DEVICE_INFO_SLOTS;
        c->repeats = c->repeats && info->flags & DMA_DEVICE_INFO_REPEAT;
        c->fresh = c->fresh || info->flags & DMA_DEVICE_INFO_NEW;
        c->in_place = c->in_place && info->flags & DMA_DEVICE_INFO_IN_PLACE;
        c->piece = piece && (!c->piece || piece < c->piece) ? piece : c->piece;
    }
}

/* ---- all ranks do the same from here on ---- */

/* Engines use the buffers, so the records of all ranks have to be read. */
static bool is_for_engines(const dma_decision_t *decision)
{
    return decision->mode != DMA_MODE_HOST && decision->mode != DMA_MODE_SLOTS && decision->mode != DMA_MODE_NOTHING;
}

/* A step of this mode is one that the submitter must not make. */
static bool is_for_caller(const dma_decision_t *decision)
{
    return decision->mode == DMA_MODE_HOST || decision->mode == DMA_MODE_SLOTS || decision->mode == DMA_MODE_PIECES;
}

/* `opened`: this rank's vote, if it comes to that. */
static dma_status_t follow(dma_comm_t *comm, dma_task_t *task, const dma_decision_t *decision, bool opened)
{
    const dma_census_t *census = &comm->device->census;

    switch (decision->mode) {
    case DMA_MODE_HOST:
        return dma_device_begin_host(comm, task, true, decision->why);
    case DMA_MODE_SLOTS:
        return dma_device_begin_slots(comm, task, decision->why);
    case DMA_MODE_PIECES:
        return dma_device_begin_pieces(comm, task, census->piece);
    case DMA_MODE_ENGINE:
        return dma_device_begin_engine(comm, task, census->repeats);
    case DMA_MODE_PREPARE:
    case DMA_MODE_NOTHING:
        dma_device_end_init(comm, task, decision);
        return DMA_OK;
    case DMA_MODE_VOTE:
    default:
        dma_device_vote(comm, DEVICE_BALLOT_ENGINE, opened);
        task->device->phase = DEVICE_AGREE;
        return DMA_OK;
    }
}

/* The engines need the records of all ranks. *opened: this rank can use them. */
static dma_status_t read_records(dma_comm_t *comm, dma_task_t *task, bool *opened)
{
    dma_census_t *census = &comm->device->census;
    dma_status_t status = dma_device_read_records(comm, task);

    if (census->prepares) {
        status = dma_device_try_to_prepare(comm, task, status);
    }
    *opened = status == DMA_OK;
    census->shapes = dma_device_all_support_shapes(comm, task);
    if (status == DMA_UNSUPPORTED) {
        /* without a new one all ranks have opened these exports, so no peer takes part in an agreement */
        return census->fresh ? DMA_OK : DMA_ERR_ENGINE;
    }
    return status;
}

static dma_status_t advance_enter(dma_comm_t *comm, dma_task_t *task)
{
    dma_census_t *census = &comm->device->census;
    dma_decision_t decision;
    bool opened = true;
    dma_status_t status;

    if (task->device->persistent) {
        return dma_starts_advance(comm, task);
    }
    if ((status = read_entries(comm, task, census)) != DMA_OK) {
        return status;
    }
    decision = dma_device_decide(census);
    if (is_for_engines(&decision)) { /* else a rank may have entered again, with data in its descriptor */
        read_infos(comm, task, census);
        decision = dma_device_decide(census);
    }
    if ((is_for_caller(&decision) || census->piece) && dma_device_is_left_to_caller(comm)) {
        return DMA_AGAIN;
    }
    dma_trace_mark(comm->trace, DMA_TRACE_MET, task->run.seq, 0, 0, 0);
    dma_device_note_census(comm, task, census);
    if (!is_for_engines(&decision)) {
        return follow(comm, task, &decision, false);
    }
    dma_device_wake_submitters(comm);
    if (!census->repeats) {
        if ((status = read_records(comm, task, &opened)) != DMA_OK) {
            return status;
        }
        decision = dma_device_decide(census);
    }
    return follow(comm, task, &decision, opened);
}

static dma_status_t advance_agree(dma_comm_t *comm, dma_task_t *task)
{
    dma_census_t *census = &comm->device->census;
    dma_decision_t decision;
    bool all;

    if (!dma_device_votes_are_in(comm, DEVICE_BALLOT_ENGINE, &all)) {
        return DMA_AGAIN;
    }
    dma_device_wake_submitters(comm);
    census->vote = all ? DMA_VOTE_YES : DMA_VOTE_NO;
    decision = dma_device_decide(census);
    if (is_for_caller(&decision) && dma_device_is_left_to_caller(comm)) {
        return DMA_AGAIN;
    }
    dma_device_end_agreement(comm, task, all);
    return follow(comm, task, &decision, all);
}

static dma_status_t advance_run(dma_comm_t *comm, dma_task_t *task)
{
    const dma_device_runner_t *runner = task->device->runner;

    return runner->for_caller && dma_device_is_left_to_caller(comm) ? DMA_AGAIN : runner->advance(comm, task);
}

/* ---- end ---- */

static dma_status_t end_call(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *call = task->device;
    dma_status_t poison;

    /* A line may be forged (starts.h). */
    if (call->persistent && (poison = dma_window_poisoned(&comm->window)) != DMA_OK) {
        return poison;
    }
    call->runner->end(comm, task);
    if (!call->scratch.stage.receives) { /* else when it has been copied out */
        dma_device_put_scratch(comm->proc, call, false);
    }
    if (call->persistent) {
        dma_starts_end(comm);
    }
    return DMA_OK;
}

dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task)
{
    static dma_status_t (*const phases[])(dma_comm_t * comm, dma_task_t * task) = {
        [DEVICE_ENTER] = advance_enter, [DEVICE_AGREE] = advance_agree, [DEVICE_RUN] = advance_run};
    struct dma_device_call *call = task->device;
    dma_status_t status = dma_task_state(task) == DMA_TASK_QUEUED ? begin_call(comm, task) : call->failed;

    while (status == DMA_OK) {
        const dma_device_runner_t *runner = call->runner;
        bool runs = call->phase == DEVICE_RUN;

        status = phases[call->phase](comm, task);
        if (status == DMA_OK && runs && call->runner == runner) { /* else another one goes on (by_slots.c) */
            return end_call(comm, task);
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
           !task->device->under_way) {
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

dma_wait_t dma_device_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *call = task->device;
    dma_wait_t wait = {0};

    if (call->runner == &dma_device_by_stream) {
        return call->runner->waits_for(comm, task);
    }
    if (!call->persistent) {
        wait = dma_host_waits_for_entry(comm, task);
    } else {
        wait = dma_starts_wait(comm, task->run.epoch, false);
    }
    if (wait.kind != DMA_WAIT_NONE || dma_task_state(task) != DMA_TASK_RUNNING) {
        return wait;
    }
    return call->under_way               ? call->runner->waits_for(comm, task)
           : call->phase == DEVICE_AGREE ? dma_device_waits_for_votes(comm, DEVICE_BALLOT_ENGINE)
                                         : wait;
}

const char *dma_device_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *call = task->device;

    (void)comm;
    return dma_task_state(task) == DMA_TASK_QUEUED ? NULL
           : call->under_way                       ? call->runner->name
           : call->phase == DEVICE_RUN             ? "submission"
           : call->phase == DEVICE_AGREE           ? "agreement"
                                                   : "entry";
}

uint64_t dma_device_position(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *call = task->device;

    return ((uint64_t)call->phase << 24) + call->under_way +
           (call->phase == DEVICE_RUN ? call->runner->position(comm, task) : 0);
}
