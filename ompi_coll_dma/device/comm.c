/* What the ranks of a communicator publish and read about their device memory. See device.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/in_stream.h"
#include "device/starts.h"
#include "gpu/ipc.h"

/* ---- what this rank publishes ---- */

/* The slot of an export, or DEVICE_SLOTS if it is in none. */
static unsigned find_slot(const dma_device_peer_t *peer, uint64_t number)
{
    unsigned slot = 0;

    while (slot < DEVICE_SLOTS && peer->number[slot] != number) {
        slot++;
    }
    return slot;
}

/* Do the peers have to open this rank's export? */
static bool is_new_export(const struct dma_device_comm *dc, int rank, uint64_t number)
{
    unsigned slot = find_slot(&dc->peers[rank], number);

    return slot == DEVICE_SLOTS || dc->unconfirmed >> slot & 1;
}

/* Bit mask of this rank's slots whose memory has been freed since it was exported. */
static uint64_t freed_slots(const dma_comm_t *comm)
{
    const dma_device_peer_t *own = &comm->device->peers[comm->rank];
    uint64_t mask = 0;

    for (unsigned i = 0; i < DEVICE_SLOTS; i++) {
        mask |= (uint64_t)(own->number[i] && dma_ipc_is_freed(comm->proc->ipc, own->number[i])) << i;
    }
    return mask;
}

static dma_device_call_key_t call_key(const dma_task_t *task)
{
    const dma_gpu_memory_t *m = &task->device->recv;

    return (dma_device_call_key_t){
        .coll = task->coll,
        .in_place = task->in_place,
        .send = task->run.send.addr,
        .recv = task->run.recv.addr,
        .bytes = task->run.send.bytes,
        .base = m->base,
        .size = m->size,
        .buffer_id = m->buffer_id,
    };
}

/* Can a later call be compared with this one? Without buffer ids, new memory at the same address cannot be told from
 * the old. */
static bool is_repeatable(const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;

    return !task->run.send.counts && !task->run.recv.counts && !task->run.send.displs && !task->run.recv.displs &&
           !d->send_shape.row && !d->recv_shape.row && d->recv.buffer_id && !d->piece;
}

void dma_device_save_call(dma_comm_t *comm, const dma_task_t *task)
{
    comm->device->last.served = is_repeatable(task);
    comm->device->last.plan = task->run.plan;
}

static uint32_t in_place_flag(const dma_task_t *task)
{
    return task->in_place ? DMA_DEVICE_INFO_IN_PLACE : 0;
}

/* What peers need to know of each call. `halves`: of a call in pieces, scratch memory takes what is received. */
static dma_device_info_t make_info(const dma_comm_t *comm, const dma_task_t *task, const dma_export_t *export,
                                   bool halves)
{
    const struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *d = task->device;
    const dma_blocks_t *recv = &task->run.recv;
    uint64_t addr = halves ? d->memory->addr : (uint64_t)(uintptr_t)recv->addr;
    bool is_new = is_new_export(dc, comm->rank, export->number) || !dc->binding;

    return (dma_device_info_t){
        .number = export->number,
        .offset = (int64_t)(addr - export->base),
        .largest = recv->bytes,
        .piece = (uint32_t)(d->piece / DEVICE_PIECE_UNIT),
        .flags = in_place_flag(task) | (is_new ? DMA_DEVICE_INFO_NEW : 0) | (recv->displs ? DMA_DEVICE_INFO_TABLE : 0) |
                 (is_new && export->mapped ? DMA_DEVICE_INFO_MAPPED : 0) |
                 (halves              ? DMA_DEVICE_INFO_HALVES
                  : d->recv_shape.row ? DMA_DEVICE_INFO_SHAPE
                                      : 0),
    };
}

/* The blocks of the receive buffer, if they are not one after the other. */
static void publish_table(const dma_comm_t *comm, const dma_task_t *task, dma_device_info_t *info)
{
    char *record = dma_window_record(&comm->window, comm->rank, task->run.seq);
    dma_device_block_t *table = (dma_device_block_t *)(record + DMA_RECORD_BYTES(0));
    const dma_blocks_t *recv = &task->run.recv;

    for (int b = 0; recv->displs && b < comm->nranks; b++) {
        table[b] = (dma_device_block_t){.displ = recv->displs[b], .bytes = dma_blocks_bytes(recv, (uint64_t)b)};
        info->largest = table[b].bytes > info->largest ? table[b].bytes : info->largest;
    }
}

void dma_device_publish_slots(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_info_t *info = dma_device_info(comm, comm->rank, task->run.seq);
    const dma_blocks_t *recv = &task->run.recv;

    comm->device->last.served = false;
    *info = (dma_device_info_t){.largest = recv->displs ? 0 : recv->bytes,
                                .flags = DMA_DEVICE_INFO_SLOTS | (recv->displs ? DMA_DEVICE_INFO_TABLE : 0)};
    publish_table(comm, task, info);
}

dma_status_t dma_device_publish_record(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *d = task->device;
    bool halves = d->piece && d->piece_recv;
    dma_device_info_t *info = dma_device_info(comm, comm->rank, task->run.seq);
    dma_device_record_t *record = dma_window_record(&comm->window, comm->rank, task->run.seq);
    dma_device_call_key_t key = call_key(task);
    dma_export_t export;
    dma_gpu_traits_t traits;
    dma_status_t status;
    uint64_t freed;

    if (dc->last.served && is_repeatable(task) && !memcmp(&key, &dc->last.key, sizeof(key))) {
        *info = dc->last.info;
        if (dc->last.repeats < DMA_IPC_BRIEF_CALLS) {
            dc->last.repeats++;
            dma_ipc_count_calls(comm->proc->ipc, dc->last.info.number, 1);
        }
        return DMA_OK;
    }
    dc->last.served = false;
    status = dma_ipc_export(comm->proc->ipc, halves ? &d->memory->about : &d->recv, &export);
    if (status != DMA_OK) {
        return status;
    }
    if (d->memory && export.base == d->memory->about.base) {
        dma_ipc_is_ours(comm->proc->ipc, export.number);
    }
    traits = dma_gpu_traits_of_call(&dc->device->traits, dc->may_arm);
    *info = make_info(comm, task, &export, halves);
    /* Buffers that take turns with scratch memory may be freed without a new one that peers open. */
    freed = info->flags & DMA_DEVICE_INFO_NEW || d->brief ? freed_slots(comm) : 0;
    if (info->flags & DMA_DEVICE_INFO_NEW || freed) {
        info->flags |= DMA_DEVICE_INFO_NEW | (export.mapped ? DMA_DEVICE_INFO_MAPPED : 0);
        *record = (dma_device_record_t){
            .traits = traits,
            .nonce = dma_ipc_nonce(comm->proc->ipc),
            .export = export,
            .freed = freed,
        };
    }
    if (info->flags & DMA_DEVICE_INFO_SHAPE) {
        record->shape = d->recv_shape;
    }
    publish_table(comm, task, info);
    dc->last = (dma_device_last_t){.key = key, .info = *info};
    dc->last.info.flags = DMA_DEVICE_INFO_REPEAT | in_place_flag(task); /* all ranks have opened the export by then */
    return DMA_OK;
}

/* ---- what other ranks have published ---- */

static dma_import_t *open_export(dma_comm_t *comm, int r, const dma_device_record_t *record)
{
    int device = comm->device->device->ordinal;
    dma_import_t *import;
    dma_status_t status;

    status = dma_ipc_open(comm->proc->ipc, device, record->nonce, &record->export, &import);
    if (status == DMA_ERR_NOMEM) {
        dma_comm_note_reason(comm, DMA_REASON_staged_memory);
        return NULL;
    }
    if (status == DMA_AGAIN) {
        dma_comm_note_reason(comm, DMA_REASON_open_held);
        return NULL;
    }
    if (status != DMA_OK) {
        dma_comm_count_reason(comm, DMA_REASON_open_failed);
        dma_proc_report(comm->proc, DMA_REPORT_WARN, "open",
                        "device memory of rank %d of %s cannot be opened (%s): it goes through the host", r, comm->text,
                        dma_gpu_error());
        return NULL;
    }
    return import;
}

static void close_slot(const dma_comm_t *comm, dma_device_peer_t *peer, unsigned slot)
{
    if (peer->open[slot]) {
        dma_ipc_close(comm->proc->ipc, peer->open[slot]);
        peer->open[slot] = NULL;
    }
    peer->number[slot] = peer->size[slot] = 0;
}

void dma_device_close_all(const dma_comm_t *comm, int rank)
{
    for (unsigned slot = 0; slot < DEVICE_SLOTS; slot++) {
        close_slot(comm, &comm->device->peers[rank], slot);
    }
}

/* Returns the slot for a new export. Closes the export in it, and as many of the next oldest as are needed to keep the
 * sum of bytes below the limit. */
static unsigned allocate_slot(const dma_comm_t *comm, dma_device_peer_t *peer, uint64_t bytes)
{
    unsigned at = peer->next++ % DEVICE_SLOTS;
    uint64_t kept = 0, most = bytes < DEVICE_KEPT_BYTES ? DEVICE_KEPT_BYTES - bytes : 0;

    close_slot(comm, peer, at);
    for (unsigned i = 0; i < DEVICE_SLOTS; i++) {
        kept += peer->size[i];
    }
    for (unsigned i = at + 1; kept > most && i < at + DEVICE_SLOTS; i++) {
        kept -= peer->size[i % DEVICE_SLOTS];
        close_slot(comm, peer, i % DEVICE_SLOTS);
    }
    return at;
}

/* Enters an export into the list of rank r, and opens it. All ranks make the same entries, whether they could open the
 * memory or not. An export that is in the list already is published again if the agreement on it failed: then a rank
 * that could not open it tries again. */
static void add_export(dma_comm_t *comm, int r, const dma_device_record_t *record)
{
    dma_device_peer_t *peer = &comm->device->peers[r];
    uint64_t number = record->export.number, size = record->export.size;
    unsigned at;

    for (unsigned i = 0; i < DEVICE_SLOTS; i++) {
        if (record->freed >> i & 1) {
            close_slot(comm, peer, i);
        }
    }
    at = find_slot(peer, number);
    if (at == DEVICE_SLOTS) {
        at = allocate_slot(comm, peer, size);
        peer->number[at] = number;
        peer->size[at] = size;
    }
    if (r != comm->rank && !peer->open[at]) {
        peer->open[at] = open_export(comm, r, record);
    }
}

/* Validates what rank r has published, and sets the target: where its receive buffer is. DMA_UNSUPPORTED: it is not
 * open on this rank, or not valid. */
static dma_status_t resolve_target(dma_comm_t *comm, const dma_task_t *task, int r, const dma_device_info_t *info,
                                   const dma_device_record_t *record)
{
    struct dma_device_comm *dc = comm->device;
    const dma_device_peer_t *peer = &dc->peers[r];
    const dma_device_block_t *table = (const dma_device_block_t *)((const char *)record + DMA_RECORD_BYTES(0));
    int64_t *displs = dc->displs + (size_t)r * (size_t)comm->nranks, at, first;
    uint64_t ours = dma_blocks_bytes(&task->run.send, dma_coll_gathers(task->coll) ? 0 : (uint64_t)r), far;
    unsigned slot = find_slot(peer, info->number);

    if (slot == DEVICE_SLOTS || !peer->open[slot]) {
        return DMA_UNSUPPORTED;
    }
    for (int b = 0; info->flags & DMA_DEVICE_INFO_TABLE && b < comm->nranks; b++) {
        displs[b] = table[b].displ;
    }
    at = info->flags & DMA_DEVICE_INFO_TABLE ? displs[comm->rank] : (int64_t)((uint64_t)comm->rank * ours);
    if (info->flags & DMA_DEVICE_INFO_TABLE && table[comm->rank].bytes != ours) {
        return DMA_ERR_TRUNCATE;
    }
    /* Whatever a peer publishes, nothing is written outside of its allocation. */
    dc->shapes[r] = info->flags & DMA_DEVICE_INFO_SHAPE ? record->shape : (dma_shape_t){0};
    far = dma_shape_span(&dc->shapes[r], ours);
    if (info->flags & DMA_DEVICE_INFO_HALVES) {
        at = 0;
        far = dma_piece_bytes((uint64_t)info->piece * DEVICE_PIECE_UNIT, (uint64_t)comm->nranks);
        displs = NULL;
    }
    if (!dma_shape_valid(&dc->shapes[r]) ||
        (ours && (__builtin_add_overflow(info->offset, at, &first) || first < 0 || (uint64_t)first > peer->size[slot] ||
                  far > peer->size[slot] - (uint64_t)first))) {
        dma_comm_note_reason(comm, DMA_REASON_open_failed); /* it is not ours to open */
        return DMA_UNSUPPORTED;
    }
    dc->targets[r] = (dma_target_t){
        .addr = dma_import_base(peer->open[slot]) + (uint64_t)info->offset,
        .bytes = ours,
        .displs = info->flags & DMA_DEVICE_INFO_TABLE ? displs : NULL, /* NULL with DMA_DEVICE_INFO_HALVES */
        .shape = dc->shapes[r].row ? &dc->shapes[r] : NULL,
    };
    return DMA_OK;
}

/* Binds the engine to this communicator. */
static dma_status_t bind_engine(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    char *arena = dma_arena_base(comm->window.arena);
    char *lines = (char *)dma_window_queue(&comm->window, comm->rank, 0);
    char *trigger = (char *)dma_window_trigger_line(&comm->window, comm->rank);
    dma_gpu_bind_params_t job = {
        .rank = comm->rank,
        .nranks = comm->nranks,
        .traits = dc->traits,
        .stamps = dma_trace_on(comm->trace),
        .stamp_all = !strcmp(comm->proc->params.trace_stamps, "all"),
    };
    char why[DMA_GPU_WHY_BYTES];
    uint64_t at;
    dma_status_t status;

    status = dma_ipc_register(comm->proc->ipc, dc->device->ordinal, arena, dma_arena_bytes(comm->window.arena), &at);
    if (status == DMA_OK) {
        job.lines = at + (uint64_t)(lines - arena);
        job.trigger = dc->may_arm ? at + (uint64_t)(trigger - arena) : 0;
        status = dc->device->engine->bind(dc->device->unit, &job, &dc->binding, why);
        if (status == DMA_OK) {
            dc->epoch = comm->first_epoch; /* nothing has run yet */
            dc->arena_registered = true;
            dma_device_trace_moment(comm);
            return DMA_OK;
        }
        dma_slots_unregister(comm, comm->rank, arena);
    } else {
        snprintf(why, sizeof(why), "its memory cannot be registered");
    }
    dma_comm_count_reason(comm, DMA_REASON_bind_refused);
    dc->binding = NULL;
    dma_proc_report(comm->proc, DMA_REPORT_WARN, "bind",
                    "the engine %s does not serve %s (%s): device memory goes through the host",
                    dc->device->engine->name, comm->text, why);
    return DMA_UNSUPPORTED;
}

dma_status_t dma_device_read_records(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    dma_status_t result = DMA_OK;

    dc->saw_mapped = false;
    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_info_t *info = dma_device_info(comm, r, task->run.seq);
        const dma_device_record_t *record = dma_window_record(&comm->window, r, task->run.seq);
        dma_status_t status = DMA_OK;

        if (info->flags & DMA_DEVICE_INFO_NEW) {
            dc->saw_mapped = dc->saw_mapped || info->flags & DMA_DEVICE_INFO_MAPPED;
            dc->traits[r] = record->traits;
            comm->window.peers[r].epoch_words = record->traits.features & DMA_GPU_EPOCH_WORDS;
            add_export(comm, r, record);
        }
        if (r == comm->rank) {
            dc->shapes[r] = task->device->recv_shape;
            dc->targets[r] = (dma_target_t){.addr = (uint64_t)(uintptr_t)task->run.recv.addr,
                                            .bytes = task->run.recv.bytes,
                                            .displs = task->run.recv.displs,
                                            .shape = dc->shapes[r].row ? &dc->shapes[r] : NULL};
        } else {
            status = resolve_target(comm, task, r, info, record);
        }
        if (status == DMA_ERR_TRUNCATE) {
            task->run.failed_rank = r;
            return status;
        }
        result = status == DMA_OK ? result : status;
    }
    if (result == DMA_OK && !dc->binding) {
        result = bind_engine(comm);
    }
    return result;
}

void dma_device_end_agreement(dma_comm_t *comm, const dma_task_t *task, bool all)
{
    struct dma_device_comm *dc = comm->device;
    const dma_device_info_t *own = dma_device_info(comm, comm->rank, task->run.seq);
    unsigned slot = find_slot(&dc->peers[comm->rank], own->number);
    uint64_t bit = slot < DEVICE_SLOTS ? UINT64_C(1) << slot : 0;

    if (all) {
        dc->failed_agreements = 0;
        dc->unconfirmed &= ~bit;
        return;
    }
    dc->unconfirmed |= own->flags & DMA_DEVICE_INFO_NEW ? bit : 0; /* not all ranks have opened it */
    if (dc->saw_mapped) {
        dc->mapped_off = dc->mapped_off || own->flags & DMA_DEVICE_INFO_MAPPED;
        return;
    }
    if (++dc->failed_agreements == DEVICE_MAX_FAILED) {
        dc->off = DMA_REASON_staged_off;
        dma_proc_report(comm->proc, comm->rank == 0 ? DMA_REPORT_WARN : DMA_REPORT_INFO, "device off",
                        "device memory of %s goes through the host from now on", comm->text);
    }
}

/* ---- the plan ---- */

uint64_t dma_device_largest_block(const dma_comm_t *comm, const dma_task_t *task)
{
    uint64_t most = 0;

    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_info_t *info = dma_device_info(comm, r, task->run.seq);

        most = info->largest > most ? info->largest : most;
    }
    return most;
}

uint64_t dma_device_largest_received(const dma_task_t *task)
{
    uint64_t most = 0;

    for (int b = 0; b < task->comm->nranks; b++) {
        uint64_t bytes = dma_blocks_bytes(&task->run.recv, (uint64_t)b);

        most = bytes > most ? bytes : most;
    }
    return most;
}

static dma_plan_req_t plan_request(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    dma_plan_req_t req = comm->req;

    req.coll = task->coll;
    req.gpu = &comm->gpu_profile;
    req.queues = comm->gpu_queues;
    dma_gpu_request_traits(&req, dc->traits);
    return req;
}

static dma_status_t choose_variant(dma_comm_t *comm, const dma_task_t *task, uint64_t bytes, uint64_t key,
                                   dma_plan_memo_t *memo)
{
    dma_plan_req_t req = plan_request(comm, task);
    const char *reason;
    dma_status_t status;

    req.bytes = bytes;
    req.in_place = comm->device->census.in_place; /* of all ranks, which must choose the same variant */
    status = dma_plan_memo_fill(memo, key, &comm->profile, &req, comm->gpu_forced, &comm->counts, &reason);
    if (reason) {
        dma_comm_count_reason(comm, DMA_REASON_variant_unfit);
    }
    if (reason && comm->gpu_forced >= 0 && comm->rank == 0) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "forced", "%s cannot do %llu bytes in device memory (%s)",
                        dma_variants[comm->gpu_forced]->name, (unsigned long long)bytes, reason);
    }
    return status == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
}

dma_status_t dma_device_find_plan(dma_comm_t *comm, dma_task_t *task, uint64_t bytes, const dma_plan_t **plan)
{
    struct dma_device_comm *dc = comm->device;
    uint64_t key = dma_sign(task->coll, false, bytes) | (dc->census.in_place ? DMA_SIGN_IN_PLACE : 0);
    dma_plan_memo_t *memo = dma_plan_memo(&dc->plans, key);
    dma_status_t status = DMA_OK;

    if (memo->key != key) {
        status = choose_variant(comm, task, bytes, key, memo);
    }
    if (status == DMA_OK && !memo->plans[task->in_place]) {
        dma_plan_req_t req = plan_request(comm, task);

        req.in_place = task->in_place;
        status = dma_plan_memo_build(&dc->plans, memo, &req, comm->rank, &comm->counts);
    }
    if (status == DMA_OK) {
        *plan = memo->plans[task->in_place];
        dc->predicted_ps = memo->choice.cost_ps;
        dc->prelaunch_wins = memo->choice.prelaunch;
    }
    return status;
}

/* ---- stop and destroy ---- */

void dma_device_stop(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    bool streams = dma_device_in_stream_leave(comm);

    dma_starts_stop(comm, streams);
    dma_device_end_slots(comm);
    for (int r = 0; r < comm->nranks; r++) {
        dma_slots_unview(comm, r, &dc->by_slots.views[r]);
    }
    /* If a stream may be at work, the binding ends with the communicator. Calls of the runtime could wait for the stream now. */
    if (dc->binding && (streams || !dc->device->engine->unbind(dc->binding))) {
        /* A queue or stream that does not move may still read our trigger and write our lines. So the memory must neither be unmapped
         * nor be used for something else. */
        comm->window.permanent = true;
        dma_arena_keep_mapped(comm->window.arena);
        dc->arena_registered = false;
    }
    dc->binding = streams ? dc->binding : NULL;
    if (!comm->window.permanent) {
        dma_starts_unmap(comm);
        dma_device_in_stream_give_back(comm);
    }
    if (dc->arena_registered) {
        dma_slots_unregister(comm, comm->rank, dma_arena_base(comm->window.arena));
        dc->arena_registered = false;
    }
}
