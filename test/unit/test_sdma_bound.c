/*
 * Communicators that share an engine's queues: what one of them puts into a queue concerns no other one, at whatever packet the
 * queue was full. What is released with a communicator or with the unit, and what stays.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/hw/packet.h"
#include "libsdma_stage.h"
#include "libunit.h"

/* ---- copies between shapes, through memory in between ---- */

#define ROWS_BYTES 8174 /* of rows of 61 and of 67 bytes alike */
#define PITCH      128
#define SPAN       (ROWS_BYTES / 61 * PITCH)

static dma_shape_t sent_shape = {.row = 67, .pitch = PITCH}, received_shape = {.row = 61, .pitch = PITCH};

/* An all-gather from rows into rows of another length: gathered, then scattered. */
typedef struct rows {
    stage_t s;
    char *send, *recv[STAGE_RANKS];
} rows_t;

static void rows_init(rows_t *r, int salt)
{
    r->send = stage_memory(SPAN);
    for (int i = 0; i < SPAN; i++) {
        r->send[i] = (char)(i * 7 + i / 256 + salt);
    }
    for (int k = 0; k < STAGE_RANKS; k++) {
        r->recv[k] = stage_memory(SPAN);
        r->s.targets[k] =
            (dma_target_t){.addr = (uint64_t)(uintptr_t)r->recv[k], .bytes = ROWS_BYTES, .shape = &received_shape};
    }
    r->s.run.send = (dma_blocks_t){.addr = r->send, .bytes = ROWS_BYTES};
    r->s.run.recv = (dma_blocks_t){.addr = r->recv[0], .bytes = ROWS_BYTES};
    r->s.run.shape = &sent_shape;
}

static void rows_free(rows_t *r)
{
    free(r->send);
    for (int k = 0; k < STAGE_RANKS; k++) {
        free(r->recv[k]);
    }
}

static void rows_clear(rows_t *r)
{
    for (int k = 0; k < STAGE_RANKS; k++) {
        memset(r->recv[k], 0, SPAN);
    }
}

/* The offset of byte x of a block. */
static uint64_t offset(const dma_shape_t *shape, uint64_t x)
{
    return shape ? x / shape->row * shape->pitch + x % shape->row : x;
}

static void rows_check(const rows_t *r)
{
    for (int k = 0; k < STAGE_RANKS; k++) {
        for (uint64_t x = 0; x < ROWS_BYTES; x++) {
            uint64_t to = offset(r->s.targets[k].shape, x), from = offset(r->s.run.shape, x);

            ck_assert_msg(r->recv[k][to] == r->send[from], "epoch %u: rank %d: byte %d", r->s.run.epoch, k, (int)x);
        }
    }
}

static void rows_finish(rows_t *r)
{
    dma_status_t status;

    while ((status = dma_gpu_engine_sdma.start(&r->s.run)) == DMA_AGAIN) {
        usleep(50);
    }
    ck_assert_int_eq(status, DMA_OK);
    stage_wait(&r->s);
    rows_check(r);
}

/* Room for so many dwords is left in a queue. Nothing of it is fetched yet. */
static void fill(dma_queue_t *queue, uint64_t left)
{
    for (;;) {
        uint64_t used = queue->ring.reserved - *queue->ring.mem.read_ptr, room = DMA_QUEUE_RING_BYTES - used - 4;
        uint64_t n = room / 4 > left ? room / 4 - left : 0;
        uint32_t *p;

        n = n < DMA_QUEUE_RING_BYTES / 8 ? n : DMA_QUEUE_RING_BYTES / 8; /* a group: at most half of the ring */
        if (!n || dma_ring_reserve(&queue->ring, (uint32_t)n, 1, &p) != DMA_OK) {
            break;
        }
        memset(p, 0, n * sizeof(*p)); /* nops */
    }
    dma_ring_publish(&queue->ring);
}

/* The queue of one is full somewhere in the middle; another does all of its own, and then the first goes on. */
START_TEST(turns_of_two)
{
    unsigned full = 0;
    rows_t a, b;

    stage_begin(&a.s, (fake_options_t){0});
    stage_begin_beside(&b.s, &a.s);
    ck_assert_ptr_eq(dma_sdma_binding(a.s.binding)->queues[1], dma_sdma_binding(b.s.binding)->queues[1]);
    rows_init(&a, 1);
    rows_init(&b, 101);
    for (uint64_t left = 0; left < 200; left += 5) {
        rows_clear(&a);
        rows_clear(&b);
        fake_hold(true);
        fill(dma_sdma_binding(a.s.binding)->queues[1], left);
        full += dma_gpu_engine_sdma.start(&a.s.run) == DMA_AGAIN;
        fake_hold(false);
        ck_assert(fake_quiet());
        rows_finish(&b);
        rows_finish(&a);
        a.s.run.epoch++;
        b.s.run.epoch++;
    }
    ck_assert_uint_gt(full, 20);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end_beside(&b.s);
    stage_end(&a.s);
    rows_free(&a);
    rows_free(&b);
}
END_TEST

/* One program copies a block to two peers. The block and either place may have a shape of its own, and only one of the two
 * copies may need temporary memory. The queue is full at different packets of them. */
START_TEST(two_destinations)
{
    unsigned full = 0;
    rows_t a;

    stage_begin(&a.s, (fake_options_t){0});
    dma_plan_free(a.s.plan);
    stage_plan(&a.s, "bcst", DMA_ALLGATHER, false);
    ck_assert_int_eq(a.s.plan->progs[1].ops[2].code, DMA_OP_COPY2);
    rows_init(&a, 1);
    a.s.run.shape = _i & 1 ? &sent_shape : NULL;
    a.s.targets[0].shape = NULL;
    a.s.targets[1].shape = _i & 2 ? &received_shape : NULL;
    a.s.targets[2].shape = _i & 4 ? &received_shape : NULL;
    for (uint64_t left = 5; left < 150; left += 48) {
        rows_clear(&a);
        fake_hold(true);
        fill(dma_sdma_binding(a.s.binding)->queues[a.s.plan->progs[1].link], left);
        full += dma_gpu_engine_sdma.start(&a.s.run) == DMA_AGAIN;
        fake_hold(false);
        rows_finish(&a);
        a.s.run.epoch++;
    }
    ck_assert_uint_gt(full, 0);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&a.s);
    rows_free(&a);
}
END_TEST

/* The communicator goes while its programs are under way: what they may write to does not. */
START_TEST(memory_stays_while_under_way)
{
    uint64_t temp[STAGE_RANKS + 1];
    rows_t a;

    stage_begin(&a.s, (fake_options_t){0});
    rows_init(&a, 1);
    fake_hold(true);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&a.s.run), DMA_OK);
    for (int i = 1; i <= STAGE_RANKS; i++) {
        temp[i] = dma_sdma_binding(a.s.binding)->shaped[i].temp;
        ck_assert_uint_ne(temp[i], 0);
    }
    ck_assert(!dma_gpu_engine_sdma.unbind(a.s.binding));
    a.s.binding = NULL;
    ck_assert_uint_eq(fake_gpu_calls("free"), 0);
    fake_hold(false);
    stage_wait(&a.s);
    rows_check(&a);
    for (int i = 1; i <= STAGE_RANKS; i++) {
        fake_gpu_free((void *)(uintptr_t)temp[i]);
    }
    stage_end(&a.s);
    rows_free(&a);
}
END_TEST

/* Queues that still wait are left on purpose. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_queue";
}

/* A unit goes with a queue that has not come to its end: so do not the queue, and what its packets may write to. */
START_TEST(late_at_the_end)
{
    fake_gpu_options_t options = {.devices = 1, .seed = unit_seed()};
    fake_options_t late = {.running = true, .seed = unit_seed(), .gen = EMU_SDMA_GFX942, .late = 3, .left = true};
    const dma_map_pick_t host = {.kind = DMA_MAP_HOST};
    dma_sdma_unit_t *unit = calloc(1, sizeof(*unit));
    char reason[DMA_PROVIDER_WHY_BYTES];
    dma_gpu_scope_t scope;

    unit->rt = fake_gpu_start(&options);
    fake_begin(&late);
    ck_assert_int_eq(dma_queues_open(&unit->queues, fake_providers, "auto", &fake_gpu, &host, reason), DMA_OK);
    ck_assert_int_eq(unit->rt->enter(0, &scope), DMA_OK);
    for (uint32_t i = 0; i < 2; i++) {
        dma_map_pick_t pick = {.kind = DMA_MAP_ENGINE, .engine = 2 + i};
        dma_queue_t *queue = dma_queue_get(&unit->queues, &pick, i);
        uint32_t *p;

        ck_assert_int_eq(unit->rt->alloc(DMA_QUEUE_TEMP, &queue->temp), DMA_OK);
        ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_FENCE_DWORDS, 1, &p), DMA_OK);
        dma_packet_fence(p, queue->go_addr, 1);
        dma_ring_publish(&queue->ring);
    }
    unit->rt->leave(&scope);
    ck_assert(fake_quiet());
    dma_gpu_engine_sdma.close((dma_gpu_unit_t *)unit);
    ck_assert_uint_eq(fake_gpu_calls("free"), 1);
    fake_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_bound");

    unit_test(s, turns_of_two, 60);
    unit_loop(s, two_destinations, 0, 8, 30);
    unit_test(s, memory_stays_while_under_way, 20);
    unit_test(s, late_at_the_end, 30);
    return unit_main(s);
}
