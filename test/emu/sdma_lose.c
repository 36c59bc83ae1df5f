/*
 * Injection: FENCEs, doorbells and read pointers of a queue that are dropped, late, or sent twice.
 *
 * A late signal delays later ones of the same kind, because writes are ordered. The second time of a signal comes after newer
 * ones and so has an old value. That is worse than hardware, whose bus keeps the order. After a dropped doorbell, the queue
 * still has the former value, so that the owner can ring the same doorbell again.
 */
#include "sdma_internal.h"

static emu_lose_how_t lose(emu_sdma_queue_t *q, emu_lose_what_t what, uint64_t *late_ns)
{
    emu_sdma_node_t *node = emu_sdma_node_of(q);
    emu_lose_how_t how = EMU_LOSE_NOT;

    if (!q->ring.spared) {
        how = emu_lose(&node->config.lose, &node->lose, what, q->engine->gpu, late_ns);
    }
    if (how != EMU_LOSE_NOT && node->env.lost) {
        node->env.lost(node->env.ctx, q->engine->gpu, how, what);
    }
    return how;
}

/* Remembers a signal that is sent a second time. If there is no room, it is not sent again. */
static void remember(emu_sdma_queue_t *q, emu_lose_what_t what, uint64_t at, uint64_t va, uint64_t value)
{
    for (unsigned i = 0; i < EMU_SDMA_AGAIN; i++) {
        if (!q->again[i].at) {
            q->again[i] = (emu_sdma_again_t){.what = what, .at = at, .va = va, .value = value};
            q->agains++;
            return;
        }
    }
}

/* The memory may have been freed. Hardware would fault. This is not a fault here, because the program did nothing wrong. */
static void write_again(emu_sdma_queue_t *q, const emu_sdma_again_t *again)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;
    emu_sdma_where_t where;
    char *host;

    switch (again->what) {
    case EMU_LOSE_FENCE:
        host = env->translate(env->ctx, q->engine->gpu, again->va, 4, true, &where);
        if (host) {
            __atomic_store_n((uint32_t *)(void *)host, (uint32_t)again->value, __ATOMIC_RELEASE);
        }
        break;
    case EMU_LOSE_READ_POINTER:
        __atomic_store_n(q->ring.rptr, again->value, __ATOMIC_RELEASE);
        break;
    default:
        q->rung_again = true;
        break;
    }
}

void emu_sdma_lose_advance(emu_sdma_queue_t *q, uint64_t now)
{
    for (unsigned i = 0; q->agains && i < EMU_SDMA_AGAIN; i++) {
        if (q->again[i].at && now >= q->again[i].at) {
            write_again(q, &q->again[i]);
            q->again[i].at = 0;
            q->agains--;
        }
    }
    if (q->read_late && now >= q->read_late) {
        q->read_late = 0;
        __atomic_store_n(q->ring.rptr, q->read, __ATOMIC_RELEASE);
    }
}

void emu_sdma_show_read(emu_sdma_queue_t *q)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;
    uint64_t late = 0;
    emu_lose_how_t how = lose(q, EMU_LOSE_READ_POINTER, &late);

    if (how == EMU_LOSE_LATE && !q->read_late) {
        q->read_late = env->clock(env->ctx) + late;
    }
    if (how == EMU_LOSE_DROP || q->read_late) {
        return;
    }
    __atomic_store_n(q->ring.rptr, q->read, __ATOMIC_RELEASE);
    if (how == EMU_LOSE_TWICE) {
        remember(q, EMU_LOSE_READ_POINTER, env->clock(env->ctx) + late, 0, q->read);
    }
}

uint64_t emu_sdma_see_doorbell(emu_sdma_queue_t *q, uint64_t now)
{
    uint64_t doorbell = __atomic_load_n(q->ring.doorbell, __ATOMIC_ACQUIRE), expected = doorbell, late;

    if (doorbell == q->doorbell) {
        return doorbell;
    }
    if (doorbell != q->judged) {
        emu_lose_how_t how = lose(q, EMU_LOSE_DOORBELL, &late);

        q->judged = doorbell;
        if (how == EMU_LOSE_DROP &&
            __atomic_compare_exchange_n((uint64_t *)(uintptr_t)q->ring.doorbell, &expected, q->doorbell, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            q->unrung = true;
            return q->doorbell;
        }
        if (how == EMU_LOSE_LATE) {
            q->doorbell_late = now + late;
        } else if (how == EMU_LOSE_TWICE) {
            remember(q, EMU_LOSE_DOORBELL, now + late, 0, 0);
        }
    }
    q->unrung = now < q->doorbell_late;
    return q->unrung ? q->doorbell : doorbell;
}

bool emu_sdma_lose_fence(emu_sdma_queue_t *q, emu_sdma_op_t *op, uint64_t now)
{
    uint64_t late;

    op->twice = 0;
    switch (lose(q, EMU_LOSE_FENCE, &late)) {
    case EMU_LOSE_DROP:
        return true;
    case EMU_LOSE_LATE:
        op->ready = now + late;
        return false;
    case EMU_LOSE_TWICE:
        op->twice = late;
        return false;
    default:
        return false;
    }
}

void emu_sdma_lose_fence_written(emu_sdma_queue_t *q, const emu_sdma_op_t *op)
{
    const emu_sdma_env_t *env = &emu_sdma_node_of(q)->env;

    if (op->twice) {
        remember(q, EMU_LOSE_FENCE, env->clock(env->ctx) + op->twice, op->access.side[SIDE_DST].va, op->pattern);
    }
}

void emu_sdma_node_lose(emu_sdma_node_t *node, const emu_lose_rules_t *rules)
{
    node->config.lose = *rules;
    node->lose = (emu_lose_t){.random = node->config.seed};
}
