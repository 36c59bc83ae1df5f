/* See sdma_bench.h. */
#include "sdma_bench.h"

#include "../unit/libunit.h"
#include <stdlib.h>
#include <string.h>

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

static char *translate(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where)
{
    bench_t *b = ctx;

    where->why = EMU_SDMA_WHY_UNMAPPED;
    for (unsigned i = 0; i < b->nsegments; i++) {
        const bench_segment_t *s = &b->segments[i];

        if (va < s->va || bytes > s->bytes || va - s->va > s->bytes - bytes || !(s->gpus & 1u << gpu)) {
            continue;
        }
        where->owner = s->owner;
        if (write && !s->writable) {
            where->why = EMU_SDMA_WHY_READ_ONLY;
            return NULL;
        }
        return s->host + (va - s->va);
    }
    return NULL;
}

static void report(void *ctx, emu_sdma_rule_t rule, const char *text)
{
    bench_t *b = ctx;

    b->reports[rule]++;
    b->reported++;
    snprintf(b->text, sizeof(b->text), "%s", text);
}

static void vm_fault(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why)
{
    (void)gpu;
    (void)va;
    (void)write;
    (void)why;
    ((bench_t *)ctx)->faults++;
}

static void trap(void *ctx, int gpu, uint32_t context)
{
    (void)gpu;
    ((bench_t *)ctx)->traps++;
    ((bench_t *)ctx)->trap = context;
}

static void reset(void *ctx, int gpu, int engine)
{
    (void)gpu;
    (void)engine;
    ((bench_t *)ctx)->resets++;
}

static uint64_t look_at_clock(void *ctx)
{
    bench_t *b = ctx;

    return b->now += b->tick;
}

static char *add_segment(bench_t *b, uint64_t va, uint64_t bytes, int owner, unsigned gpus, bool writable)
{
    bench_segment_t *s = &b->segments[b->nsegments++];

    *s = (bench_segment_t){va, bytes, owner, gpus, writable, aligned_alloc(4096, bytes)};
    ck_assert_ptr_nonnull(s->host);
    return s->host;
}

void bench_begin(bench_t *b, const emu_sdma_config_t *config)
{
    const emu_sdma_env_t env = {b, translate, report, vm_fault, trap, reset, look_at_clock, NULL, NULL};
    uint64_t random = config->seed, mixed;

    memset(b, 0, sizeof(*b));
    b->tick = 100;
    for (int g = 0; g < BENCH_GPUS; g++) {
        add_segment(b, BENCH_GPU(g), BENCH_BYTES, g, 0xf, true);
    }
    add_segment(b, BENCH_HOST, BENCH_BYTES, EMU_SDMA_HOST, 0xf, true);
    add_segment(b, BENCH_CONST, 4096, EMU_SDMA_HOST, 0xf, false);
    add_segment(b, BENCH_PRIVATE, 4096, 0, 1, true);
    for (unsigned i = 0; i < b->nsegments; i++) {
        for (uint64_t at = 0; at < b->segments[i].bytes; at += sizeof(random)) {
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            mixed = random ^ random >> 33; /* its low bits repeat early */
            memcpy(b->segments[i].host + at, &mixed, sizeof(mixed));
        }
    }
    b->node = emu_sdma_node_create(config, &env);
    ck_assert_ptr_nonnull(b->node);
}

void bench_end(bench_t *b)
{
    emu_sdma_node_destroy(b->node);
    for (unsigned i = 0; i < b->nsegments; i++) {
        free(b->segments[i].host);
    }
}

char *bench_at(bench_t *b, uint64_t va)
{
    emu_sdma_where_t where;
    char *host = translate(b, 0, va, 1, false, &where);

    if (!host) { /* an assertion on every call would be slow, because this is called often */
        ck_abort_msg("no memory at %#llx", (unsigned long long)va);
    }
    return host;
}

uint32_t *bench_word(bench_t *b, uint64_t va)
{
    return (uint32_t *)bench_at(b, va);
}

emu_sdma_engine_t *bench_engine(bench_t *b, int gpu, int id, emu_sdma_kind_t kind)
{
    emu_sdma_engine_t *engine = emu_sdma_engine_create(b->node, gpu, id, kind);

    ck_assert_ptr_nonnull(engine);
    return engine;
}

bench_queue_t *bench_queue(bench_t *b, unsigned i, emu_sdma_engine_t *engine, uint64_t bytes)
{
    bench_queue_t *q = &b->queues[i];
    emu_sdma_ring_t ring = {(int)i, BENCH_RING(i), bytes, &q->rptr, &q->wptr, &q->doorbell, false};

    q->ring = add_segment(b, BENCH_RING(i), bytes, EMU_SDMA_HOST, 0xf, false);
    memset(q->ring, 0xdb, bytes);
    q->bytes = bytes;
    q->engine = engine;
    q->queue = emu_sdma_queue_create(engine, &ring);
    ck_assert_ptr_nonnull(q->queue);
    return q;
}

void bench_put(bench_queue_t *q, const uint32_t *dw, unsigned n)
{
    uint64_t to_end = q->bytes - q->written % q->bytes, pad = 4ull * n > to_end ? to_end : 0;

    while (q->written + pad + 4ull * n - q->rptr >= q->bytes) {
        bench_ring(q);
        ck_assert_int_ne(emu_sdma_engine_step(q->engine, 16), EMU_SDMA_DEAD);
    }
    memset(q->ring + q->written % q->bytes, 0, pad);
    q->written += pad;
    memcpy(q->ring + q->written % q->bytes, dw, 4ull * n);
    q->written += 4ull * n;
}

void bench_ring(bench_queue_t *q)
{
    q->wptr = q->written;
    q->doorbell = q->written;
}

emu_sdma_state_t bench_run(emu_sdma_engine_t *engine, unsigned patience)
{
    emu_sdma_state_t state;
    unsigned blocked = 0;

    do {
        state = emu_sdma_engine_step(engine, 16);
        blocked = state == EMU_SDMA_BLOCKED ? blocked + 1 : 0;
    } while (state == EMU_SDMA_PROGRESSED || (state == EMU_SDMA_BLOCKED && blocked < patience));
    return state;
}

void put_copy(bench_queue_t *q, uint64_t dst, uint64_t src, uint64_t bytes)
{
    const uint32_t dw[] = {1, (uint32_t)bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst)};

    bench_put(q, dw, 7);
}

void put_broadcast(bench_queue_t *q, uint64_t dst, uint64_t dst2, uint64_t src, uint64_t bytes)
{
    const uint32_t dw[] = {0x08000001, (uint32_t)bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst), LO(dst2), HI(dst2)};

    bench_put(q, dw, 9);
}

void put_swap(bench_queue_t *q, uint64_t x, uint64_t y, uint64_t bytes)
{
    const uint32_t dw[] = {0x901, (uint32_t)bytes - 1, 0, LO(x), HI(x), LO(y), HI(y)};

    bench_put(q, dw, 7);
}

void put_fence(bench_queue_t *q, uint64_t va, uint32_t data)
{
    const uint32_t dw[] = {5, LO(va), HI(va), data};

    bench_put(q, dw, 4);
}

void put_trap(bench_queue_t *q, uint32_t context)
{
    const uint32_t dw[] = {6, context};

    bench_put(q, dw, 2);
}

void put_poll(bench_queue_t *q, unsigned func, uint64_t va, uint32_t reference, uint32_t retries)
{
    const uint32_t dw[] = {0x80000008 | func << 28, LO(va), HI(va), reference, 0xffffffff, retries << 16};

    bench_put(q, dw, 6);
}

void put_cond(bench_queue_t *q, uint64_t va, uint32_t count)
{
    const uint32_t dw[] = {9, LO(va), HI(va), 1, count};

    bench_put(q, dw, 5);
}

void put_atomic(bench_queue_t *q, unsigned code, uint64_t va, uint64_t operand, uint64_t comparand)
{
    const uint32_t dw[] = {10 | code << 25, LO(va), HI(va), LO(operand), HI(operand), LO(comparand), HI(comparand), 0};

    bench_put(q, dw, 8);
}

void put_fill(bench_queue_t *q, uint64_t va, uint32_t data, uint32_t bytes)
{
    const uint32_t dw[] = {0x8000000b, LO(va), HI(va), data, bytes - 1};

    bench_put(q, dw, 5);
}
