/*
 * The engines of the machine of libkfd_fake.h: the SDMA executor of the emulated node. It varies what the hardware leaves open,
 * and reports what the hardware forbids. Engine addresses are host addresses.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "libkfd_fake_internal.h"

#define GPUS     16
#define ENGINES  16
#define SHOWN    64
#define PATIENCE 10000                  /* steps of engines that wait */
#define QUIET_NS UINT64_C(120000000000) /* on a busy machine an engine needs a long time for many packets */

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    emu_sdma_node_t *node;
    emu_sdma_engine_t *engines[GPUS][ENGINES];
    struct {
        uint64_t at, bytes;
    } shown[SHOWN];
    unsigned nshown;
    uint64_t packets[EMU_SDMA_PACKET_KINDS];
    uint64_t now; /* of a machine that does not run */
    unsigned broken;
    char text[512];
    bool stopping, held, dropping;
    bool busy; /* an engine has work */
    uint64_t rounds;
} node;

static _Atomic uint64_t skipped_ns;

void fake_lock(void)
{
    pthread_mutex_lock(&node.lock);
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&node.lock);
}

/* ---- the surroundings of the executor, with the lock ---- */

static bool is_shown(uint64_t at, uint64_t bytes)
{
    for (unsigned i = 0; i < node.nshown; i++) {
        if (at >= node.shown[i].at && at - node.shown[i].at <= node.shown[i].bytes &&
            bytes <= node.shown[i].bytes - (at - node.shown[i].at)) {
            return true;
        }
    }
    return false;
}

static char *translate(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where)
{
    const dma_gpu_runtime_t *rt = fake_options.rt;
    dma_gpu_memory_t m;

    (void)ctx;
    (void)gpu;
    (void)write;
    *where = (emu_sdma_where_t){.owner = EMU_SDMA_HOST, .why = EMU_SDMA_WHY_UNMAPPED};
    if (fake_memory_mapped(va, bytes) || fake_ring_mapped(va, bytes) || is_shown(va, bytes)) {
        return (char *)(uintptr_t)va;
    }
    if (rt && rt->query(va, &m) == DMA_OK && m.size && va - m.base <= m.size && bytes <= m.size - (va - m.base)) {
        where->owner = m.device < 0 || m.kind == DMA_GPU_HOST_REGISTERED ? EMU_SDMA_HOST : m.device;
        return (char *)(uintptr_t)va;
    }
    return NULL;
}

static void report(void *ctx, emu_sdma_rule_t rule, const char *text)
{
    (void)ctx;
    if (node.dropping) {
        return; /* the test has announced it */
    }
    ck_assert_msg(fake_options.running, "%s", text);
    node.broken++;
    snprintf(node.text, sizeof(node.text), "%s: %s", emu_sdma_rule_name(rule), text);
}

static void vm_fault(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why)
{
    (void)ctx;
    (void)gpu;
    (void)write;
    (void)why;
    ck_assert_msg(fake_options.running, "fault at %#llx", (unsigned long long)va);
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

static uint64_t look_at_clock(void *ctx)
{
    struct timespec t;

    (void)ctx;
    if (!fake_options.running) {
        return node.now += 100;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + atomic_load(&skipped_ns);
}

/* ---- running ---- */

/* One turn of each engine. False: none has work. */
static bool step_all(unsigned budget)
{
    bool busy = false;

    for (int g = 0; g < GPUS; g++) {
        for (int e = 0; e < ENGINES; e++) {
            emu_sdma_state_t state =
                node.engines[g][e] ? emu_sdma_engine_step(node.engines[g][e], budget) : EMU_SDMA_IDLE;

            busy |= fake_options.running ? state != EMU_SDMA_IDLE
                                         : state == EMU_SDMA_PROGRESSED || state == EMU_SDMA_BLOCKED;
        }
    }
    return busy;
}

void fake_run(void)
{
    for (unsigned step = 0; step < PATIENCE && step_all(8); step++) {
    }
}

static void *run(void *arg)
{
    (void)arg;
    fake_lock();
    while (!node.stopping) {
        if (!node.held) {
            fake_late_pass();
            node.busy = step_all(40);
            node.rounds++;
        }
        fake_unlock();
        usleep(node.busy ? 0 : 20);
        fake_lock();
    }
    fake_unlock();
    return NULL;
}

void fake_engines_begin(void)
{
    const emu_sdma_env_t env = {NULL, translate, report, vm_fault, trap, reset, look_at_clock, NULL, NULL};
    const fake_options_t *o = &fake_options;
    emu_sdma_config_t config = emu_sdma_config(o->running ? o->gen : EMU_SDMA_GFX942, o->running ? o->seed : 1);
    pthread_mutexattr_t recursive; /* ROCr calls the kernel */

    memset(&node, 0, sizeof(node));
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&node.lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    config.fault_packet = o->fault_packet;
    config.early_polls = o->early_polls;
    config.spoil_kinds = o->spoil_kinds;
    node.node = emu_sdma_node_create(&config, &env);
    ck_assert_ptr_nonnull(node.node);
}

void fake_engines_start(void)
{
    if (fake_options.running) {
        pthread_create(&node.thread, NULL, run, NULL);
    }
}

void fake_engines_stop(void)
{
    if (fake_options.running) {
        fake_lock();
        node.stopping = true;
        fake_unlock();
        pthread_join(node.thread, NULL);
    }
}

void fake_engines_end(void)
{
    emu_sdma_node_destroy(node.node);
    pthread_mutex_destroy(&node.lock);
}

emu_sdma_queue_t *fake_engine_queue(int gpu, unsigned engine, bool link, const emu_sdma_ring_t *ring)
{
    emu_sdma_engine_t **e = &node.engines[gpu][engine];

    ck_assert_int_lt(gpu, GPUS);
    ck_assert_uint_lt(engine, ENGINES);
    ck_assert_msg(!(fake_options.missing >> engine & 1), "a queue on engine %u, which is fused off", engine);
    if (!*e) {
        *e = emu_sdma_engine_create(node.node, gpu, (int)engine, link ? EMU_SDMA_XGMI : EMU_SDMA_HOST_FACING);
    }
    ck_assert_ptr_nonnull(*e);
    return emu_sdma_queue_create(*e, ring);
}

void fake_engine_drop(emu_sdma_queue_t *queue, bool left)
{
    for (int kind = 0; kind < EMU_SDMA_PACKET_KINDS; kind++) {
        node.packets[kind] += emu_sdma_queue_stats(queue)->packets[kind];
    }
    node.dropping = left;
    emu_sdma_queue_destroy(queue);
    node.dropping = false;
}

/* ---- for tests ---- */

void fake_show(const void *at, uint64_t bytes)
{
    fake_lock();
    ck_assert_uint_lt(node.nshown, SHOWN);
    node.shown[node.nshown].at = (uintptr_t)at;
    node.shown[node.nshown++].bytes = bytes;
    fake_unlock();
}

void fake_hold(bool hold)
{
    fake_lock();
    node.held = hold;
    fake_unlock();
}

void fake_lose(const char *text, uint64_t late_ns)
{
    emu_lose_rules_t rules;

    ck_assert(emu_lose_read(text, &rules));
    rules.late_ns = late_ns;
    fake_lock();
    emu_sdma_node_lose(node.node, &rules);
    fake_unlock();
}

void fake_skip_time(uint64_t ns)
{
    atomic_fetch_add(&skipped_ns, ns);
}

bool fake_quiet(void)
{
    uint64_t until = look_at_clock(NULL) + QUIET_NS, from;
    bool quiet = false;

    fake_lock();
    from = node.rounds;
    while (!quiet && look_at_clock(NULL) < until) {
        fake_unlock();
        usleep(50);
        fake_lock();
        quiet = !node.busy && node.rounds > from + 1;
    }
    fake_unlock();
    return quiet;
}

unsigned fake_broken(void)
{
    unsigned n;

    fake_lock();
    n = node.broken;
    fake_unlock();
    return n;
}

const char *fake_broken_text(void)
{
    return node.text;
}

uint64_t fake_packets(emu_sdma_packet_kind_t kind)
{
    return node.packets[kind];
}
