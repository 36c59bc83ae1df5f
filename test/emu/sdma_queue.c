/*
 * One queue: its ring, its pointers, its doorbell, and its next action.
 *
 *     ring   | ended | fetched, under way | to be fetched |   free   |
 *                                         ^ read          ^ limit <= wptr
 *
 * A queue without work sleeps until its doorbell changes. While it has work it also reads the write pointer, as hardware may.
 * So packets must be complete before the write pointer is stored.
 */
#include "sdma_internal.h"

#include <stdlib.h>
#include <string.h>

/* The longest time that counts for one read of a doorbell. */
#define LOOK_NS 1000000

/* splitmix64 */
uint64_t emu_sdma_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

emu_sdma_state_t emu_sdma_die(emu_sdma_queue_t *q)
{
    for (unsigned i = 0; i < q->ops; i++) {
        free(q->op[i]->payload);
        q->op[i]->payload = NULL;
    }
    q->ops = 0;
    q->past = 0;
    q->headed = false;
    return q->state = EMU_SDMA_DEAD;
}

char *emu_sdma_touch(emu_sdma_queue_t *q, uint64_t at, uint64_t va, uint64_t bytes, bool write, int *owner)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;
    emu_sdma_where_t where = {.owner = EMU_SDMA_HOST, .why = EMU_SDMA_WHY_UNMAPPED};
    char *host = env->translate(env->ctx, q->engine->gpu, va, bytes, write, &where);

    if (!host) {
        emu_sdma_complain(q, at, where.why == EMU_SDMA_WHY_READ_ONLY ? EMU_SDMA_READ_ONLY : EMU_SDMA_UNMAPPED,
                          "%s %llu bytes at %#llx", write ? "writing" : "reading", (unsigned long long)bytes,
                          (unsigned long long)va);
        env->vm_fault(env->ctx, q->engine->gpu, va, write, where.why);
    }
    *owner = where.owner;
    return host;
}

static void pointer_broken(emu_sdma_queue_t *q, emu_sdma_rule_t rule, uint64_t wptr, uint64_t doorbell)
{
    emu_sdma_complain(q, q->read, rule, "write pointer %#llx, doorbell %#llx, read pointer %#llx",
                      (unsigned long long)wptr, (unsigned long long)doorbell, (unsigned long long)q->read);
    emu_sdma_die(q);
}

/* Programs store the write pointer before the doorbell, so it is never behind, and ahead only for a short time. A process may
 * be stopped between the two stores. So only the time between reads of the doorbell counts, at most LOOK_NS for each. */
static bool doorbell_late(emu_sdma_queue_t *q, uint64_t wptr, uint64_t doorbell, uint64_t now)
{
    uint64_t since = now - q->lag_look;

    q->lag_look = now;
    if (wptr == doorbell || doorbell != q->doorbell || q->unrung) {
        q->lag_ns = 0;
        return false;
    }
    q->lag_ns += since < LOOK_NS ? since : LOOK_NS;
    return q->lag_ns > emu_sdma_node_of(q)->config.doorbell_ns;
}

static bool wants_to_run(emu_sdma_queue_t *q, uint64_t now)
{
    uint64_t doorbell = emu_sdma_see_doorbell(q, now);
    uint64_t wptr = __atomic_load_n(q->ring.wptr, __ATOMIC_ACQUIRE);
    bool busy = q->headed || q->ops || q->read != q->limit;

    if (q->state == EMU_SDMA_DEAD) {
        return false;
    }
    emu_sdma_lose_advance(q, now);
    if (doorbell != q->doorbell) {
        q->stats.doorbells++;
    }
    if (wptr < q->wptr) {
        pointer_broken(q, EMU_SDMA_WPTR_BACKWARD, wptr, doorbell);
    } else if (wptr % 4) {
        pointer_broken(q, EMU_SDMA_WPTR_ALIGN, wptr, doorbell);
    } else if (wptr - q->read >= q->ring.bytes) {
        pointer_broken(q, EMU_SDMA_RING_OVERRUN, wptr, doorbell);
    } else if (doorbell > wptr || doorbell_late(q, wptr, doorbell, now)) {
        pointer_broken(q, EMU_SDMA_DOORBELL, wptr, doorbell);
    }
    if (q->state == EMU_SDMA_DEAD) {
        return false;
    }
    if ((busy || doorbell != q->doorbell || q->rung_again) && wptr != q->limit) {
        q->limit = wptr;
        if (q->fences) {
            emu_sdma_in_order(q, q->fenced[(q->fences - 1) % EMU_SDMA_FENCED].at);
        }
    }
    q->rung_again = false;
    q->wptr = wptr;
    q->doorbell = doorbell;
    return q->headed || q->ops || q->read != q->limit;
}

void emu_sdma_queue_stop(emu_sdma_queue_t *q, bool stopped)
{
    q->stopped = stopped;
}

bool emu_sdma_queue_wants(emu_sdma_queue_t *q, uint64_t now)
{
    if (q->stopped) {
        return q->state != EMU_SDMA_DEAD && q->ops;
    }
    return wants_to_run(q, now);
}

static emu_sdma_state_t injected_fault(emu_sdma_queue_t *q)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;

    emu_sdma_complain(q, q->read, EMU_SDMA_INJECTED, "fault at packet %llu", (unsigned long long)q->fetched);
    env->vm_fault(env->ctx, q->engine->gpu, q->ring.va, false, EMU_SDMA_WHY_UNMAPPED);
    return emu_sdma_die(q);
}

/* Injects the fault or the reset of the n-th packet. */
static bool injected(emu_sdma_queue_t *q)
{
    const emu_sdma_node_t *node = emu_sdma_node_of(q);

    q->fetched++;
    if (q->ring.spared) {
        return false;
    }
    if (q->fetched == node->config.fault_packet) {
        injected_fault(q);
    } else if (q->fetched == node->config.reset_packet) {
        emu_sdma_engine_reset(q->engine);
    }
    return q->state == EMU_SDMA_DEAD;
}

/* Reads and checks the packet at the read pointer, and advances the pointer. */
static emu_sdma_state_t fetch(emu_sdma_queue_t *q, uint64_t now)
{
    const emu_sdma_config_t *config = &emu_sdma_node_of(q)->config;
    uint64_t offset = q->read & (q->ring.bytes - 1), to_end = q->ring.bytes - offset, have = q->limit - q->read;
    uint32_t dw[EMU_SDMA_MAX_DWORDS], length;
    emu_sdma_problem_t problem;
    const void *from;
    int owner;

    have = have < to_end ? have : to_end;
    from = emu_sdma_touch(q, q->read, q->ring.va + offset, have, false, &owner);
    if (!from || injected(q)) {
        return emu_sdma_die(q);
    }
    memcpy(dw, from, have < sizeof(dw) ? have : sizeof(dw));
    length = emu_sdma_packet_length(config->gen, dw, have / 4, &problem);
    if (length > have / 4) {
        emu_sdma_complain(q, q->read, have == to_end ? EMU_SDMA_STRADDLE : EMU_SDMA_TRUNCATED,
                          "packet of %u dwords (%#010x), %llu left", length, dw[0], (unsigned long long)have / 4);
        return emu_sdma_die(q);
    }
    if (!length || !emu_sdma_decode(q, dw, &q->head, &problem)) {
        emu_sdma_complain(q, q->read, problem.rule, "%s", problem.text);
        return emu_sdma_die(q);
    }
    if (emu_sdma_is_injected(q, config->fault_kinds, q->head.kind)) {
        return injected_fault(q);
    }
    q->headed = true;
    q->head_at = q->read;
    q->head_ready = config->delay_ns ? now + emu_sdma_below(&q->random, config->delay_ns + 1) : 0;
    q->waiting_since = q->next_look = q->looks = 0;
    q->stats.packets[q->head.kind]++;
    if (q->head.kind != EMU_SDMA_WRITE) {
        q->read += 4ull * length;
        emu_sdma_show_read(q);
    }
    return EMU_SDMA_PROGRESSED;
}

/* Fetches the next packet if there is no head, otherwise tries to execute the head. */
static emu_sdma_state_t forward(emu_sdma_queue_t *q, uint64_t now)
{
    emu_sdma_state_t state;

    if (!q->headed) {
        return fetch(q, now);
    }
    state = emu_sdma_head_execute(q, now);
    if (state == EMU_SDMA_PROGRESSED) {
        q->headed = false;
        if (q->head.kind == EMU_SDMA_WRITE) {
            q->read += 4ull * q->head.dwords; /* only now, because the payload was in the ring */
            emu_sdma_show_read(q);
        }
    }
    return state;
}

emu_sdma_state_t emu_sdma_queue_action(emu_sdma_queue_t *q, uint64_t now, bool leaving)
{
    bool may = !leaving && !q->stopped && (q->headed || q->read != q->limit), first = emu_sdma_random(&q->random) & 1;
    emu_sdma_state_t state = may && first ? forward(q, now) : EMU_SDMA_BLOCKED;

    if (state == EMU_SDMA_BLOCKED) {
        state = emu_sdma_op_advance(q, now);
    }
    if (may && !first && (state == EMU_SDMA_BLOCKED || state == EMU_SDMA_IDLE)) {
        state = forward(q, now);
    } else if (may && state == EMU_SDMA_IDLE) {
        state = EMU_SDMA_BLOCKED;
    }
    return q->state = state;
}

/* Returns whether the ring keeps its rules. */
static bool ring_good(const emu_sdma_queue_t *q)
{
    const emu_sdma_ring_t *r = &q->ring;
    emu_sdma_node_t *node = emu_sdma_node_of(q);
    emu_sdma_where_t where;

    return r->bytes >= EMU_SDMA_MIN_RING && (r->bytes & (r->bytes - 1)) == 0 && r->va % 256 == 0 &&
           node->env.translate(node->env.ctx, q->engine->gpu, r->va, r->bytes, false, &where);
}

emu_sdma_queue_t *emu_sdma_queue_new(emu_sdma_engine_t *engine, const emu_sdma_ring_t *ring)
{
    const emu_sdma_config_t *config = &engine->node->config;
    emu_sdma_queue_t *q = calloc(1, sizeof(*q));

    if (!q) {
        return NULL;
    }
    q->engine = engine;
    q->ring = *ring;
    q->state = EMU_SDMA_IDLE;
    q->random = config->seed ^ ((uint64_t)engine->gpu << 40 | (uint64_t)engine->id << 20 | (uint32_t)ring->id);
    if (!ring_good(q)) {
        emu_sdma_complain(q, 0, EMU_SDMA_RING_SHAPE, "%llu bytes at %#llx", (unsigned long long)ring->bytes,
                          (unsigned long long)ring->va);
        emu_sdma_queue_free(q);
        return NULL;
    }
    q->held = malloc(2ull * config->in_flight * config->piece);
    for (unsigned i = 0; q->held && i < config->in_flight; i++) {
        q->op[i] = calloc(1, sizeof(*q->op[i]));
        if (!q->op[i]) {
            break;
        }
        q->op[i]->held[0] = q->held + 2ull * i * config->piece;
        q->op[i]->held[1] = q->op[i]->held[0] + config->piece;
    }
    if (!q->held || !q->op[config->in_flight - 1]) {
        emu_sdma_queue_free(q);
        return NULL;
    }
    q->read = q->limit = q->wptr = q->doorbell = q->judged = __atomic_load_n(ring->rptr, __ATOMIC_ACQUIRE);
    return q;
}

void emu_sdma_queue_free(emu_sdma_queue_t *q)
{
    emu_sdma_die(q);
    for (unsigned i = 0; i < sizeof(q->op) / sizeof(*q->op); i++) {
        free(q->op[i]);
    }
    free(q->held);
    free(q);
}
