/*
 * Decides which queue has an engine, and creates and destroys engines and queues.
 *
 * A queue keeps its engine until it has nothing to do, or until its slice is over and another queue has work. A POLL that waits
 * keeps the engine, too, at the cost of other queues.
 */
#include "sdma_internal.h"

#include <stdlib.h>

emu_sdma_config_t emu_sdma_config(emu_sdma_gen_t gen, uint64_t seed)
{
    return (emu_sdma_config_t){.gen = gen,
                               .seed = seed,
                               .slice_ns = EMU_SDMA_DEFAULT_SLICE,
                               .in_flight = 8,
                               .piece = 16384,
                               .stale_looks = 3,
                               .stale_ns = 100000,
                               .doorbell_ns = 1000000000};
}

emu_sdma_node_t *emu_sdma_node_create(const emu_sdma_config_t *config, const emu_sdma_env_t *env)
{
    emu_sdma_node_t *node;

    if (config->gen >= EMU_SDMA_GENS || config->slice_ns < EMU_SDMA_DEFAULT_SLICE || config->in_flight < 1 ||
        config->in_flight > 64 || config->piece < 64 || config->piece % 64 || config->piece > 65536) {
        return NULL;
    }
    node = calloc(1, sizeof(*node));
    if (node) {
        node->config = *config;
        node->env = *env;
        node->lose.random = config->seed;
    }
    return node;
}

emu_sdma_engine_t *emu_sdma_engine_create(emu_sdma_node_t *node, int gpu, int id, emu_sdma_kind_t kind)
{
    emu_sdma_engine_t *engine = gpu >= 0 && gpu < EMU_SDMA_GPUS && id >= 0 ? calloc(1, sizeof(*engine)) : NULL;

    if (engine) {
        engine->node = node;
        engine->gpu = gpu;
        engine->id = id;
        engine->kind = kind;
        engine->next = node->engines;
        node->engines = engine;
    }
    return engine;
}

emu_sdma_queue_t *emu_sdma_queue_create(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring)
{
    emu_sdma_queue_t *q = engine->queues < EMU_SDMA_QUEUES ? emu_sdma_queue_new(engine, ring) : NULL, **last;

    if (q) {
        engine->queue[engine->queues++] = q;
        for (last = &engine->node->queues; *last; last = &(*last)->next) {
        }
        *last = q;
    }
    return q;
}

static void queue_remove(emu_sdma_queue_t *q)
{
    emu_sdma_engine_t *engine = q->engine;
    emu_sdma_queue_t **link = &engine->node->queues;
    unsigned i = 0;

    while (*link != q) {
        link = &(*link)->next;
    }
    *link = q->next;
    while (engine->queue[i] != q) {
        i++;
    }
    if (engine->current == i) {
        engine->taken = false;
    }
    if (engine->current > i) {
        engine->current--;
    }
    for (engine->queues--; i < engine->queues; i++) {
        engine->queue[i] = engine->queue[i + 1];
    }
    emu_sdma_queue_free(q);
}

/* A NOP that was fetched counts as ended, because its only effect is that the read pointer moves. If the rule is lax, the
 * engine completes operations under way. */
void emu_sdma_queue_destroy(emu_sdma_queue_t *q)
{
    uint64_t wptr = __atomic_load_n(q->ring.wptr, __ATOMIC_ACQUIRE);
    bool carries_out = q->headed && q->head.kind != EMU_SDMA_NOP;

    if (emu_sdma_is_lax(q->engine->node, EMU_SDMA_DESTROY_BUSY)) {
        while (emu_sdma_op_advance(q, UINT64_MAX) == EMU_SDMA_PROGRESSED) {
        }
    } else if (q->state != EMU_SDMA_DEAD && (carries_out || q->ops || q->read != wptr)) {
        emu_sdma_complain(q, q->read, EMU_SDMA_DESTROY_BUSY, "%s, %u under way, write pointer %#llx",
                          q->headed ? emu_sdma_packet_name(q->head.kind) : "no packet begun", q->ops,
                          (unsigned long long)wptr);
    }
    queue_remove(q);
}

void emu_sdma_engine_destroy(emu_sdma_engine_t *engine)
{
    emu_sdma_engine_t **link = &engine->node->engines;

    while (engine->queues) {
        queue_remove(engine->queue[engine->queues - 1]);
    }
    while (*link != engine) {
        link = &(*link)->next;
    }
    *link = engine->next;
    free(engine);
}

void emu_sdma_node_destroy(emu_sdma_node_t *node)
{
    while (node->engines) {
        emu_sdma_engine_destroy(node->engines);
    }
    free(node);
}

void emu_sdma_engine_reset(emu_sdma_engine_t *engine)
{
    for (unsigned i = 0; i < engine->queues; i++) {
        emu_sdma_die(engine->queue[i]);
    }
    engine->taken = false;
    engine->node->env.reset(engine->node->env.ctx, engine->gpu, engine->id);
}

/* Chooses the next queue in turn that has work; the current one is the last in turn. False: no queue has work. */
static bool choose(emu_sdma_engine_t *engine, uint64_t now, unsigned *chosen)
{
    for (unsigned i = 1; i <= engine->queues; i++) {
        *chosen = (engine->current + i) % engine->queues;
        if (emu_sdma_queue_wants(engine->queue[*chosen], now)) {
            return true;
        }
    }
    return false;
}

static emu_sdma_state_t at_rest(const emu_sdma_engine_t *engine)
{
    for (unsigned i = 0; i < engine->queues; i++) {
        if (engine->queue[i]->state != EMU_SDMA_DEAD) {
            return EMU_SDMA_IDLE;
        }
    }
    return engine->queues ? EMU_SDMA_DEAD : EMU_SDMA_IDLE;
}

/* One action of the queue that has the engine. The queue loses the engine if it has nothing to do or is dead. It also loses the
 * engine if its slice is over, no operation is under way, and another queue has work. */
static emu_sdma_state_t action(emu_sdma_engine_t *engine, uint64_t now)
{
    emu_sdma_queue_t *q = engine->queue[engine->current];
    bool over = now - engine->slice_start >= engine->node->config.slice_ns;
    unsigned other = engine->current;
    bool leaving = over && choose(engine, now, &other) && other != engine->current;
    emu_sdma_state_t state;

    if (!emu_sdma_queue_wants(q, now)) {
        engine->taken = false;
        q->state = q->state == EMU_SDMA_DEAD ? EMU_SDMA_DEAD : EMU_SDMA_IDLE;
        return EMU_SDMA_IDLE;
    }
    state = emu_sdma_queue_action(q, now, leaving);
    if (state == EMU_SDMA_IDLE && leaving) {
        q->state = EMU_SDMA_BLOCKED;
    }
    if (state == EMU_SDMA_IDLE || state == EMU_SDMA_DEAD) {
        engine->taken = false;
    }
    return state;
}

emu_sdma_state_t emu_sdma_engine_step(emu_sdma_engine_t *engine, unsigned budget)
{
    const emu_sdma_env_t *env = &engine->node->env;
    bool progressed = false;

    for (; budget; budget--) {
        uint64_t now = env->clock(env->ctx);
        emu_sdma_state_t state;

        if (!engine->taken) {
            unsigned next;

            if (!choose(engine, now, &next)) {
                return progressed ? EMU_SDMA_PROGRESSED : at_rest(engine);
            }
            engine->current = next;
            engine->taken = true;
            engine->slice_start = now;
            engine->queue[next]->stats.slices++;
        }
        state = action(engine, now);
        progressed = progressed || state == EMU_SDMA_PROGRESSED || state == EMU_SDMA_DEAD;
        if (state == EMU_SDMA_BLOCKED) {
            return progressed ? EMU_SDMA_PROGRESSED : EMU_SDMA_BLOCKED;
        }
    }
    return progressed ? EMU_SDMA_PROGRESSED : EMU_SDMA_BLOCKED;
}

emu_sdma_state_t emu_sdma_queue_state(const emu_sdma_queue_t *q)
{
    return q->state;
}

const emu_sdma_stats_t *emu_sdma_queue_stats(const emu_sdma_queue_t *q)
{
    return &q->stats;
}
