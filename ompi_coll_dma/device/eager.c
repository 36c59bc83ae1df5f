/*
 * Eager starts of persistent calls with small blocks (coll_dma_eager_bytes). gpu/eager.h says what their kernel does, and why all
 * starts of such a call use it.
 *
 * *_init has prepared the call as any other. If all ranks want eager starts, each rank takes scratch memory for two banks of packets,
 * fills it with 0, tells the others where it is, and opens theirs. A second exchange says whether all ranks could; it also comes
 * behind the filling. From then on the addresses of a start do not change.
 *
 * A start by the host is one kernel, if the other ranks start soon enough. DEVICE_EAGER_TRY lasts while it runs. If it has missed a
 * packet, DEVICE_EAGER lasts until all ranks have started, and DEVICE_EAGER_END while a kernel runs that receives. A kernel says in the
 * lines of this rank that it has ended; nobody else reads these lines. If the other ranks have started before, the first kernel waits
 * for all packets, and DEVICE_EAGER_END is the only phase.
 *
 * A start in a stream of the application is one kernel. It occupies a part of the device while it waits. So only as many streams
 * may have such kernels as fit into half of the device at once. Starts in other streams are made by the host.
 *
 * Ranks that share a device have no eager starts: while the kernel of one waits, the other's cannot always run.
 *
 * Failure. The communicator is poisoned first, then the stop word is set, and kernels end. A host looks at the poison behind every
 * kernel. Peers write only to the packets, never to buffers of the user. A stream of a peer may send them much later, so the memory of
 * a communicator that has failed is kept until the process ends.
 */
#include <sched.h>
#include <stdlib.h>

#include "core/setup/bootstrap.h"
#include "device/eager.h"

#define DRAIN_SECONDS 2
#define PATIENCE      32                  /* polls of a thread: about the time that launching another kernel takes */
#define ZEROS         (UINT64_C(1) << 20) /* bytes that are written at once */

struct dma_device_eager {
    dma_lease_t *memory;   /* the banks; kernels of the host run in its first stream */
    bool registered;       /* the arena, for the words */
    bool launched;         /* the host has launched a kernel */
    dma_eager_args_t args; /* of every start, except for the epoch and the steps */
    dma_eager_grid_t grid;
    uint64_t part;                            /* bytes of a bank for one rank */
    dma_import_t *peers[DMA_EAGER_MOST_ROWS]; /* their memory; NULL: none */
};

_Static_assert(DMA_EAGER_BLOCKS * sizeof(uint32_t) <= 2 * sizeof(dma_engine_line_t),
               "two ranks have lines for all blocks");

/* What a rank tells the others. */
typedef struct dma_eager_record {
    dma_export_t export;
    uint64_t nonce;
    uint64_t offset; /* of the banks in the export */
    dma_gpu_pci_t pci;
    uint64_t able;
} dma_eager_record_t;

static dma_engine_line_t *ready_line(const dma_comm_t *comm)
{
    return dma_window_ready(&comm->window, comm->rank);
}

/* In the ready line, which has no words by epoch. */
static _Atomic uint32_t *stop_word(const dma_comm_t *comm)
{
    return &ready_line(comm)->by_epoch[0];
}

/* In the same line. */
static _Atomic uint32_t *missed_word(const dma_comm_t *comm)
{
    return &ready_line(comm)->by_epoch[1];
}

/* The first of the words in which the blocks of threads say that they have ended: the lines, as an array. */
static _Atomic uint32_t *end_words(const dma_comm_t *comm)
{
    return (_Atomic uint32_t *)(void *)dma_window_queue(&comm->window, comm->rank, 0);
}

/* ---- can this rank? ---- */

static const dma_blocks_t *sent_blocks(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;

    return dc->start_in_place && !dma_coll_gathers(dc->start_coll) ? &dc->start_run.recv : &dc->start_run.send;
}

/* Loads the kernel. *blocks: of threads that the device runs at once. */
static dma_reason_t find_kernel(const dma_comm_t *comm, unsigned *blocks)
{
    const struct dma_device_comm *dc = comm->device;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!dc->rt->eager_prepare) {
        return DMA_REASON_eager_runtime;
    }
    if ((status = dc->rt->enter(dc->device->ordinal, &scope)) == DMA_OK) {
        status = dc->rt->eager_prepare(blocks);
        dc->rt->leave(&scope);
    }
    return status == DMA_OK ? DMA_REASON_NONE : status == DMA_AGAIN ? DMA_REASON_eager_waits : DMA_REASON_eager_runtime;
}

unsigned dma_device_eager_blocks(const dma_comm_t *comm)
{
    unsigned blocks = 0;

    return find_kernel(comm, &blocks) ? 0 : blocks;
}

static bool reaches_buffers(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_gpu_runtime_t *rt = comm->device->rt;
    dma_gpu_scope_t scope;
    bool reaches;

    if (!rt->eager_reaches || rt->enter(comm->device->device->ordinal, &scope) != DMA_OK) {
        return false;
    }
    reaches = rt->eager_reaches((uint64_t)(uintptr_t)dma_blocks_addr(&task->run.recv, 0)) &&
              (task->in_place || rt->eager_reaches((uint64_t)(uintptr_t)dma_blocks_addr(&task->run.send, 0)));
    rt->leave(&scope);
    return reaches;
}

static dma_reason_t find_eager_obstacle(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    unsigned blocks;

    if (comm->nranks > DMA_EAGER_MOST_ROWS) {
        return DMA_REASON_eager_ranks;
    }
    if (d->send_shape.row || d->recv_shape.row || d->send_type || d->recv_type) {
        return DMA_REASON_eager_runtime;
    }
    return reaches_buffers(comm, task) ? find_kernel(comm, &blocks) : DMA_REASON_eager_runtime;
}

bool dma_device_eager_wanted(dma_comm_t *comm, const dma_task_t *task, uint64_t largest)
{
    dma_reason_t why;

    if (largest > comm->proc->params.eager_bytes || !comm->proc->params.eager_bytes || comm->nranks == 1) {
        return false;
    }
    if ((why = find_eager_obstacle(comm, task))) {
        dma_comm_lock(comm);
        dma_comm_note_reason(comm, why);
        dma_comm_unlock(comm);
    }
    return !why;
}

/* ---- set-up ---- */

/* In scope. Epochs of earlier users of the memory must not be taken for those of this call. */
static dma_status_t fill(const dma_gpu_runtime_t *rt, uint64_t at, uint64_t bytes)
{
    uint64_t most = bytes < ZEROS ? bytes : ZEROS;
    char *zeros = calloc(1, most);
    dma_status_t status = zeros ? DMA_OK : DMA_ERR_NOMEM;

    for (uint64_t done = 0, n; done < bytes && status == DMA_OK; done += n) {
        n = bytes - done < most ? bytes - done : most;
        status = rt->copy(at + done, (uint64_t)(uintptr_t)zeros, n);
    }
    free(zeros);
    return status;
}

/* Takes memory for the banks, and fills it. */
static dma_status_t take_banks(const dma_comm_t *comm, struct dma_device_eager *e)
{
    const struct dma_device_comm *dc = comm->device;
    uint64_t bytes = 2 * e->args.bank_bytes;
    dma_gpu_scope_t scope;
    dma_status_t status = dma_lease_take(comm->proc,
                                         &(dma_lease_want_t){.kind = DMA_LEASE_DEVICE,
                                                             .rt = dc->rt,
                                                             .device = dc->device->ordinal,
                                                             .bytes = bytes,
                                                             .least = bytes,
                                                             .streams = 1,
                                                             .exact = true},
                                         &e->memory);

    if (status != DMA_OK) {
        e->memory = NULL;
        return status;
    }
    if ((status = dc->rt->enter(dc->device->ordinal, &scope)) == DMA_OK) {
        status = fill(dc->rt, e->memory->addr, bytes);
        dc->rt->leave(&scope);
    }
    return status;
}

static dma_status_t register_words(const dma_comm_t *comm, struct dma_device_eager *e)
{
    const dma_mapping_t *m = comm->window.peers[comm->rank].mapping;
    uint64_t at;
    dma_status_t status = dma_ipc_register(comm->proc->ipc, comm->device->device->ordinal, m->base, m->bytes, &at);

    if (status == DMA_OK) {
        e->registered = true;
        e->args.ready = at + (uint64_t)((char *)&ready_line(comm)->word - (char *)m->base);
        e->args.ends = at + (uint64_t)((char *)end_words(comm) - (char *)m->base);
        e->args.stop = at + (uint64_t)((char *)stop_word(comm) - (char *)m->base);
        e->args.missed = at + (uint64_t)((char *)missed_word(comm) - (char *)m->base);
    }
    return status;
}

/* Everything that concerns this rank alone, and what it tells the others. */
static dma_status_t take_own(dma_comm_t *comm, struct dma_device_eager *e, dma_eager_record_t *own)
{
    dma_status_t status = take_banks(comm, e);

    status = status == DMA_OK ? register_words(comm, e) : status;
    status = status == DMA_OK ? comm->device->rt->device_pci(comm->device->device->ordinal, &own->pci) : status;
    status = status == DMA_OK ? dma_ipc_export(comm->proc->ipc, &e->memory->about, &own->export) : status;
    if (status == DMA_OK) {
        dma_ipc_is_ours(comm->proc->ipc, own->export.number);
        own->nonce = dma_ipc_nonce(comm->proc->ipc);
        own->offset = e->memory->addr - own->export.base;
        own->able = true;
    }
    return status;
}

/* The rows, except for the memory of peers. False: a block does not fit into its part. */
static bool set_blocks(const dma_comm_t *comm, struct dma_device_eager *e, uint64_t largest)
{
    const struct dma_device_comm *dc = comm->device;
    const dma_blocks_t *send = sent_blocks(comm), *recv = &dc->start_run.recv;
    bool fits = true;

    for (int r = 0; r < comm->nranks; r++) {
        uint64_t sent = dma_coll_gathers(dc->start_coll) ? 0 : (uint64_t)r, received = (uint64_t)r;

        e->args.rows[r] = (dma_eager_row_t){
            .src = (uint64_t)(uintptr_t)dma_blocks_addr(send, sent),
            .dst = (uint64_t)(uintptr_t)dma_blocks_addr(recv, received),
            .src_bytes = (uint32_t)dma_blocks_bytes(send, sent),
            .dst_bytes = (uint32_t)dma_blocks_bytes(recv, received),
        };
        fits = fits && dma_blocks_bytes(send, sent) <= largest && dma_blocks_bytes(recv, received) <= largest;
    }
    if (dc->start_in_place) {
        e->args.rows[comm->rank].dst = e->args.rows[comm->rank].src;
    }
    return fits;
}

/* Whatever a peer publishes, nothing is written outside of its allocation. */
static bool fits_export(const struct dma_device_eager *e, const dma_eager_record_t *record)
{
    return record->able && record->offset <= record->export.size &&
           2 * e->args.bank_bytes <= record->export.size - record->offset;
}

/* Have two ranks one device? Equal on all ranks. */
static bool shares_device(const dma_comm_t *comm, const dma_bootstrap_t *exchange)
{
    for (int a = 0; a < comm->nranks; a++) {
        const dma_gpu_pci_t *x = &((const dma_eager_record_t *)dma_bootstrap_record(exchange, a))->pci;

        for (int b = 0; b < a; b++) {
            const dma_gpu_pci_t *y = &((const dma_eager_record_t *)dma_bootstrap_record(exchange, b))->pci;

            if (x->domain == y->domain && x->bus == y->bus && x->device == y->device && x->function == y->function) {
                return true;
            }
        }
    }
    return false;
}

/* Opens the memory of all peers. In a bank, parts are in the order of the ranks that write them. */
static bool connect(dma_comm_t *comm, struct dma_device_eager *e, const dma_bootstrap_t *exchange)
{
    for (int r = 0; r < comm->nranks; r++) {
        const dma_eager_record_t *record = dma_bootstrap_record(exchange, r);

        if (!fits_export(e, record)) {
            return false;
        }
        if (r == comm->rank) {
            continue;
        }
        if (dma_ipc_open(comm->proc->ipc, comm->device->device->ordinal, record->nonce, &record->export,
                         &e->peers[r]) != DMA_OK) {
            e->peers[r] = NULL;
            return false;
        }
        e->args.rows[r].out = dma_import_base(e->peers[r]) + record->offset + (uint64_t)comm->rank * e->part;
        e->args.rows[r].in = e->memory->addr + (uint64_t)r * e->part;
    }
    return true;
}

static struct dma_device_eager *make_eager(const dma_comm_t *comm, uint64_t largest)
{
    struct dma_device_eager *e = calloc(1, sizeof(*e));
    uint32_t packets = dma_eager_packets(largest), rows = (uint32_t)comm->nranks, most = DMA_EAGER_BLOCKS / rows;
    uint32_t blocks = (packets + DMA_EAGER_THREADS - 1) / DMA_EAGER_THREADS;

    if (!e) {
        return NULL;
    }
    e->part = (uint64_t)packets * DMA_EAGER_PACKET;
    e->args.bank_bytes = rows * e->part;
    e->grid = (dma_eager_grid_t){
        .blocks = blocks < most ? blocks : most,
        .rows = rows,
        .threads = packets < DMA_EAGER_THREADS ? (packets + 31) / 32 * 32 : DMA_EAGER_THREADS, /* whole warps */
    };
    return e;
}

dma_status_t dma_device_eager_init(dma_comm_t *comm, uint64_t largest)
{
    struct dma_device_eager *e = make_eager(comm, largest);
    dma_reason_t why = DMA_REASON_eager_memory;
    dma_eager_record_t own = {0};
    dma_bootstrap_t exchange;
    dma_status_t status;
    bool all;

    comm->device->eager = e;
    if (e) {
        why = !set_blocks(comm, e, largest)       ? DMA_REASON_eager_peer
              : take_own(comm, e, &own) == DMA_OK ? DMA_REASON_NONE
                                                  : DMA_REASON_eager_memory;
    }
    own.able = !why;
    if ((status = dma_device_exchange(comm, &own, sizeof(own), &exchange)) != DMA_OK) {
        return status;
    }
    if (!why) {
        why = shares_device(comm, &exchange) ? DMA_REASON_eager_shared
              : connect(comm, e, &exchange)  ? DMA_REASON_NONE
                                             : DMA_REASON_eager_peer;
    }
    dma_bootstrap_end(&exchange);
    status = dma_device_all(comm, !why, &all);
    if (status == DMA_OK && !all) {
        dma_comm_lock(comm);
        dma_comm_note_reason(comm, why ? why : DMA_REASON_eager_peer);
        dma_device_eager_unregister(comm);
        dma_device_eager_destroy(comm);
        dma_comm_unlock(comm);
    }
    return status;
}

/* ---- starts ---- */

static dma_status_t launch_in_scope(const dma_comm_t *comm, dma_gpu_stream_t *stream, uint32_t epoch, uint32_t steps,
                                    uint32_t patience)
{
    struct dma_device_eager *e = comm->device->eager;

    e->args.epoch = epoch;
    e->args.steps = steps;
    e->args.patience = patience;
    return comm->device->rt->eager_launch(stream, &e->args, e->grid);
}

static dma_status_t launch_by_host(const dma_comm_t *comm, uint32_t epoch, uint32_t steps, uint32_t patience)
{
    const struct dma_device_comm *dc = comm->device;
    struct dma_device_eager *e = dc->eager;
    dma_gpu_scope_t scope;
    dma_status_t status = dc->rt->enter(dc->device->ordinal, &scope);

    if (status == DMA_OK) {
        status = launch_in_scope(comm, e->memory->stream[0], epoch, steps | DMA_EAGER_END, patience);
        dc->rt->leave(&scope);
    }
    e->launched = e->launched || status == DMA_OK;
    return status == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
}

static bool others_have_started(const dma_comm_t *comm, uint32_t epoch)
{
    for (int r = 0; r < comm->nranks; r++) {
        /* acquire, for the poison behind it: the word may be forged (in_stream.c). Packets say themselves that they have come */
        if (r != comm->rank &&
            !dma_ready_started(atomic_load_explicit(&dma_window_ready(&comm->window, r)->word, memory_order_acquire),
                               epoch)) {
            return false;
        }
    }
    return true;
}

dma_status_t dma_device_eager_begin(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;
    bool last;

    dma_device_start_run(comm, task, DEVICE_EAGER);
    comm->device->start_run.repeat = true; /* for the starts after this one */
    last = others_have_started(comm, task->run.epoch) && dma_window_poisoned(&comm->window) == DMA_OK;
    status = launch_by_host(comm, task->run.epoch, DMA_EAGER_SEND | DMA_EAGER_RECV, last ? 0 : PATIENCE);
    comm->counts.at[DMA_COUNT_calls_eager] += status == DMA_OK;
    task->device->phase = last ? DEVICE_EAGER_END : DEVICE_EAGER_TRY;
    dma_task_set_running(task);
    dma_trace_mark(comm->trace, DMA_TRACE_ENTERED, task->run.seq, 0, 0, 0);
    return status;
}

/* Has the last kernel of the host ended? */
static bool kernel_has_ended(const dma_comm_t *comm, uint32_t epoch)
{
    const dma_eager_grid_t *grid = &comm->device->eager->grid;

    for (uint32_t i = 0; i < grid->rows * grid->blocks; i++) {
        /* acquire: what the kernel has written comes first, the missed word too */
        if (atomic_load_explicit(end_words(comm) + i, memory_order_acquire) != epoch) {
            return false;
        }
    }
    return true;
}

/* No kernel is at work that would store to these words. The next launch comes behind these stores. */
static void take_back_end(const dma_comm_t *comm, uint32_t epoch)
{
    const dma_eager_grid_t *grid = &comm->device->eager->grid;

    atomic_store_explicit(missed_word(comm), epoch - 1, memory_order_relaxed);
    for (uint32_t i = 0; i < grid->rows * grid->blocks; i++) {
        atomic_store_explicit(end_words(comm) + i, epoch - 1, memory_order_relaxed);
    }
}

dma_status_t dma_device_advance_eager_try(dma_comm_t *comm, dma_task_t *task)
{
    if (!kernel_has_ended(comm, task->run.epoch)) {
        return DMA_AGAIN;
    }
    if (atomic_load_explicit(missed_word(comm), memory_order_relaxed) == task->run.epoch) {
        task->device->phase = DEVICE_EAGER;
    }
    return DMA_OK;
}

dma_status_t dma_device_advance_eager(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status;

    if (!others_have_started(comm, task->run.epoch)) {
        return DMA_AGAIN;
    }
    if ((status = dma_window_poisoned(&comm->window)) != DMA_OK) {
        return status;
    }
    dma_trace_mark(comm->trace, DMA_TRACE_MET, task->run.seq, 0, 0, 0);
    take_back_end(comm, task->run.epoch);
    task->device->phase = DEVICE_EAGER_END;
    return launch_by_host(comm, task->run.epoch, DMA_EAGER_RECV, 0);
}

dma_status_t dma_device_advance_eager_end(dma_comm_t *comm, dma_task_t *task)
{
    return kernel_has_ended(comm, task->run.epoch) ? DMA_OK : DMA_AGAIN;
}

dma_status_t dma_device_eager_enqueue(dma_comm_t *comm, uint32_t epoch, const dma_gpu_app_stream_t *app)
{
    const struct dma_device_comm *dc = comm->device;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (dc->rt->enter(dc->device->ordinal, &scope) != DMA_OK) {
        return DMA_UNSUPPORTED;
    }
    status = DMA_UNSUPPORTED;
    if (launch_in_scope(comm, app->stream, epoch, DMA_EAGER_SEND | DMA_EAGER_RECV, 0) == DMA_OK) {
        status = dc->rt->event_record(app->copied, app->stream) == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
    }
    dc->rt->leave(&scope);
    return status;
}

/* ---- the end ---- */

static dma_status_t query(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;
    dma_gpu_scope_t scope;
    dma_status_t status = dc->rt->enter_to_release(dc->device->ordinal, &scope);

    if (status == DMA_OK) {
        status = dc->rt->stream_query(dc->eager->memory->stream[0]);
        dc->rt->leave(&scope);
    }
    return status;
}

bool dma_device_eager_stop(dma_comm_t *comm)
{
    const struct dma_device_eager *e = comm->device->eager;
    double until = dma_now() + DRAIN_SECONDS;
    dma_status_t status = DMA_OK;

    if (!e || !e->memory) {
        return true;
    }
    if (comm->state == DMA_COMM_POISONED) {
        atomic_store_explicit(stop_word(comm), 1, memory_order_release);
    }
    while (e->launched && (status = query(comm)) == DMA_AGAIN && dma_now() < until) {
        sched_yield();
    }
    return status != DMA_AGAIN;
}

void dma_device_eager_unregister(dma_comm_t *comm)
{
    struct dma_device_eager *e = comm->device->eager;

    if (e && e->registered) {
        dma_slots_unregister(comm, comm->rank, comm->window.peers[comm->rank].mapping->base);
        e->registered = false;
    }
}

/* After a failure of this call, or of another one on the parent, the stream of a peer may still send packets of starts that this
 * rank has not made. */
static bool may_still_come(const dma_comm_t *comm)
{
    return comm->state == DMA_COMM_POISONED || dma_window_poisoned(&comm->window) != DMA_OK ||
           (comm->parent && comm->parent->window.own && dma_window_poisoned(&comm->parent->window) != DMA_OK);
}

void dma_device_eager_destroy(dma_comm_t *comm)
{
    struct dma_device_eager *e = comm->device->eager;

    if (!e) {
        return;
    }
    for (int r = 0; r < comm->nranks && !comm->window.permanent; r++) {
        if (e->peers[r]) {
            dma_ipc_close(comm->proc->ipc, e->peers[r]);
        }
    }
    if (e->memory && (comm->window.permanent || may_still_come(comm))) {
        dma_lease_lose(comm->proc, e->memory);
    } else if (e->memory) {
        dma_lease_give_back(comm->proc, e->memory);
    }
    free(e);
    comm->device->eager = NULL;
}
