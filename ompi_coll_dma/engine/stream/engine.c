/*
 * The stream engine: GPU plans as copies of the GPU's runtime, HIP or CUDA.
 *
 * A unit has two streams of its own on one device. They never wait for a peer, because all peers have entered when a run
 * starts. So the application's cudaFree or device synchronization never waits longer than our copies take.
 *
 *     PUSHES    one batch with all copies to peers            | line of each program := epoch
 *     OWN       the own block, from send to receive buffer    | its line := epoch    (self_copy.h; unused with echo)
 *
 * A small own block is copied before the peers have entered, while this rank waits for them. With echo, the own block is
 * copied on the stream PUSHES. Then this rank's CPU writes its line after it has seen the lines of the pushes; only this rank
 * reads that line.
 *
 * The stream itself writes a line, behind the copies that the line reports. If the runtime cannot do that, or the first
 * attempt fails, an event is recorded instead. `advance`, which the core calls while the run is in progress, stores the word
 * when the event is reached.
 *
 * All communicators of the device use the streams in turn. If another thread is submitting, `start` returns DMA_AGAIN. So no
 * thread waits for a lock that the holder keeps during a runtime call.
 *
 * A run in a stream of the application uses that stream instead, and another one for the own block (enqueue.c).
 *
 * The application's own kernels may delay a stream for any time. So there is no timeout: only the runtime reports errors.
 */
#include <pthread.h>
#include <stdlib.h>

#include "dma/clock.h"
#include "engine/stream/binding.h"
#include "engine/stream/stream.h"
#include "node/pause.h"
#include "node/window.h"

#define QUIET_SECONDS 2.0  /* how long unbind waits for copies in progress */
#define CHECK_SECONDS 1e-3 /* between two queries of the streams for errors */

static void stream_traits(const dma_gpu_unit_t *handle, dma_gpu_traits_t *traits)
{
    const dma_stream_unit_t *unit = (const dma_stream_unit_t *)handle;
    dma_gpu_pci_t pci;

    /* One queue: a single copy fills the link, and launching more streams costs more than they save. */
    *traits = (dma_gpu_traits_t){.node = UINT32_MAX, .max_ways = 1};
    if (unit->rt->device_pci(unit->device, &pci) == DMA_OK) {
        traits->node = pci.domain << 16 | pci.bus << 8 | pci.device << 3 | pci.function;
    }
}

/* ---- bindings ---- */

static dma_status_t stream_bind(dma_gpu_unit_t *handle, const dma_gpu_bind_params_t *params, dma_gpu_binding_t **result,
                                char *why)
{
    dma_stream_binding_t *b = calloc(1, sizeof(*b));

    if (b) {
        b->words = calloc((size_t)params->nranks + 2, sizeof(*b->words)); /* as many as in work.c */
    }
    if (!b || !b->words || dma_work_create(&b->work, params->nranks) != DMA_OK) {
        free(b ? b->words : NULL);
        free(b);
        return dma_gpu_refuse(why, "no memory to bind the engine stream");
    }
    b->unit = (dma_stream_unit_t *)handle;
    b->rank = params->rank;
    b->nranks = params->nranks;
    b->lines = params->lines;
    dma_self_copy_init(&b->self_copy, b->unit->method, b->unit->rt);
    dma_stream_stamps_init(&b->stamps, b->unit->rt, params->stamps, params->stamp_all);
    *result = (dma_gpu_binding_t *)b;
    return DMA_OK;
}

static _Atomic uint32_t *word_of(const dma_stream_binding_t *b, uint32_t prog)
{
    return &dma_window_queue(b->window, b->rank, (int)prog - 1)->word;
}

static bool has_ended(const dma_stream_binding_t *b, uint32_t prog)
{
    return atomic_load_explicit(word_of(b, prog), memory_order_acquire) == b->epoch;
}

static bool is_gone(const dma_stream_binding_t *b)
{
    dma_status_t status = b->unit->rt->stream_query(b->unit->streams[DMA_STREAM_PUSHES]);

    return status != DMA_OK && status != DMA_AGAIN;
}

/* Whether all programs of the last run have ended. If a run was submitted only in part, or the own block of the next
 * run was launched, the lines do not show it, so the streams are queried. A reset of the device has ended all copies and
 * writes no line any more. */
static bool is_quiet(const dma_stream_binding_t *b)
{
    if (is_gone(b)) {
        return true;
    }
    if ((b->failed && !b->enqueued) || b->early.bytes) {
        for (int i = 0; i < DMA_STREAMS; i++) {
            if (b->unit->rt->stream_query(b->unit->streams[i]) == DMA_AGAIN) {
                return false;
            }
        }
        return true;
    }
    for (uint32_t i = 1; i < b->progs; i++) {
        bool own = i == b->own_prog;

        if (i == b->echoed || (own && b->enqueued)) {
            continue; /* copies nothing itself, or the stream of the application waits for it */
        }
        if (b->recorded[own ? DMA_STREAM_OWN : DMA_STREAM_PUSHES]) {
            if (b->unit->rt->event_query(b->events[own ? DMA_STREAM_OWN : DMA_STREAM_PUSHES]) == DMA_AGAIN) {
                return false;
            }
        } else if (!has_ended(b, i)) {
            return false;
        }
    }
    return true;
}

static bool stream_unbind(dma_gpu_binding_t *handle)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    const dma_gpu_runtime_t *rt = b->unit->rt;
    double until = dma_now() + QUIET_SECONDS;
    dma_pause_t pause = {0};
    dma_gpu_scope_t scope;
    bool quiet = true; /* if the runtime is gone, no copy is in progress */

    if (rt->enter_to_release(b->unit->device, &scope) == DMA_OK) {
        while (!(quiet = is_quiet(b)) && dma_now() < until) {
            dma_pause(&pause);
        }
        dma_self_copy_destroy(&b->self_copy, rt);
        dma_stream_stamps_destroy(&b->stamps);
        for (int i = 0; i < DMA_STREAMS; i++) {
            if (b->events[i]) {
                (void)rt->event_destroy(b->events[i]);
            }
        }
        rt->leave(&scope);
    }
    dma_work_destroy(&b->work);
    free(b->words);
    free(b);
    return quiet;
}

/* ---- a run ---- */

static bool is_on_stream(const dma_stream_binding_t *b, uint32_t prog, int stream)
{
    return (prog == b->own_prog) == (stream == DMA_STREAM_OWN);
}

static void write_lines(dma_stream_binding_t *b, int stream)
{
    for (uint32_t i = 1; i < b->progs; i++) {
        if (is_on_stream(b, i, stream)) {
            /* release: a thread that sees the word also sees the data that the runtime has reported */
            atomic_store_explicit(word_of(b, i), b->epoch, memory_order_release);
        }
    }
}

/* Writes the lines of a stream's programs behind all work of the stream: by the stream, or by an event and the CPU. */
static dma_status_t signal_lines(dma_stream_binding_t *b, int stream)
{
    dma_stream_unit_t *unit = b->unit;
    const dma_gpu_runtime_t *rt = unit->rt;
    dma_status_t status = DMA_OK;

    for (uint32_t i = 1; i < b->progs && unit->writes; i++) {
        uint64_t line = b->lines + (i - 1) * sizeof(dma_engine_line_t);

        if (i != b->echoed && is_on_stream(b, i, stream) &&
            rt->write32(unit->streams[stream], line, b->epoch) != DMA_OK) {
            unit->writes = false;
            dma_gpu_count(unit->counters, DMA_STREAM_EVENTS, 1);
        }
    }
    if (unit->writes) {
        return DMA_OK;
    }
    if (!b->events[stream] && (status = rt->event_create(&b->events[stream])) != DMA_OK) {
        b->events[stream] = NULL;
        return status;
    }
    status = rt->event_record(b->events[stream], unit->streams[stream]);
    b->recorded[stream] = status == DMA_OK;
    return status;
}

/* In front of the pushes of a run with echo. If the last probe has not ended, of whatever run, this run has none. */
static void begin_probe(dma_stream_binding_t *b)
{
    if (dma_self_copy_wants_probe(&b->self_copy)) {
        b->probe = dma_stream_probe_begin(b->unit);
    }
}

/* The pushes of that run have just ended. */
static void end_probe(dma_stream_binding_t *b)
{
    dma_stream_unit_t *unit = b->unit;
    dma_gpu_scope_t scope;

    if (!pthread_mutex_trylock(&unit->lock)) {
        if (unit->rt->enter(unit->device, &scope) == DMA_OK) {
            dma_self_copy_probed(&b->self_copy, dma_stream_probe_ended(unit, b->probe));
            unit->rt->leave(&scope);
        }
        pthread_mutex_unlock(&unit->lock);
    }
    b->probe = 0;
}

static dma_status_t exchange(dma_stream_binding_t *b)
{
    dma_stream_unit_t *unit = b->unit;
    dma_status_t status = DMA_OK;
    uint64_t bytes = 0;
    bool by_links;

    if (!b->work.swaps.n) {
        return DMA_OK;
    }
    if (!unit->temp && (status = dma_stream_allocate_temp(unit)) != DMA_OK) {
        return status;
    }
    by_links = b->by_links = dma_self_copy_choose_echo(&b->self_copy);
    for (size_t i = 0; i < b->work.swaps.n && !by_links; i++) {
        bytes += b->work.swaps.bytes[i];
    }
    if (by_links) {
        begin_probe(b);
    } else {
        dma_self_copy_exchange_begin(&b->self_copy, bytes, dma_now());
    }
    return dma_work_exchange(&b->work, unit->rt, unit->streams[DMA_STREAM_PUSHES], unit->temp, unit->temp_bytes,
                             by_links);
}

/* Submits the copies to peers. *echoed: the own block is copied with them. */
static dma_status_t submit_pushes(dma_stream_binding_t *b, const dma_run_t *run, bool *echoed)
{
    dma_stream_unit_t *unit = b->unit;
    dma_status_t status = DMA_UNSUPPORTED;

    *echoed = false;
    if (b->work.pushes.n || b->work.swaps.n) {
        dma_stream_stamps_put_before(&b->stamps, DMA_STREAM_PUSHES, unit->streams[DMA_STREAM_PUSHES]);
    }
    if (!b->early.bytes && b->work.own.bytes && dma_self_copy_choose_echo(&b->self_copy)) {
        begin_probe(b);
        status = dma_self_copy_echo(&b->work, run, unit->rt, unit->streams[DMA_STREAM_PUSHES]);
        *echoed = status == DMA_OK;
        b->collected = false; /* echo changes the list of pushes */
    }
    if (status == DMA_UNSUPPORTED) {
        status = dma_work_push(&b->work, unit->rt, unit->streams[DMA_STREAM_PUSHES]);
    }
    return status == DMA_OK ? exchange(b) : status;
}

static dma_status_t submit_own(dma_stream_binding_t *b)
{
    dma_gpu_stream_t *stream = b->unit->streams[DMA_STREAM_OWN];

    dma_stream_stamps_put_before(&b->stamps, DMA_STREAM_OWN, stream);
    return dma_self_copy_submit(&b->self_copy, &b->work.own, b->unit->rt, stream);
}

static dma_status_t submit(dma_stream_binding_t *b, const dma_run_t *run)
{
    dma_work_t *work = &b->work;
    bool echoed, pushes = work->pushes.n || work->swaps.n;
    dma_status_t status = submit_pushes(b, run, &echoed);

    if (status != DMA_OK) {
        return status;
    }
    b->own_prog = echoed ? 0 : work->own.prog;
    b->echoed = echoed ? work->own.prog : 0;
    /* Submit the self copy before the writes of the pushes' lines. Submitting takes time, and nobody needs the lines
     * yet, because the pushes have just begun. */
    if (b->own_prog && work->own.bytes && !b->early.bytes && (status = submit_own(b)) != DMA_OK) {
        return status;
    }
    if (pushes || echoed) {
        status = signal_lines(b, DMA_STREAM_PUSHES);
        if (pushes && status == DMA_OK) {
            dma_stream_stamps_put_after(&b->stamps, DMA_STREAM_PUSHES, b->unit->streams[DMA_STREAM_PUSHES]);
        }
    } else {
        write_lines(b, DMA_STREAM_PUSHES);
    }
    if (status != DMA_OK || !b->own_prog) {
        return status;
    }
    if (!work->own.bytes) {
        write_lines(b, DMA_STREAM_OWN);
        return DMA_OK;
    }
    status = signal_lines(b, DMA_STREAM_OWN);
    if (!b->early.bytes && status == DMA_OK) {
        dma_stream_stamps_put_after(&b->stamps, DMA_STREAM_OWN, b->unit->streams[DMA_STREAM_OWN]);
    }
    return status;
}

dma_status_t dma_stream_collect(dma_stream_binding_t *b, const dma_run_t *run)
{
    dma_status_t status = DMA_OK;

    if (!run->repeat || !b->collected) {
        status = dma_work_collect(&b->work, run, b->rank);
        b->collected = status == DMA_OK;
    }
    return status;
}

/* If the copy that was launched early is not this run's own block, waits until it has ended. */
static dma_status_t match_early(dma_stream_binding_t *b)
{
    const dma_own_block_t *early = &b->early, *own = &b->work.own;

    if (!early->bytes || (early->dst == own->dst && early->src == own->src && early->bytes == own->bytes)) {
        return DMA_OK;
    }
    b->early.bytes = 0;
    return b->unit->rt->stream_sync(b->unit->streams[DMA_STREAM_OWN]);
}

static void stream_copy_early(dma_gpu_binding_t *handle, uint64_t dst, uint64_t src, uint64_t bytes)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    dma_stream_unit_t *unit = b->unit;
    dma_own_block_t block = {.dst = dst, .src = src, .bytes = bytes};
    dma_gpu_scope_t scope;

    if (pthread_mutex_trylock(&unit->lock)) {
        return;
    }
    if (unit->rt->enter(unit->device, &scope) == DMA_OK) {
        if (b->stamps.rt) {
            dma_stream_stamps_choose(&b->stamps, dma_now());
        }
        dma_stream_stamps_put_before(&b->stamps, DMA_STREAM_OWN, unit->streams[DMA_STREAM_OWN]);
        if (dma_self_copy_launch_early(&b->self_copy, &block, unit->rt, unit->streams[DMA_STREAM_OWN])) {
            dma_stream_stamps_put_after(&b->stamps, DMA_STREAM_OWN, unit->streams[DMA_STREAM_OWN]);
            b->early = block;
        }
        unit->rt->leave(&scope);
    }
    pthread_mutex_unlock(&unit->lock);
}

static void stream_wait_early(dma_gpu_binding_t *handle)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    dma_stream_unit_t *unit = b->unit;
    dma_gpu_scope_t scope;

    if (b->early.bytes && unit->rt->enter(unit->device, &scope) == DMA_OK) {
        (void)unit->rt->stream_sync(unit->streams[DMA_STREAM_OWN]); /* the next run will see an error, too */
        unit->rt->leave(&scope);
        b->early.bytes = 0;
    }
}

/* An echo brings the own block to a peer and back; an exchange takes three copies, or six over links. */
void dma_stream_count_run(const dma_stream_binding_t *b)
{
    const dma_work_t *work = &b->work;
    uint64_t pushed = work->own.bytes * (b->echoed ? 2 : 1), swapped = 0;

    for (size_t i = 0; i < work->pushes.n; i++) {
        pushed += work->pushes.bytes[i];
    }
    for (size_t i = 0; i < work->swaps.n; i++) {
        swapped += work->swaps.bytes[i];
    }
    dma_gpu_count(b->unit->counters, DMA_COUNT_bytes_engines, pushed + swapped * (b->by_links ? 6 : 3));
    dma_gpu_count(b->unit->counters, DMA_COUNT_stream_echoes, b->echoed != 0);
}

static dma_status_t stream_start(dma_run_t *run)
{
    dma_stream_binding_t *b = dma_stream_binding_of(run->binding);
    dma_stream_unit_t *unit = b->unit;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (pthread_mutex_trylock(&unit->lock)) {
        return DMA_AGAIN;
    }
    status = unit->rt->enter(unit->device, &scope);
    if (status == DMA_OK) {
        b->epoch = run->epoch;
        b->progs = run->plan->nprogs;
        b->window = run->window;
        b->enqueued = false;
        status = dma_stream_collect(b, run);
        if (status == DMA_OK && (status = match_early(b)) == DMA_OK) {
            dma_stream_stamps_begin(&b->stamps, b->early.bytes != 0);
            b->probe = 0;
            status = submit(b, run);
            dma_stream_count_run(b);
            b->failed = status != DMA_OK;
            b->early.bytes = 0;
        }
        unit->rt->leave(&scope);
    }
    pthread_mutex_unlock(&unit->lock);
    return status == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
}

/* Writes the lines of streams whose event has been reached. */
static dma_status_t poll_events(dma_stream_binding_t *b)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(b->unit->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    for (int i = 0; i < DMA_STREAMS && (status == DMA_OK || status == DMA_AGAIN); i++) {
        if (b->recorded[i] && (status = rt->event_query(b->events[i])) == DMA_OK) {
            b->recorded[i] = false;
            write_lines(b, i);
        }
    }
    rt->leave(&scope);
    return status;
}

static bool pushes_ended(const dma_stream_binding_t *b)
{
    bool pushed = true;

    for (uint32_t i = 1; i < b->progs && pushed; i++) {
        pushed = i == b->own_prog || i == b->echoed || has_ended(b, i);
    }
    return pushed;
}

static bool stream_enqueued_ended(dma_gpu_binding_t *handle)
{
    const dma_stream_binding_t *b = dma_stream_binding_of(handle);

    return b->failed || pushes_ended(b);
}

/* The lines of the peers arrive at about the same time and are read one by one, so prefetch them together. */
static void prefetch_lines(const dma_stream_binding_t *b)
{
    for (int r = 0; r < b->nranks; r++) {
        __builtin_prefetch(dma_window_queue(b->window, r, 0));
    }
}

static dma_status_t stream_advance(dma_run_t *run)
{
    dma_stream_binding_t *b = dma_stream_binding_of(run->binding);
    dma_status_t status = DMA_OK;

    if (b->recorded[DMA_STREAM_PUSHES] || b->recorded[DMA_STREAM_OWN]) {
        status = poll_events(b);
    }
    if (b->self_copy.watching && b->own_prog && pushes_ended(b)) {
        dma_self_copy_observe(&b->self_copy, true, has_ended(b, b->own_prog), dma_now());
    } else if (b->self_copy.watching && b->work.swaps.n) {
        dma_self_copy_observe(&b->self_copy, true, pushes_ended(b), dma_now());
    }
    if (b->probe && pushes_ended(b)) {
        end_probe(b);
    }
    if (b->echoed && pushes_ended(b)) {
        /* release: a thread that sees the word also sees the data whose arrival the pushes' lines have shown */
        atomic_store_explicit(word_of(b, b->echoed), b->epoch, memory_order_release);
        b->echoed = 0;
    }
    prefetch_lines(b);
    return status == DMA_AGAIN ? DMA_OK : status;
}

/* The line of an echo is for this rank alone. */
static bool stream_needs_cpu(const dma_run_t *run)
{
    return dma_stream_binding_of(run->binding)->recorded[DMA_STREAM_PUSHES];
}

/* The copies of a stream are one batch: it stands for the first of their programs. */
static bool stream_stamps(dma_gpu_binding_t *handle, uint32_t prog, dma_gpu_stamp_t *stamp)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    dma_stream_which_t which = prog == b->own_prog ? DMA_STREAM_OWN : DMA_STREAM_PUSHES;
    dma_gpu_scope_t scope;
    bool known = false;

    if (!b->stamps.given[which] || pthread_mutex_trylock(&b->unit->lock)) {
        return false;
    }
    if (b->unit->rt->enter(b->unit->device, &scope) == DMA_OK) {
        known = dma_stream_stamps_read(&b->stamps, &b->unit->clock, which, stamp->ticks);
        stamp->early = which == DMA_STREAM_OWN && b->stamps.early;
        b->unit->rt->leave(&scope);
    }
    pthread_mutex_unlock(&b->unit->lock);
    return known;
}

static bool stream_moment(dma_gpu_binding_t *handle, dma_gpu_moment_t *moment)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    dma_stream_unit_t *unit = b->unit;
    dma_gpu_scope_t scope;
    bool known = false;

    if (!b->stamps.rt || b->stamps.broken || pthread_mutex_trylock(&unit->lock)) {
        return false;
    }
    if (unit->rt->enter(unit->device, &scope) == DMA_OK) {
        known = dma_stream_clock_relate(&unit->clock, unit->rt, unit->streams[DMA_STREAM_PUSHES], moment);
        unit->rt->leave(&scope);
    }
    pthread_mutex_unlock(&unit->lock);
    return known;
}

static dma_status_t stream_check(dma_gpu_binding_t *handle, const char **reason)
{
    dma_stream_binding_t *b = dma_stream_binding_of(handle);
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_status_t status;
    dma_gpu_scope_t scope;
    double t = dma_now();

    if (t - b->checked < CHECK_SECONDS) {
        return DMA_OK;
    }
    b->checked = t;
    *reason = dma_gpu_error();
    if ((status = rt->enter(b->unit->device, &scope)) != DMA_OK) {
        return status;
    }
    for (int i = 0; i < DMA_STREAMS && status == DMA_OK; i++) {
        status = rt->stream_query(b->unit->streams[i]);
        status = status == DMA_AGAIN ? DMA_OK : status;
    }
    rt->leave(&scope);
    return status;
}

const dma_gpu_engine_t dma_gpu_engine_stream = {
    .name = "stream",
    .open = dma_stream_open,
    .close = dma_stream_close,
    .traits = stream_traits,
    .bind = stream_bind,
    .unbind = stream_unbind,
    .copy_early = stream_copy_early,
    .wait_early = stream_wait_early,
    .start = stream_start,
    .enqueue = dma_stream_enqueue,
    .enqueued_ended = stream_enqueued_ended,
    .advance = stream_advance,
    .needs_cpu = stream_needs_cpu,
    .stamps = stream_stamps,
    .moment = stream_moment,
    .check = stream_check,
};
