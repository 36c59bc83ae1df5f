/*
 * Executes the packet at the head of a queue.
 *
 * Only TRAP and ATOMIC stop the queue until the operations before them have ended. A FENCE is an operation itself, the only one
 * that waits for others. A POLL waits only for its word. So after a POLL of a FENCE's word, all operations before the FENCE
 * have ended.
 */
#include "sdma_internal.h"

#include <string.h>

/* One unit of a POLL's interval: about 16 clocks of the engine. */
#define INTERVAL_NS 10

/* Returns the host address of a word that a packet accesses without an operation. */
static void *word(emu_sdma_queue_t *q, uint64_t va, uint32_t bytes, bool write)
{
    emu_sdma_access_t access = {.kind = q->head.kind, .at = q->head_at, .writes = 1u << SIDE_DST};
    emu_sdma_region_t *region = &access.side[SIDE_DST];

    *region = (emu_sdma_region_t){.va = va, .row_bytes = bytes, .rows = 1, .slices = 1};
    region->host = emu_sdma_touch(q, q->head_at, va, bytes, write, &region->owner);
    if (region->host && write) {
        emu_sdma_check_race(q, &access);
    }
    return region->host;
}

/* Writes the value of a 100 MHz clock, or nothing if the packet is spoiled. */
static emu_sdma_state_t timestamp(emu_sdma_queue_t *q, uint64_t now)
{
    uint64_t *to = word(q, q->head.dst[0].va, 8, true);
    bool spoiled = emu_sdma_is_injected(q, emu_sdma_node_of(q)->config.spoil_kinds, EMU_SDMA_TIMESTAMP);

    if (!to) {
        return emu_sdma_die(q);
    }
    __atomic_store_n(to, spoiled ? 0 : now / 10, __ATOMIC_RELEASE);
    return EMU_SDMA_PROGRESSED;
}

static void waited(emu_sdma_queue_t *q, uint64_t now)
{
    q->stats.blocked_ns += q->waiting_since ? now - q->waiting_since : 0;
}

static bool holds(emu_sdma_func_t func, uint32_t value, uint32_t reference)
{
    switch (func) {
    case EMU_SDMA_ALWAYS:
        return true;
    case EMU_SDMA_LESS:
        return value < reference;
    case EMU_SDMA_LESS_EQUAL:
        return value <= reference;
    case EMU_SDMA_EQUAL:
        return value == reference;
    case EMU_SDMA_NOT_EQUAL:
        return value != reference;
    case EMU_SDMA_GREATER_EQUAL:
        return value >= reference;
    case EMU_SDMA_GREATER:
        return value > reference;
    case EMU_SDMA_FUNCS:
        break;
    }
    return false;
}

/* Maps signed order to unsigned order. */
static uint32_t biased(uint32_t value)
{
    return value ^ 0x80000000u;
}

/* Reads the value of a POLL, which may be an old one. False: the address cannot be read. */
static bool look(emu_sdma_queue_t *q, uint64_t now, uint32_t *value)
{
    const emu_sdma_config_t *config = &emu_sdma_node_of(q)->config;
    bool stale = q->looks && q->stale_left && now < q->stale_until && emu_sdma_random(&q->random) & 1;

    if (stale) {
        q->stale_left--;
    } else {
        const uint32_t *from = word(q, q->head.src.va, 4, false);

        if (!from) {
            return false;
        }
        q->seen = __atomic_load_n(from, __ATOMIC_ACQUIRE);
        q->stale_left = config->stale_looks;
        q->stale_until = now + config->stale_ns;
    }
    q->looks++;
    q->stats.looks++;
    *value = q->seen & q->head.mask;
    return true;
}

/* A POLL has read a word. If a FENCE of this queue has written it, later packets are in order with operations before the
 * FENCE. */
static void fence_seen(emu_sdma_queue_t *q)
{
    for (uint64_t i = q->fences; i && q->fences - i < EMU_SDMA_FENCED; i--) {
        const emu_sdma_fenced_t *f = &q->fenced[(i - 1) % EMU_SDMA_FENCED];

        if (f->va == q->head.src.va && f->data == q->seen) {
            emu_sdma_in_order(q, f->at);
            return;
        }
    }
}

/* Finds the first POLL of memory that has not ended: at the head of the queue, or in the ring. */
static bool next_poll(emu_sdma_queue_t *q, emu_sdma_packet_t *packet, uint64_t *at)
{
    emu_sdma_gen_t gen = emu_sdma_node_of(q)->config.gen;
    emu_sdma_problem_t problem;
    uint32_t length;

    if (q->headed && q->head.kind == EMU_SDMA_POLL) {
        *packet = q->head;
        *at = q->head_at;
        return true;
    }
    for (*at = q->read; *at < q->limit; *at += 4ull * length) {
        uint64_t offset = *at & (q->ring.bytes - 1), have = q->limit - *at;
        uint32_t dw[EMU_SDMA_MAX_DWORDS] = {0};
        const void *from;
        int owner;

        have = have < q->ring.bytes - offset ? have : q->ring.bytes - offset;
        from = emu_sdma_touch(q, *at, q->ring.va + offset, have, false, &owner);
        if (!from) {
            return false;
        }
        memcpy(dw, from, have < sizeof(dw) ? have : sizeof(dw));
        length = emu_sdma_packet_length(gen, dw, have / 4, &problem);
        if (!length || length > have / 4 || !emu_sdma_decode(q, dw, packet, &problem)) {
            return false; /* is reported when it is fetched */
        }
        if (packet->kind == EMU_SDMA_POLL) {
            return true;
        }
    }
    return false;
}

void emu_sdma_fence_gates(emu_sdma_queue_t *q, uint64_t at)
{
    emu_sdma_packet_t p;
    const uint32_t *word;
    uint64_t poll_at;
    int owner;

    if (next_poll(q, &p, &poll_at) && poll_at > at &&
        (word = (const void *)emu_sdma_touch(q, poll_at, p.src.va, 4, false, &owner)) &&
        !holds(p.func, __atomic_load_n(word, __ATOMIC_ACQUIRE) & p.mask, p.reference)) {
        q->gate = poll_at;
        q->gated = at;
    }
}

static bool ends_early(emu_sdma_queue_t *q)
{
    const emu_sdma_config_t *config = &emu_sdma_node_of(q)->config;
    unsigned looks = config->early_polls;

    if (emu_sdma_is_injected(q, config->spoil_kinds, EMU_SDMA_POLL)) {
        return true;
    }
    return looks && !q->ring.spared && emu_sdma_random(&q->random) % looks == 0;
}

static emu_sdma_state_t poll(emu_sdma_queue_t *q, uint64_t now)
{
    const emu_sdma_packet_t *p = &q->head;
    uint32_t value;
    bool seen;

    if (now < q->next_look) {
        return EMU_SDMA_BLOCKED;
    }
    if (!look(q, now, &value)) {
        return emu_sdma_die(q);
    }
    seen = holds(p->func, value, p->reference);
    if (seen != holds(p->func, biased(value), biased(p->reference))) {
        emu_sdma_complain(q, q->head_at, EMU_SDMA_POLL_SIGN, "%#x against %#x", value, p->reference);
        return emu_sdma_die(q);
    }
    if (seen || ends_early(q)) {
        waited(q, now);
        if (seen) {
            fence_seen(q);
            if (q->head_at == q->gate) {
                emu_sdma_in_order(q, q->gated);
            }
        }
        q->stats.polls++;
        return EMU_SDMA_PROGRESSED;
    }
    if (p->retries != EMU_SDMA_FOREVER && q->looks > p->retries) {
        emu_sdma_complain(q, q->head_at, EMU_SDMA_POLL_RETRIES, "%#x after %u retries", value, p->retries);
        return emu_sdma_die(q);
    }
    q->waiting_since = q->waiting_since ? q->waiting_since : now;
    q->next_look = now + (uint64_t)p->interval * INTERVAL_NS;
    return EMU_SDMA_BLOCKED;
}

/* Returns whether a packet ends exactly `count` dwords after this place, before the write pointer and the end of the ring. */
static bool cond_region(emu_sdma_queue_t *q, uint64_t count)
{
    uint64_t offset = q->read & (q->ring.bytes - 1), done = 0;
    emu_sdma_problem_t problem;
    int owner;

    if (4 * count > q->limit - q->read || 4 * count > q->ring.bytes - offset) {
        emu_sdma_complain(q, q->head_at, EMU_SDMA_COND_CROSS, "%llu dwords reach beyond write pointer or ring",
                          (unsigned long long)count);
        return false;
    }
    while (done < count) {
        const void *from =
            emu_sdma_touch(q, q->head_at, q->ring.va + offset + 4 * done, 4 * (count - done), false, &owner);
        uint32_t dw[4] = {0}, length;

        if (!from) {
            return false;
        }
        memcpy(dw, from, count - done < 4 ? 4 * (count - done) : sizeof(dw));
        length = emu_sdma_packet_length(emu_sdma_node_of(q)->config.gen, dw, count - done, &problem);
        if (!length) {
            emu_sdma_complain(q, q->read + 4 * done, problem.rule, "%s", problem.text);
            return false;
        }
        done += length;
    }
    if (done != count) {
        emu_sdma_complain(q, q->head_at, EMU_SDMA_COND_CROSS, "%llu dwords end inside a packet",
                          (unsigned long long)count);
    }
    return done == count;
}

static emu_sdma_state_t cond_exe(emu_sdma_queue_t *q)
{
    const uint32_t *from = word(q, q->head.src.va, 4, false);
    uint32_t value;

    if (!from || !cond_region(q, q->head.count)) {
        return emu_sdma_die(q);
    }
    value = __atomic_load_n(from, __ATOMIC_ACQUIRE);
    if ((value != 0 && value != q->head.data) || q->head.data == 0) {
        emu_sdma_complain(q, q->head_at, EMU_SDMA_COND_VALUE, "%#x, reference %#x", value, q->head.data);
        return emu_sdma_die(q);
    }
    if (value == 0 && !emu_sdma_is_injected(q, emu_sdma_node_of(q)->config.spoil_kinds, EMU_SDMA_COND_EXE)) {
        q->stats.skipped += q->head.count;
        q->read += 4ull * q->head.count;
        emu_sdma_show_read(q);
    }
    return EMU_SDMA_PROGRESSED;
}

static uint64_t load(const void *from, unsigned width)
{
    return width == 4 ? __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
}

static bool replace(void *at, unsigned width, uint64_t old, uint64_t value)
{
    uint32_t old32 = (uint32_t)old;

    return width == 4
               ? __atomic_compare_exchange_n((uint32_t *)at, &old32, (uint32_t)value, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_ACQUIRE)
               : __atomic_compare_exchange_n((uint64_t *)at, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Applies an ATOMIC. False: a loop of compare-and-swap has not swapped yet. */
static bool apply(void *at, const emu_sdma_packet_t *p)
{
    uint64_t comparand = p->width == 4 ? (uint32_t)p->comparand : p->comparand, old, value;

    do {
        old = load(at, p->width);
        if (p->atomic == EMU_SDMA_COMPARE && old != comparand) {
            return !p->loop;
        }
        value = p->atomic == EMU_SDMA_ADD   ? old + p->operand
                : p->atomic == EMU_SDMA_SUB ? old - p->operand
                                            : p->operand;
    } while (!replace(at, p->width, old, value));
    return true;
}

static emu_sdma_state_t atomic(emu_sdma_queue_t *q, uint64_t now)
{
    const emu_sdma_packet_t *p = &q->head;
    void *to;

    if (now < q->next_look) {
        return EMU_SDMA_BLOCKED;
    }
    to = word(q, p->dst[0].va, p->width, true);
    if (!to) {
        return emu_sdma_die(q);
    }
    if (apply(to, p)) {
        waited(q, now);
        return EMU_SDMA_PROGRESSED;
    }
    q->waiting_since = q->waiting_since ? q->waiting_since : now;
    q->next_look = now + (uint64_t)p->interval * INTERVAL_NS;
    return EMU_SDMA_BLOCKED;
}

/* TRAP and ATOMIC, which wait for all operations before them. */
static emu_sdma_state_t drained(emu_sdma_queue_t *q, uint64_t now)
{
    if (q->ops) {
        return EMU_SDMA_BLOCKED;
    }
    q->past = 0;
    if (q->head.kind == EMU_SDMA_ATOMIC) {
        return atomic(q, now);
    }
    emu_sdma_node_of(q)->env.trap(emu_sdma_node_of(q)->env.ctx, q->engine->gpu, q->head.data);
    return EMU_SDMA_PROGRESSED;
}

static bool hangs(const emu_sdma_queue_t *q)
{
    const emu_sdma_config_t *config = &emu_sdma_node_of(q)->config;
    uint64_t bytes = q->head.row_bytes * q->head.rows * q->head.slices;

    return emu_sdma_is_injected(q, config->hang_kinds, q->head.kind) ||
           (config->hang_bytes && bytes >= config->hang_bytes && !q->ring.spared);
}

emu_sdma_state_t emu_sdma_head_execute(emu_sdma_queue_t *q, uint64_t now)
{
    const emu_sdma_node_t *node = emu_sdma_node_of(q);

    if (now < q->head_ready) {
        return EMU_SDMA_BLOCKED;
    }
    if (hangs(q)) {
        if (node->env.hang) {
            node->env.hang(node->env.ctx, q->engine->gpu, q->engine->id);
        }
        return EMU_SDMA_BLOCKED;
    }
    switch (q->head.kind) {
    case EMU_SDMA_TRAP:
    case EMU_SDMA_ATOMIC:
        return drained(q, now);
    case EMU_SDMA_POLL:
        return poll(q, now);
    case EMU_SDMA_COND_EXE:
        return cond_exe(q);
    case EMU_SDMA_TIMESTAMP:
        return timestamp(q, now);
    case EMU_SDMA_NOP:
    case EMU_SDMA_HDP_FLUSH: /* no effect: device memory is host memory on this node */
    case EMU_SDMA_PACKET_KINDS:
        return EMU_SDMA_PROGRESSED;
    default:
        return emu_sdma_op_begin(q, now);
    }
}
