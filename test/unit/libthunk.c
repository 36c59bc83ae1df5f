/* The thunk without a kernel: see libthunk.h. */
#include "libthunk.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GPUS     (THUNK_FIRST_NODE + 16)
#define ENGINES  16
#define QUEUES   256
#define SEGMENTS 512
#define QUIET_NS UINT64_C(120000000000) /* on a busy machine an engine needs a long time for many packets */

typedef struct segment {
    char *addr;
    uint64_t bytes;
    bool mapped, shown;
} segment_t;

typedef struct made {
    emu_sdma_queue_t *queue;
    uint64_t rptr, wptr, doorbell;
    uint64_t late_wptr, late_doorbell; /* of a late queue: the words that the engine sees instead of the real ones */
    bool late;
    int64_t error;
} made_t;

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    thunk_options_t options;
    emu_sdma_node_t *node;
    emu_sdma_engine_t *engines[GPUS][ENGINES];
    segment_t segments[SEGMENTS];
    made_t *queues[QUEUES];
    uint64_t packets[EMU_SDMA_PACKET_KINDS];
    unsigned alive, made, opened, host, xgmi, reports;
    char text[512];
    bool stopping, held, dropping;
    bool late_goes;
    bool busy; /* an engine has work */
    uint64_t rounds;
} thunk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void misuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void misuse(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "thunk: %s\n", text); /* one write: lines of several threads must not mix */
    abort();
}

/* ---- the surroundings of the executor; the caller holds the lock ---- */

static segment_t *segment_of(uint64_t va, uint64_t bytes)
{
    for (int i = 0; i < SEGMENTS; i++) {
        segment_t *s = &thunk.segments[i];
        uint64_t offset = va - (uint64_t)(uintptr_t)s->addr;

        if (s->addr && offset <= s->bytes && bytes <= s->bytes - offset) {
            return s;
        }
    }
    return NULL;
}

static char *translate(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where)
{
    const segment_t *s = segment_of(va, bytes);
    dma_gpu_memory_t m;

    (void)ctx;
    (void)gpu;
    (void)write;
    *where = (emu_sdma_where_t){.owner = EMU_SDMA_HOST, .why = EMU_SDMA_WHY_UNMAPPED};
    if (s && (s->mapped || s->shown)) {
        return (char *)(uintptr_t)va;
    }
    if (thunk.options.rt && thunk.options.rt->query(va, &m) == DMA_OK && m.size && va - m.base <= m.size &&
        bytes <= m.size - (va - m.base)) {
        where->owner = m.device < 0 || m.kind == DMA_GPU_HOST_REGISTERED ? EMU_SDMA_HOST : m.device;
        return (char *)(uintptr_t)va;
    }
    return NULL;
}

static void report(void *ctx, emu_sdma_rule_t rule, const char *text)
{
    (void)ctx;
    if (thunk.dropping) {
        return; /* the test has announced it */
    }
    thunk.reports++;
    snprintf(thunk.text, sizeof(thunk.text), "%s: %s", emu_sdma_rule_name(rule), text);
}

static void vm_fault(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why)
{
    (void)ctx;
    (void)gpu;
    (void)va;
    (void)write;
    (void)why;
}

static void trap(void *ctx, int gpu, uint32_t context)
{
    (void)ctx;
    (void)gpu;
    (void)context;
}

static void reset(void *ctx, int gpu, int engine)
{
    (void)ctx;
    (void)gpu;
    (void)engine;
}

static _Atomic uint64_t skipped_ns;

void thunk_skip_time(uint64_t ns)
{
    atomic_fetch_add(&skipped_ns, ns);
}

static uint64_t look_at_clock(void *ctx)
{
    struct timespec t;

    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + atomic_load(&skipped_ns);
}

/* A queue that died reports it to its owner, as the kernel does. */
static void tell_errors(void)
{
    for (int i = 0; i < QUEUES; i++) {
        made_t *m = thunk.queues[i];

        if (m && emu_sdma_queue_state(m->queue) == EMU_SDMA_DEAD) {
            __atomic_store_n(&m->error, 1, __ATOMIC_RELEASE);
        }
    }
}

/* When late queues may go on, this function does what their owners do for other queues. */
static void pass_on(void)
{
    for (int i = 0; i < QUEUES && thunk.late_goes; i++) {
        made_t *m = thunk.queues[i];

        if (m && m->late) {
            __atomic_store_n(&m->late_wptr, __atomic_load_n(&m->wptr, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
            __atomic_store_n(&m->late_doorbell, __atomic_load_n(&m->doorbell, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
        }
    }
}

static void step_all(void)
{
    pass_on();
    thunk.busy = false;
    for (int g = 0; g < GPUS; g++) {
        for (int e = 0; e < ENGINES; e++) {
            if (thunk.engines[g][e] && emu_sdma_engine_step(thunk.engines[g][e], 40) != EMU_SDMA_IDLE) {
                thunk.busy = true;
            }
        }
    }
    thunk.rounds++;
    tell_errors();
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&thunk.lock);
    while (!thunk.stopping) {
        if (!thunk.held) {
            step_all();
        }
        pthread_mutex_unlock(&thunk.lock);
        usleep(thunk.busy ? 0 : 20);
        pthread_mutex_lock(&thunk.lock);
    }
    pthread_mutex_unlock(&thunk.lock);
    return NULL;
}

/* ---- the table ---- */

static uint32_t thunk_open(void)
{
    pthread_mutex_lock(&thunk.lock); /* ranks are threads, and open it at once */
    thunk.opened++;
    pthread_mutex_unlock(&thunk.lock);
    return DMA_THUNK_ALREADY_OPENED;
}

static uint32_t thunk_close(void)
{
    pthread_mutex_lock(&thunk.lock);
    if (!thunk.opened--) {
        misuse("closed once too often");
    }
    pthread_mutex_unlock(&thunk.lock);
    return DMA_THUNK_SUCCESS;
}

static segment_t *add_segment(char *addr, uint64_t bytes)
{
    for (int i = 0; i < SEGMENTS; i++) {
        if (!thunk.segments[i].addr) {
            thunk.segments[i] = (segment_t){.addr = addr, .bytes = bytes};
            return &thunk.segments[i];
        }
    }
    misuse("too many allocations");
}

static uint32_t thunk_alloc(uint32_t node, uint64_t bytes, dma_thunk_flags_t flags, void **addr)
{
    const uint32_t wanted = DMA_THUNK_NON_PAGED | DMA_THUNK_HOST_ACCESS | DMA_THUNK_EXECUTE_ACCESS | DMA_THUNK_UNCACHED;

    if (node != 0 || flags.value != wanted || bytes % 4096) {
        misuse("%llu bytes of node %u with flags %#x", (unsigned long long)bytes, node, flags.value);
    }
    *addr = aligned_alloc(4096, bytes);
    memset(*addr, 0xa5, bytes);
    pthread_mutex_lock(&thunk.lock);
    add_segment(*addr, bytes);
    pthread_mutex_unlock(&thunk.lock);
    return DMA_THUNK_SUCCESS;
}

static uint32_t thunk_free(void *addr, uint64_t bytes)
{
    segment_t *s;

    pthread_mutex_lock(&thunk.lock);
    s = segment_of((uint64_t)(uintptr_t)addr, bytes);
    if (!s || s->addr != addr || s->bytes != bytes || s->mapped) {
        misuse("%p is freed with %llu bytes", addr, (unsigned long long)bytes);
    }
    s->addr = NULL;
    pthread_mutex_unlock(&thunk.lock);
    free(addr);
    return DMA_THUNK_SUCCESS;
}

static uint32_t thunk_map(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    segment_t *s;

    pthread_mutex_lock(&thunk.lock);
    s = segment_of((uint64_t)(uintptr_t)addr, bytes);
    if (!s || s->mapped) {
        misuse("%p is mapped", addr);
    }
    s->mapped = true;
    pthread_mutex_unlock(&thunk.lock);
    *device_addr = 0; /* the same on both sides */
    return DMA_THUNK_SUCCESS;
}

static uint32_t thunk_unmap(void *addr)
{
    segment_t *s;

    pthread_mutex_lock(&thunk.lock);
    s = segment_of((uint64_t)(uintptr_t)addr, 1);
    if (!s || !s->mapped) {
        misuse("%p is unmapped", addr);
    }
    s->mapped = false;
    pthread_mutex_unlock(&thunk.lock);
    return DMA_THUNK_SUCCESS;
}

/* The caller holds the lock. */
static uint32_t make_on(uint32_t node, uint32_t engine, void *ring, uint64_t bytes, dma_thunk_queue_t *queue)
{
    emu_sdma_engine_t **e = &thunk.engines[node][engine];
    emu_sdma_ring_t r;
    made_t *m;
    int id = 0;

    if (thunk.options.queues && thunk.alive >= thunk.options.queues) {
        return 1;
    }
    while (id < QUEUES && thunk.queues[id]) {
        id++;
    }
    if (!*e) {
        *e = emu_sdma_engine_create(thunk.node, (int)node, (int)engine,
                                    engine < 2 ? EMU_SDMA_HOST_FACING : EMU_SDMA_XGMI);
    }
    m = calloc(1, sizeof(*m));
    m->late = thunk.made + 1 == thunk.options.late;
    thunk.late_goes = thunk.late_goes || thunk.made + 1 == thunk.options.late_until;
    r = (emu_sdma_ring_t){.id = id,
                          .va = (uint64_t)(uintptr_t)ring,
                          .bytes = bytes,
                          .rptr = &m->rptr,
                          .wptr = m->late ? &m->late_wptr : &m->wptr,
                          .doorbell = m->late ? &m->late_doorbell : &m->doorbell};
    if (id == QUEUES || !*e || !(m->queue = emu_sdma_queue_create(*e, &r))) {
        free(m);
        return 1;
    }
    thunk.queues[id] = m;
    thunk.alive++;
    thunk.made++;
    *queue = (dma_thunk_queue_t){.id = (uint64_t)id + 1,
                                 .doorbell = &m->doorbell,
                                 .write_ptr = &m->wptr,
                                 .read_ptr = &m->rptr,
                                 .error = &m->error};
    return DMA_THUNK_SUCCESS;
}

uint32_t thunk_make(uint32_t node, dma_map_kind_t kind, uint32_t engine, void *ring, uint64_t bytes,
                    dma_thunk_queue_t *queue)
{
    uint32_t rc;

    pthread_mutex_lock(&thunk.lock);
    if (kind != DMA_MAP_ENGINE) {
        engine = kind == DMA_MAP_HOST ? thunk.host++ % 2 : 2 + thunk.xgmi++ % 14;
    }
    if (thunk.options.missing >> engine & 1) {
        misuse("a queue on engine %u, which is fused off", engine);
    }
    if (!thunk_rocr_has(node) || engine >= ENGINES) {
        misuse("a queue on engine %u of node %u", engine, node);
    }
    rc = make_on(node, engine, ring, bytes, queue);
    pthread_mutex_unlock(&thunk.lock);
    return rc;
}

static uint32_t thunk_create(uint32_t node, uint32_t type, uint32_t percent, int64_t priority, void *ring,
                             uint64_t bytes, void *event, dma_thunk_queue_t *queue)
{
    (void)event;
    if ((type != DMA_THUNK_QUEUE_SDMA && type != DMA_THUNK_QUEUE_SDMA_XGMI) || percent != 100 ||
        priority != DMA_THUNK_PRIORITY_MAXIMUM) {
        misuse("a queue of type %u, %u percent", type, percent);
    }
    return thunk_make(node, type == DMA_THUNK_QUEUE_SDMA ? DMA_MAP_HOST : DMA_MAP_XGMI, 0, ring, bytes, queue);
}

static uint32_t thunk_destroy(uint64_t id)
{
    made_t *m;

    pthread_mutex_lock(&thunk.lock);
    if (id < 1 || id > QUEUES || !(m = thunk.queues[id - 1])) {
        misuse("there is no queue %llu", (unsigned long long)id);
    }
    for (int kind = 0; kind < EMU_SDMA_PACKET_KINDS; kind++) {
        thunk.packets[kind] += emu_sdma_queue_stats(m->queue)->packets[kind];
    }
    emu_sdma_queue_destroy(m->queue);
    thunk.queues[id - 1] = NULL;
    thunk.alive--;
    pthread_mutex_unlock(&thunk.lock);
    free(m);
    return DMA_THUNK_SUCCESS;
}

dma_status_t thunk_table(dma_thunk_t *t)
{
    *t = (dma_thunk_t){.open = thunk_open,
                       .close = thunk_close,
                       .alloc = thunk_alloc,
                       .free = thunk_free,
                       .map = thunk_map,
                       .unmap = thunk_unmap,
                       .create_queue = thunk_create,
                       .destroy_queue = thunk_destroy};
    return DMA_OK;
}

dma_status_t __wrap_dma_thunk_find(dma_thunk_t *t, const char **reason);
dma_status_t __wrap_dma_thunk_find(dma_thunk_t *t, const char **reason)
{
    if (thunk.options.absent) {
        *reason = "there is none";
        return DMA_UNSUPPORTED;
    }
    return thunk_table(t);
}

bool thunk_is_old(void)
{
    return thunk.options.old || thunk.options.absent;
}

extern const dma_provider_ops_t *const __wrap_dma_providers[];
const dma_provider_ops_t *const __wrap_dma_providers[] = {&thunk_named, &dma_provider_thunk, NULL};

/* ---- for tests ---- */

void thunk_begin(const thunk_options_t *options)
{
    emu_sdma_config_t config = emu_sdma_config(options->gen, options->seed);
    emu_sdma_env_t env = {&thunk, translate, report, vm_fault, trap, reset, look_at_clock, NULL, NULL};

    config.fault_packet = options->fault_packet;
    config.early_polls = options->early_polls;
    config.spoil_kinds = options->spoil_kinds;
    thunk.options = *options;
    thunk_rocr_begin(options->topo);
    thunk.node = emu_sdma_node_create(&config, &env);
    memset(thunk.engines, 0, sizeof(thunk.engines));
    memset(thunk.segments, 0, sizeof(thunk.segments));
    memset(thunk.packets, 0, sizeof(thunk.packets));
    thunk.made = thunk.host = thunk.xgmi = thunk.reports = 0;
    thunk.text[0] = '\0';
    thunk.stopping = thunk.held = thunk.late_goes = false;
    pthread_create(&thunk.thread, NULL, run, NULL);
}

static void drop_left(made_t *m)
{
    if (m->rptr == m->wptr) {
        misuse("a queue is left that has come to its end");
    }
    thunk.alive--;
    thunk.dropping = true;
    emu_sdma_queue_destroy(m->queue);
    thunk.dropping = false;
    free(m);
}

void thunk_end(void)
{
    pthread_mutex_lock(&thunk.lock);
    thunk.stopping = true;
    pthread_mutex_unlock(&thunk.lock);
    pthread_join(thunk.thread, NULL);
    for (int i = 0; i < QUEUES && thunk.options.left; i++) {
        if (thunk.queues[i]) {
            drop_left(thunk.queues[i]);
            thunk.queues[i] = NULL;
        }
    }
    for (int i = 0; i < SEGMENTS; i++) {
        segment_t *s = &thunk.segments[i];

        if (s->addr && !s->shown && !thunk.options.left) {
            misuse("%llu bytes are left", (unsigned long long)s->bytes);
        }
        if (!s->shown) {
            free(s->addr);
        }
    }
    if (thunk.options.left) {
        thunk.opened = 0; /* the file stays open for the ranks */
    }
    if (thunk.alive || thunk.opened) {
        misuse("%u queues are left, opened %u times", thunk.alive, thunk.opened);
    }
    emu_sdma_node_destroy(thunk.node);
}

void thunk_show(const void *addr, uint64_t bytes)
{
    pthread_mutex_lock(&thunk.lock);
    add_segment((char *)(uintptr_t)addr, bytes)->shown = true;
    pthread_mutex_unlock(&thunk.lock);
}

void thunk_hold(bool hold)
{
    pthread_mutex_lock(&thunk.lock);
    thunk.held = hold;
    pthread_mutex_unlock(&thunk.lock);
}

void thunk_lose(const char *text, uint64_t late_ns)
{
    emu_lose_rules_t rules;

    if (!emu_lose_read(text, &rules)) {
        abort();
    }
    rules.late_ns = late_ns;
    pthread_mutex_lock(&thunk.lock);
    emu_sdma_node_lose(thunk.node, &rules);
    pthread_mutex_unlock(&thunk.lock);
}

void thunk_late_goes(void)
{
    pthread_mutex_lock(&thunk.lock);
    thunk.late_goes = true;
    pthread_mutex_unlock(&thunk.lock);
}

bool thunk_quiet(void)
{
    uint64_t until = look_at_clock(NULL) + QUIET_NS, from;
    bool quiet = false;

    pthread_mutex_lock(&thunk.lock);
    from = thunk.rounds;
    while (!quiet && look_at_clock(NULL) < until) {
        pthread_mutex_unlock(&thunk.lock);
        usleep(50);
        pthread_mutex_lock(&thunk.lock);
        quiet = !thunk.busy && thunk.rounds > from + 1;
    }
    pthread_mutex_unlock(&thunk.lock);
    return quiet;
}

unsigned thunk_reports(void)
{
    unsigned n;

    pthread_mutex_lock(&thunk.lock);
    n = thunk.reports;
    pthread_mutex_unlock(&thunk.lock);
    return n;
}

const char *thunk_report(void)
{
    return thunk.text;
}

unsigned thunk_queues(void)
{
    return thunk.made;
}

uint64_t thunk_packets(emu_sdma_packet_kind_t kind)
{
    return thunk.packets[kind];
}
