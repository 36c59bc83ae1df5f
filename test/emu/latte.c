/*
 * The commands of the DMA-Latte artifact for the thunk and the engines, with one process and one thread for all GPUs. Written
 * from the description of its variants; none of its code is here.
 *
 *   queues    of each GPU: first one per host-facing engine, then one per engine of the links. They are created by type and not
 *             by number, so the n-th queue is on the n-th engine as long as there are no other queues
 *   memory    GPU memory for input and output, which the host does not map. Host memory for signals and for checked data,
 *             without a flag that pins it. Each memory is mapped for its own GPU first, then for all GPUs
 *   command   [POLL of a trigger,] data packets, a signal, then the doorbell
 *   signal    a FENCE; two, of the upper and then the lower word; or an ATOMIC that adds -1
 *   trigger   none; one word for all commands; or one for each
 *
 * Engines fill the buffers, engine 0 copies them to the host, and every byte is compared. The engine of each link is the one in
 * the driver's files if each link has an engine of its own there. Otherwise links use every second engine, round robin.
 *
 * usage: latte ag pcpy|bcst|b2b | aa pcpy|swap|b2b | p2p latency, BYTES of one GPU's part, ROUNDS, SIGNAL 0|1|2, TRIGGER 0|1|2
 */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX = 8, ENGINES = 16, PAGE = 4096, HOST_ENGINES = 2, B2B_ENGINE = 8, FILL = 2 };

/* Data packets to one, two or seven GPUs, one after the other. */
struct command {
    int engine, count, to[MAX];
};

struct gpu {
    struct raw_queue queues[ENGINES];
    int map[MAX]; /* the engine for each GPU */
    struct command commands[MAX];
    int n_commands;
    char *in, *out, *host;
};

static struct gpu gpus[MAX];
static int n_gpus, engines, rounds, signal_kind, triggers;
static uint32_t bytes;
static uint64_t *signals; /* of one round: the signals of all commands, then the triggers */

static void *allocate(uint32_t node, size_t size, uint32_t mapped)
{
    HsaMemFlags flags = {.Value = 0};
    void *memory;
    flags.ui32.PageSize = HSA_PAGE_SIZE_4KB;
    flags.ui32.HostAccess = node == 0;
    flags.ui32.NonPaged = flags.ui32.NoNUMABind = node != 0;
    size = (size + PAGE - 1) / PAGE * PAGE;
    RAW_CHECK(hsaKmtAllocMemory(node, size, flags, &memory));
    if (node)
        raw_map(memory, size, node);
    raw_map(memory, size, mapped);
    return memory;
}

static void put_fill(struct raw_queue *queue, char *to, uint32_t value)
{
    uint64_t at = (uintptr_t)to;
    raw_put(queue, (uint32_t[]){11u | 2u << 30, (uint32_t)at, (uint32_t)(at >> 32), value, bytes - 1}, 5);
}

static void put_broadcast(struct raw_queue *queue, char *to, char *other, const char *from)
{
    uint64_t a = (uintptr_t)to, b = (uintptr_t)other, c = (uintptr_t)from;
    raw_put(queue,
            (uint32_t[]){1u | 1u << 27, bytes - 1, 0, (uint32_t)c, (uint32_t)(c >> 32), (uint32_t)a,
                         (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)},
            9);
}

static void put_swap(struct raw_queue *queue, char *one, char *other)
{
    uint64_t a = (uintptr_t)one, b = (uintptr_t)other;
    raw_put(
        queue,
        (uint32_t[]){1u | 9u << 8, bytes - 1, 0, (uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)},
        7);
}

static void put_atomic(struct raw_queue *queue, uint64_t *at)
{
    uint64_t a = (uintptr_t)at;
    raw_put(queue, (uint32_t[]){10u | 47u << 25, (uint32_t)a, (uint32_t)(a >> 32), ~0u, ~0u, 0, 0, 0}, 8);
}

/* A POLL without a limit, until the lower half of the word is 0. */
static void put_poll(struct raw_queue *queue, uint64_t *at)
{
    uint64_t a = (uintptr_t)at;
    raw_put(queue, (uint32_t[]){8u | 3u << 28 | 1u << 31, (uint32_t)a, (uint32_t)(a >> 32), 0, ~0u, 4u | 0xfffu << 16},
            6);
}

static void put_signal(struct raw_queue *queue, uint64_t *at, int kind)
{
    if (kind == 2)
        put_atomic(queue, at);
    if (kind == 1)
        raw_fence(queue, (char *)at + 4, 0);
    if (kind < 2)
        raw_fence(queue, at, 0);
}

static void wait_for(uint64_t *at)
{
    if (!raw_wait(at, 0) || __atomic_load_n(at, __ATOMIC_ACQUIRE) != 0)
        raw_fail("signal %ld is %#llx", (long)(at - signals), (unsigned long long)*at);
}

static void set(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* Returns the engine that the driver's files recommend, if it is a single one. */
static int recommended(int from, int to)
{
    unsigned long mask = raw_recommended_engines(from, to);
    return mask && !(mask & (mask - 1)) ? __builtin_ctzl(mask) : -1;
}

static void make_map(int from)
{
    int turn = 0, turns = (engines - HOST_ENGINES) / 2;
    for (int to = 0; to < n_gpus; to++) {
        if (to == from)
            continue;
        int engine = recommended(from, to);
        gpus[from].map[to] = engine >= 0 ? engine : HOST_ENGINES + 2 * (turn % turns);
        turn++;
    }
}

static void add(int from, int engine, int count, const int *to)
{
    struct command *command = &gpus[from].commands[gpus[from].n_commands++];
    command->engine = engine;
    command->count = count;
    memcpy(command->to, to, (size_t)count * sizeof *to);
}

/* Distributes the peers over engines: the first peer alone, the others in pairs, each on the engine of its second peer. */
static void plan_broadcasts(int from)
{
    int order[MAX], count = 0;
    for (int engine = 0; engine < ENGINES; engine++)
        for (int to = 0; to < n_gpus; to++)
            if (to != from && gpus[from].map[to] == engine)
                order[count++] = to;
    add(from, gpus[from].map[order[0]], 1, order);
    for (int k = 1; k + 1 < count; k += 2)
        add(from, gpus[from].map[order[k + 1]], 2, &order[k]);
    if (count % 2 == 0)
        add(from, gpus[from].map[order[count - 1]], 1, &order[count - 1]);
}

/* Each pair of GPUs has one swap, by the first of the two that has room. */
static void plan_swaps(void)
{
    int pairs = n_gpus * (n_gpus - 1) / 2, most = (pairs + n_gpus - 1) / n_gpus;
    char seen[MAX][MAX] = {{0}};
    for (int from = 0; from < n_gpus; from++)
        for (int to = 0; to < n_gpus && gpus[from].n_commands < most; to++)
            if (to != from && !seen[from][to]) {
                seen[from][to] = seen[to][from] = 1;
                add(from, gpus[from].map[to], 1, &to);
            }
}

static void plan(const char *variant)
{
    for (int from = 0; from < n_gpus; from++) {
        int all[MAX], count = 0;
        make_map(from);
        for (int to = 0; to < n_gpus; to++)
            if (to != from)
                all[count++] = to;
        if (strcmp(variant, "bcst") == 0)
            plan_broadcasts(from);
        else if (strcmp(variant, "b2b") == 0)
            add(from, B2B_ENGINE < engines ? B2B_ENGINE : engines - 1, count, all);
        else if (strcmp(variant, "swap") != 0)
            for (int i = 0; i < count; i++)
                add(from, gpus[from].map[all[i]], 1, &all[i]);
    }
    if (strcmp(variant, "swap") == 0)
        plan_swaps();
}

/* Waits for one signal of each GPU. */
static void finish_all(int engine)
{
    for (int i = 0; i < n_gpus; i++) {
        set(&signals[i], 1);
        put_signal(&gpus[i].queues[engine], &signals[i], 0);
        raw_ring(&gpus[i].queues[engine]);
    }
    for (int i = 0; i < n_gpus; i++)
        wait_for(&signals[i]);
}

/* All words of part j of GPU i are i * GPUs + j. The output has only the own part at the begin. */
static void fill(void)
{
    for (int i = 0; i < n_gpus; i++)
        for (int j = 0; j < n_gpus; j++) {
            uint32_t value = (uint32_t)(i * n_gpus + j);
            put_fill(&gpus[i].queues[FILL], gpus[i].in + (size_t)j * bytes, value);
            put_fill(&gpus[i].queues[FILL], gpus[i].out + (size_t)j * bytes, i == j ? value : 0);
        }
    finish_all(FILL);
}

static void compare(int gather, int in_place)
{
    size_t whole = (size_t)bytes * (size_t)n_gpus;
    for (int i = 0; i < n_gpus; i++)
        for (int j = 0; j < n_gpus; j++)
            raw_copy(&gpus[i].queues[0], gpus[i].host + (size_t)j * bytes,
                     (in_place ? gpus[i].in : gpus[i].out) + (size_t)j * bytes, bytes);
    finish_all(0);
    for (int i = 0; i < n_gpus; i++)
        for (size_t at = 0; at < whole; at += sizeof(uint32_t)) {
            int j = (int)(at / bytes);
            uint32_t want = (uint32_t)(gather ? j * n_gpus + j : j * n_gpus + i), is;
            memcpy(&is, gpus[i].host + at, sizeof is);
            if (is != want)
                raw_fail("GPU %d: %u at byte %zu, not %u", i, is, at, want);
        }
}

static void put_command(const char *variant, int gather, int from, const struct command *command)
{
    struct raw_queue *queue = &gpus[from].queues[command->engine];
    const struct gpu *me = &gpus[from];
    size_t mine = (size_t)from * bytes;
    if (strcmp(variant, "swap") == 0) {
        int to = command->to[0];
        put_swap(queue, gpus[to].in + mine, me->in + (size_t)to * bytes);
    } else if (strcmp(variant, "bcst") == 0 && command->count == 2) {
        put_broadcast(queue, gpus[command->to[0]].in + mine, gpus[command->to[1]].in + mine, me->in + mine);
    } else {
        for (int k = 0; k < command->count; k++) {
            int to = command->to[k];
            raw_copy(queue, (gather ? gpus[to].in : gpus[to].out) + mine, me->in + (gather ? mine : (size_t)to * bytes),
                     bytes);
        }
    }
}

static void round_of(const char *variant, int gather)
{
    int total = 0, at = 0;
    for (int i = 0; i < n_gpus; i++)
        total += gpus[i].n_commands;
    uint64_t *trigger = signals + total;
    for (int i = 0; i < 2 * total; i++)
        set(&signals[i], 1);
    for (int i = 0; i < n_gpus; i++)
        for (int k = 0; k < gpus[i].n_commands; k++, at++) {
            struct raw_queue *queue = &gpus[i].queues[gpus[i].commands[k].engine];
            if (triggers)
                put_poll(queue, trigger + (triggers == 2 ? at : 0));
            put_command(variant, gather, i, &gpus[i].commands[k]);
            put_signal(queue, &signals[at], signal_kind);
            raw_ring(queue);
        }
    if (triggers) {
        usleep(1000);
        for (int i = 0; i < total; i++)
            if (__atomic_load_n(&signals[i], __ATOMIC_ACQUIRE) != 1)
                raw_fail("command %d did not wait for its trigger", i);
        for (int i = 0; i < (triggers == 2 ? total : 1); i++)
            set(&trigger[i], 0);
    }
    for (int i = 0; i < total; i++)
        wait_for(&signals[i]);
}

/* Measures a copy from GPU 0 to GPU 1 by two time stamps, each in a cache line of its own. */
static void latency(void)
{
    struct stamp {
        uint64_t ticks, rest[3];
    } *stamps = raw_allocate(0, PAGE, 1);
    struct raw_queue *queue = &gpus[0].queues[engines > 4 ? 4 : engines - 1], *back = &gpus[1].queues[0];
    for (int round = 0; round < rounds; round++) {
        put_fill(queue, gpus[0].in, (uint32_t)round + 1);
        set(&signals[0], 1);
        put_signal(queue, &signals[0], signal_kind);
        raw_ring(queue);
        wait_for(&signals[0]);
        set(&signals[0], 1);
        set(&signals[1], 1);
        if (triggers)
            put_poll(queue, &signals[1]);
        for (int k = 0; k < 2; k++) {
            uint64_t to = (uintptr_t)&stamps[k];
            if (k)
                raw_copy(queue, gpus[1].in, gpus[0].in, bytes);
            raw_put(queue, (uint32_t[]){13u | 2u << 8, (uint32_t)to, (uint32_t)(to >> 32)}, 3);
        }
        put_signal(queue, &signals[0], signal_kind);
        raw_ring(queue);
        if (triggers)
            usleep(100);
        set(&signals[1], 0);
        wait_for(&signals[0]);
        set(&signals[2], 1);
        raw_copy(back, gpus[1].host, gpus[1].in, bytes);
        put_atomic(back, &signals[2]);
        raw_ring(back);
        wait_for(&signals[2]);
        for (uint32_t i = 0; i < bytes / 4; i++)
            if (((uint32_t *)(void *)gpus[1].host)[i] != (uint32_t)round + 1)
                raw_fail("round %d: word %u is %u", round, i, ((uint32_t *)(void *)gpus[1].host)[i]);
        if (stamps[1].ticks < stamps[0].ticks)
            raw_fail("time runs back");
    }
}

static void make_gpu(int i)
{
    uint32_t node = (uint32_t)i + 1;
    size_t whole = (size_t)bytes * (size_t)n_gpus;
    gpus[i].in = allocate(node, whole, 0);
    gpus[i].out = allocate(node, whole, 0);
    gpus[i].host = allocate(0, whole, node);
}

int main(int argc, char **argv)
{
    HsaNodeProperties node;
    const char *collective = argc > 6 ? argv[1] : "", *variant = argc > 6 ? argv[2] : "";
    int gather = strcmp(collective, "ag") == 0, pairs = strcmp(collective, "p2p") == 0;
    bytes = argc > 6 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;
    rounds = argc > 6 ? atoi(argv[4]) : 0;
    signal_kind = argc > 6 ? atoi(argv[5]) : 0;
    triggers = argc > 6 ? atoi(argv[6]) : 0;
    if (bytes == 0 || bytes % 4 || rounds < 1 || (!gather && !pairs && strcmp(collective, "aa") != 0))
        raw_fail("usage: latte ag|aa|p2p VARIANT BYTES ROUNDS SIGNAL TRIGGER");
    n_gpus = raw_open();
    RAW_CHECK(hsaKmtGetNodeProperties(1, &node));
    engines = (int)(node.NumSdmaEngines + node.NumSdmaXgmiEngines);
    if (n_gpus < 2 || n_gpus > MAX || engines > ENGINES)
        raw_fail("%d GPUs with %d engines", n_gpus, engines);
    for (int i = 0; i < n_gpus; i++)
        for (int k = 0; k < engines; k++)
            raw_queue(&gpus[i].queues[k], (uint32_t)i + 1, k < (int)node.NumSdmaEngines ? HSA_QUEUE_SDMA : RAW_XGMI, 0);
    signals = allocate(0, PAGE, 0);
    for (int i = 0; i < n_gpus; i++)
        make_gpu(i);
    if (pairs)
        latency();
    else
        plan(variant);
    for (int round = 0; !pairs && round < rounds; round++) {
        fill();
        round_of(variant, gather);
        compare(gather, gather || strcmp(variant, "swap") == 0);
    }
    for (int i = 0; i < n_gpus; i++)
        for (int k = 0; k < engines; k++)
            raw_destroy(&gpus[i].queues[k]);
    return 0;
}
