/*
 * The host route: ranks of one node, by their cores, through the window.
 *
 * The plan of a task is chosen when the task starts, not when it is posted. A plan that reads peers' memory starts when its
 * predecessor has ended, and that one may have shown all ranks that they cannot read after all. A rank whose reading is
 * refused says so in the descriptor of its next call of that kind. All ranks read that descriptor in that call, so all of
 * them learn it there, or none. A later choice without reading would have been the same anyway.
 */
#include <string.h>

#include "core/comm.h"
#include "core/resolve.h"

#define POISON_TURNS 64 /* turns between two looks at the peers' poison; a power of two */

/* ---- the plan ---- */

/* In an all-to-all all ranks are in place or none, so the choice may depend on it. */
static inline bool choice_in_place(const dma_task_t *task)
{
    return task->in_place && !dma_coll_gathers(task->coll);
}

static dma_plan_req_t plan_request(const dma_comm_t *comm, const dma_task_t *task, bool in_place)
{
    dma_plan_req_t req = comm->req;

    req.coll = task->coll;
    req.bytes = task->bytes;
    req.in_place = in_place;
    return req;
}

static dma_status_t choose_variant(dma_comm_t *comm, const dma_task_t *task, uint64_t key, dma_plan_memo_t *memo)
{
    dma_plan_req_t req = plan_request(comm, task, choice_in_place(task));
    const char *reason;
    dma_status_t status = dma_plan_memo_fill(memo, key, &comm->profile, &req, comm->forced, &comm->counts, &reason);

    /* A channel has room for the smallest call that any rank has prepared, so this rank's call is larger than that. */
    if (status == DMA_UNSUPPORTED && comm->parent) {
        return DMA_ERR_TRUNCATE;
    }
    if (!reason || (comm->forced < 0 && status == DMA_OK)) {
        return status;
    }
    dma_comm_count_reason(comm, DMA_REASON_variant_unfit);
    if (comm->forced >= 0 && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "forced", "%s cannot do %llu bytes (%s); %s instead",
                        dma_variants[comm->forced]->name, (unsigned long long)task->bytes, reason,
                        status == DMA_OK ? dma_variants[memo->choice.variant]->name : "nothing");
    }
    return status;
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

static dma_status_t build_plan(dma_comm_t *comm, const dma_task_t *task, dma_plan_memo_t *memo)
{
    dma_plan_req_t req = plan_request(comm, task, task->in_place);
    dma_status_t status = dma_plan_memo_build(&comm->plans, memo, &req, comm->rank, &comm->counts);

    if (status == DMA_OK && !can_run(comm->engine, memo->plans[task->in_place])) {
        memo->plans[task->in_place] = NULL;
        status = DMA_ERR_ENGINE;
    }
    return status;
}

/* The plan for a task, and how it is run. */
static dma_status_t find_plan(dma_comm_t *comm, const dma_task_t *task, const dma_plan_t **plan, uint32_t *chunk)
{
    uint64_t key = dma_sign(task->coll, task->in_place, task->bytes);
    dma_plan_memo_t *memo = dma_plan_memo(&comm->plans, key);
    dma_status_t status;

    if (__builtin_expect(memo->key != key, 0) && (status = choose_variant(comm, task, key, memo)) != DMA_OK) {
        return status;
    }
    if (__builtin_expect(!memo->plans[task->in_place], 0) && (status = build_plan(comm, task, memo)) != DMA_OK) {
        return status;
    }
    *chunk = memo->choice.chunk;
    *plan = memo->plans[task->in_place];
    return DMA_OK;
}

static dma_status_t bind_run(dma_comm_t *comm, dma_task_t *task, const dma_plan_t *plan, uint32_t chunk)
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
    /* Calls that read peers' memory run one by one, so what the call before has shown is known here. Except with a second
     * entry: all ranks go by the descriptor of the first entry, which may be older. */
    run->sign_flags = run->second_entry ? dma_window_desc(&comm->window, comm->rank, run->seq)->sign & DMA_SIGN_REFUSED
                      : plan->fallback_max_bytes ? dma_comm_sign_flags(comm)
                                                 : 0;
    run->refused_rank = run->sign_flags ? comm->rank : -1;
    run->beside_device = false;
    return DMA_OK;
}

/* Adds what this rank receives. */
static inline void count_bytes(dma_comm_t *comm, const dma_task_t *task)
{
#ifndef DMA_COUNT_NOTHING /* test/cost measures what this costs */
    if (__builtin_expect(task->run.recv.counts != NULL, 0)) {
        comm->counts.at[DMA_COUNT_bytes_cores] += dma_blocks_all(&task->run.recv, comm->nranks);
    } else {
        comm->counts.equal_bytes += task->bytes;
    }
#else
    (void)comm;
    (void)task;
#endif
}

dma_status_t dma_host_bind(dma_comm_t *comm, dma_task_t *task)
{
    const dma_plan_t *plan;
    dma_status_t status;
    uint32_t chunk;

    status = find_plan(comm, task, &plan, &chunk);
    if (__builtin_expect(status != DMA_OK, 0)) {
        task->run.failed_rank = -1;
        return status;
    }
    if (plan->streams && comm->streaming != task) {
        if (comm->streaming) {
            return DMA_AGAIN;
        }
        comm->streaming = task;
    }
    status = bind_run(comm, task, plan, chunk);
    if (status == DMA_OK) {
        dma_task_set_running(task);
        dma_comm_count(comm, DMA_COUNT_VARIANT + (int)plan->variant);
        count_bytes(comm, task);
        status = comm->engine->start(&task->run);
    }
    return status;
}

/* ---- the end of a run ---- */

/* The streams that this call has used have moved on by its chunks. */
static void advance_streams(dma_comm_t *comm, const dma_task_t *task)
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

/* Once for a communicator. */
static void report_own_refusal(dma_comm_t *comm, const dma_task_t *task)
{
    const dma_op_t *op = comm->refusal_reported ? NULL : refused_reading(&task->run);

    if (!op) {
        return;
    }
    comm->refusal_reported = true;
    dma_comm_count_reason(comm, DMA_REASON_cross_refused);
    dma_proc_report(comm->proc, DMA_REPORT_INFO, "refused",
                    "rank %d of %s could not read memory of rank %d; shared memory is used instead", comm->rank,
                    comm->text, op->src.rank);
}

/* Had any rank been refused before it entered this call? A refusal in the call itself counts for the next one. */
static void apply_refusals(dma_comm_t *comm, const dma_task_t *task)
{
    if (task->run.refused_rank >= 0) {
        comm->req.cross_memory = false;
        dma_comm_count_reason(comm, DMA_REASON_cross_refused);
        dma_plan_cache_forget_choices(&comm->plans);
        dma_proc_report(comm->proc, comm->rank == 0 ? DMA_REPORT_WARN : DMA_REPORT_INFO, "refusals",
                        "rank %d of %s could not read a peer's memory: all ranks use shared memory from now on",
                        task->run.refused_rank, comm->text);
    }
}

void dma_host_finish(dma_comm_t *comm, dma_task_t *task)
{
    if (task->run.plan->streams) {
        advance_streams(comm, task);
    }
    if (task->run.plan->fallback_max_bytes) {
        report_own_refusal(comm, task);
        apply_refusals(comm, task);
    }
    if (task->run.beside_device) {
        dma_comm_expect_device(comm);
    }
    if (comm->streaming == task) {
        comm->streaming = NULL;
    }
}

dma_status_t dma_host_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = DMA_OK;

    if (dma_task_state(task) == DMA_TASK_QUEUED) {
        if (!dma_window_may_publish(&comm->window, (uint32_t)task->run.seq)) {
            return DMA_AGAIN;
        }
        status = dma_host_bind(comm, task);
    }
    if (status == DMA_OK) {
        status = comm->engine->advance(&task->run);
    }
    /* a small call has neither used a stream nor read a peer's memory: there is nothing to finish */
    if (status == DMA_OK && (task->run.plan->streams || task->run.plan->fallback_max_bytes)) {
        dma_host_finish(comm, task);
    }
    return status;
}

/* ---- waiting ---- */

dma_wait_t dma_host_waits_for_entry(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_wait_t wait = {0};

    for (int r = 0; r < comm->nranks; r++) {
        const dma_desc_t *d = dma_window_desc(&comm->window, r, task->run.seq);

        if (r != comm->rank && atomic_load_explicit(&d->seq, memory_order_acquire) != (uint32_t)task->run.seq) {
            dma_wait_add(&wait, DMA_WAIT_ENTRY, r);
        }
    }
    return wait;
}

dma_wait_t dma_host_waits_for_flag(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_wait_t wait = {0};

    for (uint32_t i = 0; i < task->run.plan->nprogs; i++) {
        const dma_cursor_t *c = &task->run.cursors[i];
        const dma_op_t *op = &task->run.plan->progs[i].ops[c->pc];

        if (!c->ended && op->code == DMA_OP_WAIT && op->flag.rank != comm->rank) {
            dma_wait_add(&wait, DMA_WAIT_FLAG, op->flag.rank);
        }
    }
    return wait;
}

static dma_wait_t host_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_wait_t wait;
    const char *phase;

    if (!task) {
        return dma_setup_waits_for(comm, &phase);
    }
    wait = dma_host_waits_for_entry(comm, task);

    return wait.kind == DMA_WAIT_NONE && dma_task_state(task) == DMA_TASK_RUNNING ? dma_host_waits_for_flag(comm, task)
                                                                                  : wait;
}

/* A channel shares the failure of its communicator: a rank that has seen the failure does not come to the channel, not even
 * to its set-up. */
static dma_status_t poison_of(const dma_comm_t *comm)
{
    dma_status_t poison = comm->state == DMA_COMM_READY ? dma_window_poisoned(&comm->window) : DMA_OK;

    return poison == DMA_OK && comm->parent ? dma_window_poisoned(&comm->parent->window) : poison;
}

static void host_watch(dma_comm_t *comm)
{
    dma_status_t poison;

    if ((poison = poison_of(comm)) != DMA_OK) {
        dma_comm_fail(comm, poison, "another rank of %s has failed: %s", comm->text, dma_status_name(poison));
    }
}

/* ---- channels ---- */

#define ENGINE_CHUNK                                                                                                   \
    16384 /* bytes of a chunk, and number of chunks and pair buffers, of a call that engines carry out */
#define ENGINE_DEPTH 4

static uint64_t largest_block(const dma_call_t *call, int nranks)
{
    uint64_t most = call->recv.count;

    for (int r = 0; call->recv.counts && r < nranks; r++) {
        uint64_t count = dma_side_count(&call->recv, r);

        most = r == 0 || count > most ? count : most;
    }
    return most * call->recv.size;
}

/* Bytes of each pair ring, for a rank that is refused its peers' memory: its next calls do not read it. */
static uint32_t ring_bytes(uint64_t peers)
{
    uint32_t bytes = 16384;

    while (bytes > 1024 && bytes * peers > 65536) {
        bytes /= 2;
    }
    return bytes;
}

/* Engines need no shared memory for data. So the buffers are only as large as the host plan needs to be right, for starts whose
 * data go through the host after all. */
static void shrink_for_engines(dma_geom_t *g, uint64_t others)
{
    if (g->chunk_bytes) {
        g->chunk_bytes = g->chunk_bytes < ENGINE_CHUNK ? g->chunk_bytes : ENGINE_CHUNK;
        g->chunk_depth = g->chunk_depth < ENGINE_DEPTH ? g->chunk_depth : ENGINE_DEPTH;
    }
    if (g->pair_bytes > ring_bytes(others)) {
        g->pair_bytes = ring_bytes(others);
        g->pair_depth = ENGINE_DEPTH;
    }
}

/* Shared memory for this call alone. Ranks see different sizes of an all-to-all-v, so its geometry does not depend on them.
 * `engines`: engines carry it out, as far as this rank sees. */
static dma_geom_t channel_geometry(const dma_comm_t *parent, const dma_call_t *call, bool engines)
{
    dma_geom_t g = parent->window.geom;
    bool gathers = dma_coll_gathers(call->coll);
    uint64_t others = (uint64_t)parent->nranks - 1, bytes = largest_block(call, parent->nranks);
    uint64_t need = gathers ? bytes : (bytes + 7) / 8 * 8 * others;

    g.ring_depth = 4;
    if (dma_coll_sizes(call->coll) == DMA_SIZES_OWN) {
        g.chunk_bytes = 0;
    } else if (need <= g.slot_bytes) {
        while (g.slot_bytes > 64 && g.slot_bytes / 2 >= need) {
            g.slot_bytes /= 2;
        }
        g.chunk_bytes = g.pair_bytes = 0;
    } else if (gathers) {
        g.slot_bytes = 64;
        g.pair_depth = 4;
        g.pair_bytes = parent->req.cross_memory ? ring_bytes(others) : 0;
    } else {
        g.chunk_bytes = 0;
    }
    if (engines) {
        shrink_for_engines(&g, others);
    }
    return g;
}

uint64_t dma_host_position(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_run_t *run = &task->run;
    uint64_t position = 0;

    (void)comm;
    for (uint32_t i = 0; run->plan && i < run->plan->nprogs; i++) {
        position += run->cursors[i].pc + (run->cursors[i].trip << 8);
    }
    return position;
}

void dma_host_predict(const dma_comm_t *comm, const dma_task_t *task, dma_prediction_t *prediction)
{
    uint64_t key = dma_sign(task->coll, task->in_place, task->bytes);
    const dma_plan_memo_t *memo = &comm->plans.memos[dma_plan_hash(key, 6)];

    if (memo->key == key) {
        *prediction = (dma_prediction_t){.variant = (int32_t)memo->choice.variant, .cost_ps = memo->choice.cost_ps};
    }
}

static const char *host_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    const char *phase = NULL;

    if (!task) {
        (void)dma_setup_waits_for(comm, &phase);
    }
    return phase;
}

static void host_channel_prepare(dma_comm_t *comm, const dma_call_t *call)
{
    const dma_memory_t *memory = comm->proc->memory;

    comm->wants_memory_route = memory && memory->serves(comm, call);
    comm->wanted = channel_geometry(comm->parent, call, comm->wants_memory_route);
}

static dma_status_t host_channel_init(dma_comm_t *comm, const dma_call_t *call, void *arrays)
{
    if (comm->all_want_memory_route) {
        return comm->proc->memory->init(comm, call, arrays);
    }
    if (comm->wants_memory_route) {
        dma_comm_lock(comm);
        dma_comm_note_reason(comm, DMA_REASON_unprepared);
        dma_comm_unlock(comm);
    }
    return DMA_OK;
}

static bool host_may_report(dma_comm_t *comm)
{
    return !comm->inner && dma_window_claim_report(&comm->window, DMA_REPORT_OWN, (uint32_t)comm->head->run.seq);
}

const dma_route_t dma_route_host = {
    .name = "host",
    .setup_begin = dma_setup_begin,
    .setup_advance = dma_setup_advance,
    .setup_cancel = dma_setup_cancel,
    .watch = host_watch,
    .watch_mask = POISON_TURNS - 1,
    .may_report = host_may_report,
    .channel_prepare = host_channel_prepare,
    .channel_init = host_channel_init,
    .waits_for = host_waits_for,
    .phase = host_phase,
    .position = dma_host_position,
    .predict = dma_host_predict,
};
