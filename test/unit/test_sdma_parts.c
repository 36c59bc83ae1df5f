/*
 * Runs with partitions on the sdma engine: that each unit goes when all its partitions are ready, and not before, without a
 * doorbell; that the CPU does what is left if they are out of order or late; and that nothing waits when a run is given up.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dma/parts.h"
#include "libsdma_stage.h"
#include "libunit.h"

/* Units of two partitions each. Receivers have as many partitions as there are units, or, rank 2, half of them. */
enum { UNITS = 4, SPARTS = 2 * UNITS, UNIT_BYTES = STAGE_BYTES / UNITS, BANK = 64 };

typedef struct parted {
    stage_t s;
    dma_parts_t parts;
    dma_run_parts_t run;
    dma_parts_target_t targets[STAGE_RANKS];
    uint32_t *ready, *arrived; /* two banks; of `arrived`: for each rank */
    uint64_t rung;             /* doorbells when it was armed */
} parted_t;

static uint32_t rparts_of(int rank)
{
    return rank == 2 ? UNITS / 2 : UNITS;
}

static void begin(parted_t *p, double patience, double seconds)
{
    memset(p, 0, sizeof(*p));
    stage_begin(&p->s, (fake_options_t){0});
    p->ready = (uint32_t *)(void *)stage_memory(2 * BANK * sizeof(uint32_t));
    p->arrived = (uint32_t *)(void *)stage_memory(STAGE_RANKS * 2 * BANK * sizeof(uint32_t));
    p->parts = (dma_parts_t){.magic = DMA_PARTS_MAGIC,
                             .units = UNITS,
                             .sparts = SPARTS,
                             .rparts = UNITS,
                             .block = STAGE_BYTES,
                             .ready = p->ready,
                             .ready_distance = BANK};
    for (uint32_t u = 0; u < UNITS; u++) {
        p->parts.unit[u] = (dma_parts_unit_t){u * UNIT_BYTES, UNIT_BYTES, 2 * u, 2 * u + 2};
    }
    for (int r = 0; r < STAGE_RANKS; r++) {
        p->targets[r] = (dma_parts_target_t){(uint64_t)(uintptr_t)(p->arrived + r * 2 * BANK), BANK * sizeof(uint32_t),
                                             rparts_of(r)};
    }
    p->run = (dma_run_parts_t){.parts = &p->parts,
                               .first_epoch = p->s.run.epoch,
                               .patience = patience,
                               .seconds = seconds,
                               .targets = p->targets};
    p->s.run.parts = &p->run;
}

static void end(parted_t *p)
{
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&p->s);
    free(p->ready);
    free(p->arrived);
}

static uint64_t doorbells(parted_t *p)
{
    return dma_counters_read(&p->s.counters, DMA_COUNT_doorbells, NULL);
}

static void arm(parted_t *p)
{
    uint64_t bytes;

    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&p->s.run, &bytes), DMA_OK);
    ck_assert_uint_eq(bytes, 3 * STAGE_BYTES);
    p->rung = doorbells(p);
}

static void start(parted_t *p)
{
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&p->s.run), DMA_OK);
    stage_release(&p->s);
}

static uint32_t bank(const parted_t *p)
{
    return (p->s.run.epoch - p->run.first_epoch) % 2 * BANK;
}

static void make_ready(parted_t *p, uint32_t part)
{
    __atomic_store_n(&p->ready[bank(p) + part], DMA_PARTS_READY, __ATOMIC_RELEASE);
}

static void make_unit(parted_t *p, uint32_t unit)
{
    make_ready(p, 2 * unit + 1);
    make_ready(p, 2 * unit);
}

static bool word_of(const parted_t *p, int rank, uint32_t part)
{
    return __atomic_load_n(&p->arrived[rank * 2 * BANK + (int)(bank(p) + part)], __ATOMIC_ACQUIRE) != 0;
}

static bool has_unit(const parted_t *p, int rank, uint32_t unit)
{
    size_t at = unit * UNIT_BYTES;

    return !memcmp(p->s.recv[rank] + at, p->s.send + at, UNIT_BYTES);
}

/* A unit has come to all ranks, or those of two to rank 2; its bytes are there when the word is. */
static void wait_unit(parted_t *p, uint32_t unit, bool both)
{
    for (int r = 0; r < STAGE_RANKS; r++) {
        bool half = r == 2;

        if (half && !both) {
            continue;
        }
        for (int k = 0; !word_of(p, r, half ? unit / 2 : unit); k++) {
            ck_assert_int_lt(k, 100000);
            ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p->s.run), DMA_OK);
            usleep(100);
        }
        ck_assert(has_unit(p, r, unit) && (!half || has_unit(p, r, unit ^ 1)));
    }
}

static void wait_all(parted_t *p)
{
    for (int q = 0; q + 1 < (int)p->s.plan->nprogs; q++) {
        for (int k = 0; stage_line(&p->s, q) != p->s.run.epoch; k++) {
            ck_assert_int_lt(k, 100000);
            ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p->s.run), DMA_OK);
            usleep(100);
        }
    }
    dma_gpu_engine_sdma.end(p->s.binding);
}

static void expect_nothing(const parted_t *p, uint32_t unit)
{
    for (int r = 0; r < STAGE_RANKS; r++) {
        ck_assert(!has_unit(p, r, unit) && !word_of(p, r, r == 2 ? unit / 2 : unit));
    }
}

/* What the library does between rounds. */
static void next_round(parted_t *p)
{
    p->s.run.epoch++;
    memset(p->ready + bank(p), 0, BANK * sizeof(uint32_t));
    for (int r = 0; r < STAGE_RANKS; r++) {
        memset(p->arrived + r * 2 * BANK + bank(p), 0, BANK * sizeof(uint32_t));
        memset(p->s.recv[r], 0, STAGE_RANKS * STAGE_BYTES);
    }
}

/* In order: no doorbell behind that of arming, neither before nor after the start. */
START_TEST(in_order)
{
    parted_t p;

    begin(&p, 1000, 1000);
    for (int round = 0; round < 6; round++) {
        arm(&p);
        if (round % 2) {
            make_unit(&p, 0); /* before the start */
        }
        usleep(2000);
        expect_nothing(&p, 0);
        start(&p);
        for (uint32_t u = 0; u < UNITS; u++) {
            if (u > 0 || round % 2 == 0) {
                make_ready(&p, 2 * u + 1);
                usleep(1000);
                expect_nothing(&p, u); /* half of it */
                make_ready(&p, 2 * u);
            }
            wait_unit(&p, u, u % 2);
            ck_assert(!word_of(&p, 2, u / 2) || u % 2);
        }
        wait_all(&p);
        ck_assert_uint_eq(doorbells(&p), p.rung);
        next_round(&p);
    }
    ck_assert_uint_eq(stage_reasons(&p.s, DMA_REASON_parts_order), 0);
    end(&p);
}
END_TEST

/* A unit waits behind one that is not ready: the CPU does the rest of the round in any order, and the next is armed as before. */
START_TEST(out_of_order)
{
    static const uint32_t orders[][UNITS] = {{3, 2, 1, 0}, {0, 3, 1, 2}, {0, 1, 3, 2}, {2, 0, 3, 1}};
    const uint32_t *order = orders[_i];
    parted_t p;

    begin(&p, 0.001, 1000);
    for (uint64_t round = 1; round < 4; round++) {
        arm(&p);
        start(&p);
        for (int k = 0; k < UNITS; k++) {
            bool sent[UNITS] = {false};

            for (int i = 0; i <= k; i++) {
                sent[order[i]] = true;
            }
            make_unit(&p, order[k]);
            wait_unit(&p, order[k], sent[order[k] ^ 1]);
            for (uint32_t u = 0; u < UNITS; u++) {
                if (!sent[u]) {
                    expect_nothing(&p, u);
                }
            }
        }
        wait_all(&p);
        ck_assert_uint_eq(stage_reasons(&p.s, DMA_REASON_parts_order), round);
        next_round(&p);
    }
    ck_assert_uint_eq(stage_reasons(&p.s, DMA_REASON_parts_late), 0);
    end(&p);
}
END_TEST

/* No engine waits for longer than it may: not for partitions, and the CPU waits for them instead. */
START_TEST(late)
{
    parted_t p;

    begin(&p, 1000, 0.01);
    arm(&p);
    start(&p);
    make_unit(&p, 0);
    wait_unit(&p, 0, false);
    for (int k = 0; stage_reasons(&p.s, DMA_REASON_parts_late) == 0; k++) {
        ck_assert_int_lt(k, 100000);
        ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p.s.run), DMA_OK);
        usleep(100);
    }
    ck_assert(fake_quiet());
    for (uint32_t u = 1; u < UNITS; u++) {
        expect_nothing(&p, u);
        make_unit(&p, u);
        wait_unit(&p, u, u % 2);
    }
    wait_all(&p);
    ck_assert_uint_eq(stage_reasons(&p.s, DMA_REASON_parts_late), 1);
    end(&p);
}
END_TEST

/* A run that fails, half of it ready: no queue waits, nothing of what was not ready is copied, and all queues are destroyed. */
START_TEST(given_up)
{
    parted_t p;

    begin(&p, _i == 2 ? 0 : 1000, 1000);
    arm(&p);
    start(&p);
    make_unit(&p, 0);
    wait_unit(&p, 0, false);
    if (_i > 0) { /* the CPU has a part in it */
        make_unit(&p, 2);
        for (int k = 0; k < 50; k++) {
            ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p.s.run), DMA_OK);
            usleep(100);
        }
    }
    ck_assert(dma_gpu_engine_sdma.unbind(p.s.binding));
    p.s.binding = NULL;
    ck_assert(fake_quiet());
    for (const dma_queue_t *q = ((dma_sdma_unit_t *)p.s.unit)->queues.list; q; q = q->next) {
        ck_assert(!q->exclusive);
    }
    expect_nothing(&p, 1);
    expect_nothing(&p, 3);
    end(&p);
}
END_TEST

/* A run that has started and waits for peers: what is ready is not copied, no queue waits, and it is never let go. */
START_TEST(given_up_before_peers)
{
    parted_t p;

    begin(&p, 0, 0);
    arm(&p);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&p.s.run), DMA_OK);
    make_unit(&p, 0);
    make_unit(&p, 2);
    for (int k = 0; k < 50; k++) { /* it is not late before it has been let go */
        ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p.s.run), DMA_OK);
        usleep(100);
    }
    ck_assert_uint_eq(stage_reasons(&p.s, DMA_REASON_parts_order) + stage_reasons(&p.s, DMA_REASON_parts_late), 0);
    dma_gpu_engine_sdma.disarm(p.s.binding);
    ck_assert(fake_quiet());
    stage_release(&p.s); /* by a peer that is late */
    for (int k = 0; k < 50; k++) {
        ck_assert_int_eq(dma_gpu_engine_sdma.advance(&p.s.run), DMA_OK);
        usleep(100);
    }
    ck_assert(dma_gpu_engine_sdma.unbind(p.s.binding));
    p.s.binding = NULL;
    for (uint32_t u = 0; u < UNITS; u++) {
        expect_nothing(&p, u);
    }
    end(&p);
}
END_TEST

/* Programs that are removed before their start do not wait for partitions, and their words are as they were. */
START_TEST(revoked)
{
    parted_t p;

    begin(&p, 1000, 1000);
    for (int k = 0; k < 4; k++) {
        arm(&p);
        make_ready(&p, 3);
        dma_gpu_engine_sdma.disarm(p.s.binding);
        ck_assert(fake_quiet());
        for (uint32_t u = 0; u < UNITS; u++) {
            expect_nothing(&p, u);
        }
        for (uint32_t i = 0; i < SPARTS; i++) {
            ck_assert_uint_eq(p.ready[bank(&p) + i], i == 3);
        }
        p.s.run.epoch += 2;
    }
    arm(&p);
    start(&p);
    for (uint32_t u = 0; u < UNITS; u++) {
        make_unit(&p, u);
        wait_unit(&p, u, u % 2);
    }
    wait_all(&p);
    end(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_parts");

    unit_test(s, in_order, 40);
    unit_loop(s, out_of_order, 0, 4, 40);
    unit_test(s, late, 40);
    unit_loop(s, given_up, 0, 3, 40);
    unit_test(s, given_up_before_peers, 40);
    unit_test(s, revoked, 40);
    return unit_main(s);
}
