/* The engine of threads: see libengine.h. */
#include "libengine.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/window.h"

#define MAX_OPS 16

/* A copy, or an exchange, with the number of bytes that are done. */
typedef struct move {
    uint8_t code;
    char *dst[2], *src;
    uint64_t bytes, done;
} move_t;

/* A program of a run, as the worker sees it. */
typedef struct work {
    struct work *next;
    struct thread_binding *binding;
    move_t moves[MAX_OPS];
    uint32_t index, nmoves;
    _Atomic uint32_t *line;
    uint32_t epoch;
    const _Atomic uint32_t *trigger; /* armed: what it waits for; else NULL */
} work_t;

typedef struct thread_unit {
    int device;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work_t *list, *spare;
    unsigned nworks, nbound;
    bool closing;
    uint64_t rng;
} thread_unit_t;

#define KNOWN(epoch) (UINT64_C(1) << 32 | (epoch)) /* where 0 says that there is none */

typedef struct thread_binding {
    thread_unit_t *unit;
    int rank, nranks;
    dma_engine_line_t *lines;
    char *trigger;        /* the line; NULL: must not arm */
    const dma_run_t *run; /* being submitted */
    uint32_t epoch, put;  /* its programs that are in the unit */
    uint64_t last;        /* KNOWN: the last run that has started */
    uint64_t armed[2];    /* KNOWN, by epoch % 2 */
    const struct dma_window *window;
    unsigned live;          /* programs under way */
    unsigned live_of[2];    /* the same by epoch % 2 */
    engine_likeness_t like; /* of the last run */
} thread_binding_t;

static struct {
    pthread_mutex_t lock;
    engine_options_t options;
    unsigned refuse[ENGINE_FUNCTIONS][ENGINE_DEVICES], calls[ENGINE_FUNCTIONS];
    _Atomic bool broken[ENGINE_DEVICES], held[ENGINE_DEVICES];
    _Atomic unsigned units, bounds, armed, given_up, swaps, pairs, repeats;
} machine = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noreturn, format(printf, 1, 2))) static void misuse(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "fake engine: %s\n", text); /* one write: lines of several threads must not mix */
    abort();
}

static bool refused(engine_function_t function, int device)
{
    bool refuse;

    pthread_mutex_lock(&machine.lock);
    machine.calls[function]++;
    refuse = machine.refuse[function][device] > 0;
    machine.refuse[function][device] -= refuse;
    pthread_mutex_unlock(&machine.lock);
    return refuse;
}

static uint32_t draw(thread_unit_t *unit, uint32_t below)
{
    uint64_t x = unit->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    unit->rng = x;
    return below ? (uint32_t)((x >> 32) * below >> 32) : 0;
}

/* ---- the worker ---- */

static void swap_bytes(char *a, char *b, size_t n)
{
    char hold[512];

    for (size_t k; n; n -= k, a += k, b += k) {
        k = n < sizeof(hold) ? n : sizeof(hold);
        memcpy(hold, a, k);
        memcpy(a, b, k);
        memcpy(b, hold, k);
    }
}

/* Moves one piece of one of the copies that are left. */
static void move_piece(thread_unit_t *unit, work_t *w)
{
    unsigned at = draw(unit, w->nmoves);
    move_t *m = &w->moves[at];
    uint64_t left = m->bytes - m->done, n = 1 + draw(unit, left < 20000 ? (uint32_t)left : 20000);

    n = n < left ? n : left;
    if (m->code == DMA_OP_SWAP) {
        swap_bytes(m->dst[0] + m->done, m->src + m->done, n);
    } else {
        memcpy(m->dst[0] + m->done, m->src + m->done, n);
        if (m->code == DMA_OP_COPY2) {
            memcpy(m->dst[1] + m->done, m->src + m->done, n);
        }
    }
    m->done += n;
    if (m->done == m->bytes) {
        *m = w->moves[--w->nmoves];
    }
}

/* The caller holds the lock. */
static void drop(thread_unit_t *unit, work_t *w)
{
    work_t **link = &unit->list;

    while (*link != w) {
        link = &(*link)->next;
    }
    *link = w->next;
    unit->nworks--;
    w->binding->live--;
    w->binding->live_of[w->epoch % 2]--;
    w->next = unit->spare;
    unit->spare = w;
    pthread_cond_broadcast(&unit->changed);
}

/* The caller holds the lock. May an armed program go on? Also false when the program was removed. */
static bool may_run(thread_unit_t *unit, work_t *w)
{
    uint32_t go = dma_trigger_go(w->epoch);
    uint32_t word = w->trigger ? atomic_load_explicit(w->trigger, memory_order_acquire) : go;

    if ((word & dma_trigger_mask()) == go && word != go) {
        drop(unit, w); /* revoked */
    } else if (word == go) {
        w->trigger = NULL;
    }
    return word == go;
}

static work_t *pick(thread_unit_t *unit)
{
    work_t *w = unit->list;

    for (uint32_t i = draw(unit, unit->nworks); i; i--) {
        w = w->next;
    }
    return w;
}

static void end_line(work_t *w)
{
    if (atomic_load_explicit(w->line, memory_order_relaxed) == w->epoch) {
        misuse("line %u is written twice with %u", w->index - 1, w->epoch);
    }
    /* release: what was copied is visible before the line */
    atomic_store_explicit(w->line, w->epoch, memory_order_release);
}

static void *work(void *arg)
{
    thread_unit_t *unit = arg;

    pthread_mutex_lock(&unit->lock);
    for (;;) {
        work_t *w;

        while (!unit->list && !unit->closing) {
            pthread_cond_wait(&unit->changed, &unit->lock);
        }
        if (unit->closing) {
            break;
        }
        w = pick(unit);
        if (!machine.held[unit->device] && !machine.broken[unit->device] && may_run(unit, w)) {
            if (w->nmoves) {
                move_piece(unit, w);
            }
            if (!w->nmoves) {
                end_line(w);
                drop(unit, w);
            }
        }
        pthread_mutex_unlock(&unit->lock);
        if (machine.options.late_us) {
            usleep(draw(unit, machine.options.late_us + 1));
        } else {
            sched_yield();
        }
        pthread_mutex_lock(&unit->lock);
    }
    pthread_mutex_unlock(&unit->lock);
    return NULL;
}

/* ---- the table ---- */

static dma_status_t engine_open(const dma_gpu_config_t *config, dma_gpu_unit_t **result, char *why)
{
    thread_unit_t *unit;

    if (refused(ENGINE_OPEN, config->device)) {
        snprintf(why, DMA_GPU_WHY_BYTES, "refused to open");
        return DMA_UNSUPPORTED;
    }
    unit = calloc(1, sizeof(*unit));
    unit->device = config->device;
    unit->rng = (machine.options.seed * 31 + (uint64_t)config->device) * 77 + 1;
    pthread_mutex_init(&unit->lock, NULL);
    pthread_cond_init(&unit->changed, NULL);
    pthread_create(&unit->worker, NULL, work, unit);
    machine.units++;
    *result = (dma_gpu_unit_t *)unit;
    return DMA_OK;
}

static void engine_close(dma_gpu_unit_t *handle)
{
    thread_unit_t *unit = (thread_unit_t *)handle;
    work_t *spare;

    if (unit->nbound || unit->list) {
        misuse("device %d is closed with %u bound and %u programs", unit->device, unit->nbound, unit->nworks);
    }
    pthread_mutex_lock(&unit->lock);
    unit->closing = true;
    pthread_cond_broadcast(&unit->changed);
    pthread_mutex_unlock(&unit->lock);
    pthread_join(unit->worker, NULL);
    pthread_mutex_destroy(&unit->lock);
    pthread_cond_destroy(&unit->changed);
    while ((spare = unit->spare)) {
        unit->spare = spare->next;
        free(spare);
    }
    free(unit);
    machine.units--;
}

static void engine_traits(const dma_gpu_unit_t *handle, dma_gpu_traits_t *traits)
{
    *traits = (dma_gpu_traits_t){.node = (uint32_t)((const thread_unit_t *)handle)->device,
                                 .features = machine.options.features,
                                 .max_ways = machine.options.max_ways};
}

static dma_status_t engine_bind(dma_gpu_unit_t *handle, const dma_gpu_bind_params_t *job, dma_gpu_binding_t **result,
                                char *why)
{
    thread_unit_t *unit = (thread_unit_t *)handle;
    thread_binding_t *b;

    if (refused(ENGINE_BIND, unit->device)) {
        snprintf(why, DMA_GPU_WHY_BYTES, "refused to bind");
        return DMA_UNSUPPORTED;
    }
    if (job->nranks > ENGINE_PEERS) {
        misuse("%d ranks", job->nranks);
    }
    for (int r = 0; r < job->nranks; r++) {
        if (job->traits[r].max_ways != machine.options.max_ways) {
            misuse("the traits of rank %d are not known", r);
        }
    }
    b = calloc(1, sizeof(*b));
    *b = (thread_binding_t){.unit = unit,
                            .rank = job->rank,
                            .nranks = job->nranks,
                            .lines = (dma_engine_line_t *)(uintptr_t)job->lines,
                            .trigger = (char *)(uintptr_t)job->trigger};
    pthread_mutex_lock(&unit->lock);
    unit->nbound++;
    pthread_mutex_unlock(&unit->lock);
    machine.bounds++;
    *result = (dma_gpu_binding_t *)b;
    return DMA_OK;
}

/* The caller holds the lock. Removes programs that will never begin because a peer is gone, and those of a broken device. */
static void drop_hopeless(thread_binding_t *b)
{
    work_t *next;

    for (work_t *w = b->unit->list; w; w = next) {
        next = w->next;
        if (w->binding == b && (w->trigger || machine.broken[b->unit->device])) {
            drop(b->unit, w);
        }
    }
}

static bool engine_unbind(dma_gpu_binding_t *handle)
{
    thread_binding_t *b = (thread_binding_t *)handle;
    thread_unit_t *unit = b->unit;

    pthread_mutex_lock(&unit->lock);
    drop_hopeless(b);
    while (b->live) {
        if (machine.held[unit->device]) {
            misuse("device %d is unbound while the test holds its programs", unit->device);
        }
        pthread_cond_wait(&unit->changed, &unit->lock);
    }
    unit->nbound--;
    pthread_mutex_unlock(&unit->lock);
    free(b);
    machine.bounds--;
    return true;
}

static char *place_of(const dma_run_t *run, const dma_operand_t *o, uint64_t skip)
{
    if (o->base == DMA_BASE_SEND) {
        return dma_blocks_addr(&run->send, (uint64_t)o->block) + o->offset + skip;
    }
    return (char *)(uintptr_t)dma_target_addr(&run->targets[o->rank], (uint64_t)o->block) + o->offset + skip;
}

static void add_move(work_t *w, const dma_run_t *run, const dma_op_t *op)
{
    uint64_t skip, bytes = dma_run_length(run, &op->len, &skip);
    move_t m = {.code = op->code, .bytes = bytes};

    if (op->code == DMA_OP_SWAP) {
        machine.swaps++;
    }
    if (op->code == DMA_OP_COPY2) {
        machine.pairs++;
    }
    if (!bytes) {
        return;
    }
    m.src = place_of(run, &op->src, skip);
    m.dst[0] = place_of(run, &op->dst[0], skip);
    m.dst[1] = op->code == DMA_OP_COPY2 ? place_of(run, &op->dst[1], skip) : NULL;
    w->moves[w->nmoves++] = m;
}

/* The caller holds the lock. */
static void put(thread_binding_t *b, const dma_run_t *run, uint32_t index, bool armed)
{
    const dma_prog_t *prog = &run->plan->progs[index];
    work_t *w = b->unit->spare;

    if (w) {
        b->unit->spare = w->next;
    } else {
        w = malloc(sizeof(*w));
    }
    if (prog->nops > MAX_OPS) {
        misuse("a program of %u operations", prog->nops);
    }
    *w = (work_t){.next = b->unit->list, .binding = b, .index = index, .epoch = run->epoch};
    w->line = &b->lines[index - 1].word;
    if (w->line != &dma_window_queue(run->window, b->rank, (int)index - 1)->word) {
        misuse("line %u is elsewhere", index - 1);
    }
    w->trigger = armed ? (void *)(b->trigger + dma_window_trigger_offset(run->epoch)) : NULL;
    if (w->trigger && w->trigger != dma_window_trigger(run->window, b->rank, run->epoch)) {
        misuse("the trigger is elsewhere");
    }
    for (uint32_t i = 0; i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];

        if (op->code != DMA_OP_WAIT && op->code != DMA_OP_SIGNAL) {
            add_move(w, run, op);
        }
    }
    b->unit->list = w;
    b->unit->nworks++;
    b->live++;
    b->live_of[run->epoch % 2]++;
    pthread_cond_broadcast(&b->unit->changed);
}

/* Behind an armed run another one may be armed. */
static void want_new(const thread_binding_t *b, const dma_run_t *run)
{
    if ((b->live && b->armed[b->last % 2] != b->last) || (b->last && (int32_t)(run->epoch - (uint32_t)b->last) <= 0)) {
        misuse("run %u while %u programs of run %u are under way", run->epoch, b->live, (uint32_t)b->last);
    }
}

/* Checks what the caller says to be equal to the last run. */
static void want_same(thread_binding_t *b, const dma_run_t *run)
{
    engine_likeness_t now = engine_likeness(run, b->nranks);
    if (run->repeat && memcmp(&now, &b->like, sizeof(now))) {
        misuse("run %u is not like run %u", run->epoch, (uint32_t)b->last);
    }
    machine.repeats += run->repeat;
    b->like = now;
}

static dma_status_t engine_start(dma_run_t *run)
{
    thread_binding_t *b = (thread_binding_t *)run->binding;
    dma_status_t status = DMA_AGAIN;

    if (b->armed[run->epoch % 2] == KNOWN(run->epoch)) {
        b->last = KNOWN(run->epoch);
        return DMA_OK;
    }
    if (refused(ENGINE_START, b->unit->device)) {
        return DMA_ERR_ENGINE;
    }
    pthread_mutex_lock(&b->unit->lock);
    if (b->run != run || b->epoch != run->epoch) {
        want_new(b, run);
        want_same(b, run);
        b->run = run;
        b->epoch = run->epoch;
        b->put = 1;
    }
    while (b->put < run->plan->nprogs) {
        put(b, run, b->put++, false);
        if (machine.options.again) {
            break;
        }
    }
    if (b->put == run->plan->nprogs) {
        status = DMA_OK;
        b->last = KNOWN(run->epoch);
    }
    pthread_mutex_unlock(&b->unit->lock);
    return status;
}

static dma_status_t engine_arm(const dma_run_t *run, uint64_t *bytes)
{
    thread_binding_t *b = (thread_binding_t *)run->binding;

    if (!b->trigger) {
        misuse("armed without a trigger");
    }
    if (refused(ENGINE_ARM, b->unit->device)) {
        return DMA_UNSUPPORTED;
    }
    pthread_mutex_lock(&b->unit->lock);
    want_new(b, run);
    want_same(b, run);
    *bytes = 0; /* nobody counts what threads copy */
    b->window = run->window;
    dma_trigger_prepare(dma_window_trigger(run->window, b->rank, run->epoch), run->epoch);
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        put(b, run, i, true);
    }
    b->armed[run->epoch % 2] = KNOWN(run->epoch);
    pthread_mutex_unlock(&b->unit->lock);
    machine.armed++;
    return DMA_OK;
}

static void engine_disarm(dma_gpu_binding_t *handle)
{
    thread_binding_t *b = (thread_binding_t *)handle;

    pthread_mutex_lock(&b->unit->lock);
    for (int parity = 0; parity < 2; parity++) {
        uint32_t epoch = (uint32_t)b->armed[parity];
        _Atomic uint32_t *trigger = b->armed[parity] ? dma_window_trigger(b->window, b->rank, epoch) : NULL;

        if (!trigger || !dma_trigger_claim(trigger, epoch)) {
            continue;
        }
        dma_trigger_revoke(trigger, epoch);
        while (b->live_of[parity] && !machine.held[b->unit->device] && !machine.broken[b->unit->device]) {
            pthread_cond_wait(&b->unit->changed, &b->unit->lock);
        }
        b->armed[parity] = 0;
        machine.given_up++;
    }
    pthread_mutex_unlock(&b->unit->lock);
}

static dma_status_t engine_check(dma_gpu_binding_t *handle, const char **reason)
{
    *reason = "it is broken";
    return machine.broken[((thread_binding_t *)handle)->unit->device] ? DMA_ERR_ENGINE : DMA_OK;
}

static const dma_gpu_engine_t engine = {.name = "threads",
                                        .open = engine_open,
                                        .close = engine_close,
                                        .traits = engine_traits,
                                        .bind = engine_bind,
                                        .unbind = engine_unbind,
                                        .start = engine_start,
                                        .arm = engine_arm,
                                        .disarm = engine_disarm,
                                        .check = engine_check};

const dma_gpu_engine_t *const engine_list[] = {&engine, NULL};

/* ---- for tests ---- */

void engine_begin(const engine_options_t *options)
{
    pthread_mutex_lock(&machine.lock);
    machine.options = *options;
    memset(machine.refuse, 0, sizeof(machine.refuse));
    memset(machine.calls, 0, sizeof(machine.calls));
    pthread_mutex_unlock(&machine.lock);
    for (int i = 0; i < ENGINE_DEVICES; i++) {
        machine.broken[i] = machine.held[i] = false;
    }
    machine.armed = machine.given_up = machine.swaps = machine.pairs = machine.repeats = 0;
}

void engine_end(void)
{
    if (machine.units || machine.bounds) {
        misuse("%u units and %u bound engines are left", machine.units, machine.bounds);
    }
}

void engine_refuse(engine_function_t function, int device, unsigned times)
{
    pthread_mutex_lock(&machine.lock);
    machine.refuse[function][device] = times;
    pthread_mutex_unlock(&machine.lock);
}

void engine_break(int device)
{
    machine.broken[device] = true;
}

void engine_hold(int device, bool hold)
{
    machine.held[device] = hold;
}

unsigned engine_calls(engine_function_t function)
{
    unsigned calls;

    pthread_mutex_lock(&machine.lock);
    calls = machine.calls[function];
    pthread_mutex_unlock(&machine.lock);
    return calls;
}

unsigned engine_armed(void)
{
    return machine.armed;
}

unsigned engine_given_up(void)
{
    return machine.given_up;
}

unsigned engine_swaps(void)
{
    return machine.swaps;
}

unsigned engine_pairs(void)
{
    return machine.pairs;
}

unsigned engine_repeats(void)
{
    return machine.repeats;
}
