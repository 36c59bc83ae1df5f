/* Engines, queues and their thread; see machine.h. */
#include "machine.h"

#include "clock.h"
#include "config.h"
#include "event.h"
#include "evict.h"
#include "exports.h"
#include "fault.h"
#include "persona.h"
#include "process.h"
#include "report.h"
#include "slots.h"
#include "vm.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    ENGINES = 16,
    ENGINE_BUDGET = 32, /* pieces and packets of an engine per step */
    AQL_BUDGET = 16,    /* packets of a compute queue per step */
    SPINS = 20,         /* rounds without progress before the thread sleeps */
    NAP_NS = 1000,      /* at first, then a little longer each time, so that the sleep is a small part of the wait */
    NAP_GROWTH = 16,
    WAITING_NAP_NS = 500 * 1000, /* the longest sleep while a queue waits for memory */
    IDLE_NAP_NS = 1000 * 1000,   /* the longest sleep while no queue has work */
    PATH = 4096,
};

static struct {
    pthread_mutex_t lock;
    atomic_int wanted; /* callers that wait for the lock, which the thread then leaves to them */
    bool started;
    emu_sdma_node_t *node;
    emu_sdma_engine_t *engines[EMU_MAX_GPUS][ENGINES];
    struct emu_queue *queues;
    char *past; /* statistics of destroyed queues */
    size_t past_bytes;
    bool injected;           /* the next fault is injected */
    bool dead[EMU_MAX_GPUS]; /* EMU_HANGS_STAY: a packet has hung there */
    struct emu_evict evict;
} machine = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* For emu_settle: a caller gets a number, and waits until the thread has finished a round that began later and found nothing to
 * do. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t asked_of, answered_to;
    unsigned asked, answered;
} look = {.lock = PTHREAD_MUTEX_INITIALIZER};

void emu_machine_lock(void)
{
    atomic_fetch_add(&machine.wanted, 1);
    pthread_mutex_lock(&machine.lock);
    atomic_fetch_sub(&machine.wanted, 1);
}

void emu_machine_unlock(void)
{
    pthread_mutex_unlock(&machine.lock);
}

/* ---- the environment of the engines: called in steps, with both locks held ---- */

static char *env_translate(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where)
{
    (void)ctx;
    const char *why;
    char *at = emu_vm_translate(emu_node_of(gpu), va, bytes, write, &why);
    if (!at) {
        emu_note("GPU %d cannot reach %llu bytes at %#llx: %s", gpu, (unsigned long long)bytes, (unsigned long long)va,
                 why);
        const struct emu_range *range = emu_vm_find(va);
        where->why = write && range && range->read_only ? EMU_SDMA_WHY_READ_ONLY : EMU_SDMA_WHY_UNMAPPED;
        return NULL;
    }
    uint32_t node = emu_vm_find(va)->node;
    where->owner = node == 0 ? EMU_SDMA_HOST : emu_gpu_of(node);
    return at;
}

/* Reports a broken rule, and raises a fault that ends the process. For an invalid address, env_fault is called next and raises
 * it. */
static void env_report(void *ctx, emu_sdma_rule_t rule, const char *text)
{
    (void)ctx;
    machine.injected = rule == EMU_SDMA_INJECTED;
    if (machine.injected)
        emu_note("%s: %s", emu_sdma_rule_name(rule), text);
    else
        emu_report(emu_sdma_rule_name(rule), "%s", text);
    if (!machine.injected && rule != EMU_SDMA_UNMAPPED && rule != EMU_SDMA_READ_ONLY && emu_config()->strict)
        emu_fault_raise(1, 0, false);
}

static void env_fault(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why)
{
    (void)ctx;
    (void)write;
    bool injected = machine.injected;
    machine.injected = false;
    if (injected)
        emu_event_raise_fault(emu_node_of(gpu), va, why == EMU_SDMA_WHY_READ_ONLY);
    else
        emu_fault_raise(emu_node_of(gpu), va, why == EMU_SDMA_WHY_READ_ONLY);
}

static void env_trap(void *ctx, int gpu, uint32_t context)
{
    (void)ctx;
    emu_event_interrupt(gpu, context);
}

static void env_lost(void *ctx, int gpu, emu_lose_how_t how, emu_lose_what_t what)
{
    (void)ctx;
    emu_note("injected on GPU %d: %s %s", gpu, emu_lose_how_word(how), emu_lose_word(what));
}

static void env_reset(void *ctx, int gpu, int engine)
{
    (void)ctx;
    emu_note("engine %d of GPU %d was reset", engine, gpu);
    emu_event_raise_reset();
}

/* The name of the file by which all processes of the node know that the GPU is dead. */
static bool dead_path(int gpu, char path[PATH])
{
    const struct emu_config *config = emu_config();
    return config->hangs_stay && config->node_dir &&
           snprintf(path, PATH, "%s/dead-gpu%d", config->node_dir, gpu) < PATH;
}

static void env_hang(void *ctx, int gpu, int engine)
{
    (void)ctx;
    (void)engine;
    char path[PATH];
    if (machine.dead[gpu] || !dead_path(gpu, path))
        return;
    machine.dead[gpu] = true;
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static uint64_t env_clock(void *ctx)
{
    (void)ctx;
    return emu_clock_ns();
}

static emu_sdma_node_t *make_node(void)
{
    static const emu_sdma_env_t env = {
        .translate = env_translate,
        .report = env_report,
        .vm_fault = env_fault,
        .trap = env_trap,
        .reset = env_reset,
        .hang = env_hang,
        .lost = env_lost,
        .clock = env_clock,
    };
    return emu_sdma_node_create(&emu_config()->sdma, &env);
}

/* Returns the engine, which is created with its first queue. NULL: no memory. */
static emu_sdma_engine_t *engine_of(int gpu, int id)
{
    if (!machine.node)
        machine.node = make_node();
    emu_sdma_engine_t **engine = &machine.engines[gpu][id];
    char path[PATH];
    if (dead_path(gpu, path) && access(path, F_OK) == 0)
        machine.dead[gpu] = true;
    if (machine.node && !*engine)
        *engine = emu_sdma_engine_create(machine.node, gpu, id,
                                         id < (int)emu_config()->persona->host_engines ? EMU_SDMA_HOST_FACING
                                                                                       : EMU_SDMA_XGMI);
    return *engine;
}

/* One round over all engines and compute queues. */
static enum emu_aql_state step(void)
{
    emu_event_advance();
    if (emu_evicted(&machine.evict, emu_clock_ns()))
        return EMU_AQL_BLOCKED;
    enum emu_aql_state all = EMU_AQL_IDLE;
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
        for (int id = 0; id < ENGINES; id++) {
            if (!machine.engines[gpu][id] || machine.dead[gpu])
                continue;
            emu_sdma_state_t state = emu_sdma_engine_step(machine.engines[gpu][id], ENGINE_BUDGET);
            if (state == EMU_SDMA_PROGRESSED)
                all = EMU_AQL_PROGRESSED;
            else if (state == EMU_SDMA_BLOCKED && all == EMU_AQL_IDLE)
                all = EMU_AQL_BLOCKED;
        }
    for (struct emu_queue *queue = machine.queues; queue; queue = queue->next) {
        if (queue->sdma || queue->stopped)
            continue;
        enum emu_aql_state state = emu_aql_step(&queue->aql, AQL_BUDGET);
        all = state > all ? state : all;
    }
    return all;
}

static struct timespec in_ns(long ns)
{
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_nsec += ns;
    when.tv_sec += when.tv_nsec / 1000000000;
    when.tv_nsec %= 1000000000;
    return when;
}

static unsigned asked(void)
{
    pthread_mutex_lock(&look.lock);
    unsigned number = look.asked;
    pthread_mutex_unlock(&look.lock);
    return number;
}

static void answer(unsigned number)
{
    pthread_mutex_lock(&look.lock);
    if (look.answered != number) {
        look.answered = number;
        pthread_cond_broadcast(&look.answered_to);
    }
    pthread_mutex_unlock(&look.lock);
}

static void nap_unless_asked(unsigned number, long ns)
{
    struct timespec until = in_ns(ns);
    pthread_mutex_lock(&look.lock);
    if (look.asked == number)
        pthread_cond_timedwait(&look.asked_of, &look.lock, &until);
    pthread_mutex_unlock(&look.lock);
}

void emu_settle(long most_ns)
{
    struct timespec until = in_ns(most_ns);
    pthread_mutex_lock(&look.lock);
    if (machine.started) {
        unsigned number = ++look.asked;
        pthread_cond_signal(&look.asked_of);
        while ((int)(look.answered - number) < 0 &&
               pthread_cond_timedwait(&look.answered_to, &look.lock, &until) != ETIMEDOUT)
            ;
    }
    pthread_mutex_unlock(&look.lock);
}

static void *run(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "emu-engines");
    prctl(PR_SET_TIMERSLACK, 1);
    int quiet = 0;
    long nap = NAP_NS;
    for (;;) {
        unsigned number = asked();
        pthread_mutex_lock(&machine.lock);
        emu_vm_lock_read();
        enum emu_aql_state state = step();
        emu_vm_unlock();
        pthread_mutex_unlock(&machine.lock);
        while (atomic_load(&machine.wanted) > 0)
            sched_yield();
        if (state == EMU_AQL_PROGRESSED) {
            quiet = 0;
            nap = NAP_NS;
            continue;
        }
        answer(number);
        if (++quiet <= SPINS) {
            sched_yield();
        } else {
            nap_unless_asked(number, nap);
            long most = state == EMU_AQL_BLOCKED ? WAITING_NAP_NS : IDLE_NAP_NS;
            nap = nap + nap / NAP_GROWTH < most ? nap + nap / NAP_GROWTH : most;
        }
    }
    return NULL;
}

/* The thread blocks all signals, so that the program's own threads get them. */
static bool start(void)
{
    if (machine.started)
        return true;
    sigset_t all, before;
    machine.evict = (struct emu_evict){.every_ns = emu_config()->evict_every_ns,
                                       .most_ns = emu_config()->evict_most_ns,
                                       .random = emu_config()->seed ^ (uint64_t)getpid() << 32};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&look.asked_of, &monotonic);
    pthread_cond_init(&look.answered_to, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_t thread;
    machine.started = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (machine.started)
        pthread_detach(thread);
    return machine.started;
}

bool emu_machine_add(struct emu_queue *queue, uint64_t ring, uint64_t bytes)
{
    if (queue->slot >= 0) {
        emu_sdma_engine_t *engine = engine_of(emu_gpu_of(queue->node), emu_slot_engine(queue->slot));
        if (!engine)
            return false;
        emu_vm_lock_read();
        queue->sdma = emu_sdma_queue_create(engine, &(emu_sdma_ring_t){
                                                        .id = queue->id,
                                                        .va = ring,
                                                        .bytes = bytes,
                                                        .rptr = queue->read,
                                                        .wptr = queue->write,
                                                        .doorbell = queue->doorbell,
                                                        .spared = emu_process_is_runtime(queue->owner),
                                                    });
        emu_vm_unlock();
        if (!queue->sdma)
            return false;
    }
    if (!start())
        return false;
    struct emu_queue **end = &machine.queues;
    while (*end)
        end = &(*end)->next;
    *end = queue;
    return true;
}

struct emu_queue *emu_machine_find(int id)
{
    struct emu_queue *queue = machine.queues;
    while (queue && queue->id != id)
        queue = queue->next;
    return queue;
}

bool emu_machine_any(void)
{
    return machine.queues;
}

static void print_queue(const struct emu_queue *queue, const char *state, FILE *to)
{
    if (!queue->sdma)
        return;
    fprintf(to, "queue %d gpu %d engine %d type %d owner %s %s\n", queue->id, emu_gpu_of(queue->node),
            emu_slot_engine(queue->slot), queue->type, queue->owner, state);
    emu_sdma_queue_print(queue->sdma, to);
}

void emu_machine_remove(struct emu_queue *queue)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory) {
        print_queue(queue, "destroyed", memory);
        fclose(memory);
        char *more = realloc(machine.past, machine.past_bytes + bytes + 1);
        if (more) {
            memcpy(more + machine.past_bytes, text, bytes);
            machine.past = more;
            machine.past_bytes += bytes;
        }
        free(text);
    }
    struct emu_queue **at = &machine.queues;
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    if (queue->sdma) {
        emu_vm_lock_read();
        emu_sdma_queue_destroy(queue->sdma);
        emu_vm_unlock();
    }
}

void emu_machine_print(FILE *to)
{
    if (machine.evict.count)
        fprintf(to, "evictions %u\n", machine.evict.count);
    if (machine.past)
        fwrite(machine.past, 1, machine.past_bytes, to);
    for (const struct emu_queue *queue = machine.queues; queue; queue = queue->next)
        print_queue(queue, "open", to);
}

void emu_machine_report_left(void)
{
    for (const struct emu_queue *queue = machine.queues; queue; queue = queue->next)
        if (!emu_process_is_runtime(queue->owner))
            emu_report("leak", "queue %d of GPU %d was not destroyed by %s", queue->id, emu_gpu_of(queue->node),
                       queue->owner);
}
