/* The ring of an SDMA queue against engines made of plain memory: one that we step, one that is a thread. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/hw/packet.h"
#include "engine/sdma/hw/ring.h"
#include "libsdma_decode.h"
#include "libunit.h"

#define BYTES    DMA_RING_MIN
#define DWORDS   (BYTES / 4)
#define STARTS   3
#define FUZZ     20000
#define THREADED 8000
#define POISON   0x77 /* no packet begins with it */

/* A queue: its ring alone on the heap, so that the sanitizer sees a step beyond either end. */
typedef struct queue {
    uint32_t *ring;
    uint64_t rptr, wptr, doorbell;
    uint64_t at;   /* the engine's own place */
    uint32_t next; /* the value of the next fence */
    dma_ring_t r;
} queue_t;

/* Counters begin where 32 bits end, too. */
static const uint64_t starts[STARTS] = {0, (UINT64_C(1) << 32) - 512, (UINT64_C(1) << 40) + 2044};

static void make(queue_t *q, uint64_t start)
{
    dma_ring_memory_t mem;

    *q = (queue_t){.rptr = start, .wptr = start, .at = start};
    q->ring = malloc(BYTES);
    memset(q->ring, POISON, BYTES);
    mem = (dma_ring_memory_t){q->ring, BYTES, &q->rptr, &q->wptr, &q->doorbell};
    ck_assert_int_eq(dma_ring_init(&q->r, &mem), DMA_OK);
}

static void unmake(queue_t *q)
{
    free(q->ring);
}

static dma_status_t reserve(queue_t *q, uint32_t dwords, uint32_t **p)
{
    return dma_ring_reserve(&q->r, dwords, 1, p);
}

/* Fills room with nops of one dword, for tests that count bytes only. */
static void fill(uint32_t *p, uint32_t dwords)
{
    memset(p, 0, dwords * sizeof(*p));
}

static void put(queue_t *q, uint32_t dwords)
{
    uint32_t *p;

    ck_assert_int_eq(reserve(q, dwords, &p), DMA_OK);
    fill(p, dwords);
}

START_TEST(init_checks_memory)
{
    uint32_t ring[16];
    uint64_t rptr = 0, wptr = 0, bell = 0;
    dma_ring_t r;
    dma_ring_memory_t good = {ring, DMA_RING_MIN, &rptr, &wptr, &bell}, bad;

    ck_assert_int_eq(dma_ring_init(&r, &good), DMA_OK);
    bad = good, bad.bytes = DMA_RING_MIN / 2;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    bad = good, bad.bytes = DMA_RING_MIN * 3;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    bad = good, bad.ring = NULL;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    bad = good, bad.read_ptr = NULL;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    bad = good, bad.write_ptr = NULL;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    bad = good, bad.doorbell = NULL;
    ck_assert_int_eq(dma_ring_init(&r, &bad), DMA_ERR_ARG);
    wptr = 8; /* somebody's packets are still in it */
    ck_assert_int_eq(dma_ring_init(&r, &good), DMA_ERR_ARG);
    rptr = wptr = 6;
    ck_assert_int_eq(dma_ring_init(&r, &good), DMA_ERR_ARG);
}
END_TEST

START_TEST(nothing_is_told_before_publish)
{
    queue_t q;
    uint64_t first, second;

    make(&q, 0);
    put(&q, 7);
    put(&q, 4);
    ck_assert_uint_eq(q.wptr, 0);
    ck_assert_uint_eq(q.doorbell, 0);
    first = dma_ring_publish(&q.r);
    ck_assert_uint_eq(first, 44);
    ck_assert_uint_eq(q.wptr, 44);
    ck_assert_uint_eq(q.doorbell, 44);
    ck_assert_uint_eq(q.r.count.doorbells, 1);
    ck_assert_uint_eq(q.r.count.packets, 2);
    /* a second batch behind one that is under way */
    put(&q, 6);
    second = dma_ring_publish(&q.r);
    ck_assert_int_eq(dma_ring_consumed(&q.r, first), DMA_AGAIN);
    q.rptr = 40;
    ck_assert_int_eq(dma_ring_consumed(&q.r, first), DMA_AGAIN);
    q.rptr = 44;
    ck_assert_int_eq(dma_ring_consumed(&q.r, first), DMA_OK);
    ck_assert_int_eq(dma_ring_consumed(&q.r, second), DMA_AGAIN);
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_AGAIN);
    q.rptr = 68;
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_OK);
    ck_assert_int_eq(dma_ring_consumed(&q.r, second), DMA_OK);
    /* with nothing new there is nothing to tell */
    ck_assert_uint_eq(dma_ring_publish(&q.r), second);
    ck_assert_uint_eq(q.r.count.doorbells, 2);
    ck_assert_uint_eq(q.r.count.packets, 3);
    unmake(&q);
}
END_TEST

START_TEST(dropped_groups_leave_no_trace)
{
    queue_t q;
    uint32_t *p, *again;

    make(&q, 0);
    put(&q, 4);
    dma_ring_publish(&q.r);
    ck_assert_int_eq(reserve(&q, 7, &p), DMA_OK);
    put(&q, 100);
    dma_ring_drop(&q.r);
    ck_assert_uint_eq(dma_ring_publish(&q.r), 16);
    ck_assert_uint_eq(q.r.count.doorbells, 1);
    ck_assert_int_eq(reserve(&q, 4, &again), DMA_OK);
    ck_assert_ptr_eq(again, p);
    fill(again, 4);
    ck_assert_uint_eq(dma_ring_publish(&q.r), 32);
    ck_assert_uint_eq(q.r.count.packets, 2);
    unmake(&q);
}
END_TEST

/* One dword less than the ring is all that fits; what does not fit changes nothing. */
START_TEST(full_is_strictly_less)
{
    queue_t q;
    uint32_t *p = NULL;

    make(&q, 0);
    put(&q, DWORDS / 2);
    put(&q, DWORDS / 2 - 1);
    ck_assert_int_eq(reserve(&q, 1, &p), DMA_AGAIN);
    ck_assert_ptr_null(p);
    ck_assert_uint_eq(q.r.count.full, 1);
    ck_assert_uint_eq(dma_ring_publish(&q.r), BYTES - 4);
    ck_assert_int_eq(reserve(&q, 1, &p), DMA_AGAIN);
    q.rptr = 4;
    put(&q, 1);
    ck_assert_int_eq(reserve(&q, 1, &p), DMA_AGAIN);
    ck_assert_uint_eq(dma_ring_publish(&q.r), BYTES);
    ck_assert_int_eq(reserve(&q, DWORDS / 2 + 1, &p), DMA_ERR_ARG);
    ck_assert_int_eq(reserve(&q, 0, &p), DMA_ERR_ARG);
    ck_assert_ptr_null(p);
    unmake(&q);
}
END_TEST

/* The end of the ring is filled with zeroes, and the pad counts as used. */
START_TEST(pads_at_the_end)
{
    queue_t q;
    uint32_t *p;

    make(&q, 0);
    put(&q, DWORDS / 2);
    put(&q, DWORDS / 2 - 3);
    dma_ring_publish(&q.r);
    q.rptr = BYTES / 2;
    ck_assert_int_eq(reserve(&q, 4, &p), DMA_OK);
    ck_assert_ptr_eq(p, q.ring);
    fill(p, 4);
    for (int i = DWORDS - 3; i < DWORDS; i++) {
        ck_assert_uint_eq(q.ring[i], 0);
    }
    ck_assert_uint_eq(q.r.count.pads, 1);
    ck_assert_uint_eq(dma_ring_publish(&q.r), BYTES + 16);
    unmake(&q);

    /* a group that ends with the ring needs no pad, and the next begins at its start */
    make(&q, 0);
    put(&q, DWORDS / 2);
    dma_ring_publish(&q.r);
    q.rptr = BYTES / 2;
    put(&q, DWORDS / 2);
    ck_assert_int_eq(reserve(&q, 5, &p), DMA_OK);
    ck_assert_ptr_eq(p, q.ring);
    ck_assert_uint_eq(q.r.count.pads, 0);
    unmake(&q);
}
END_TEST

/* Wherever the ring stands, an idle one has room for the largest group. */
START_TEST(largest_group_always_fits_at_last)
{
    queue_t q;

    make(&q, 0);
    for (uint32_t i = 0; i < 3 * DWORDS; i++) {
        put(&q, i % (DWORDS / 2) + 1);
        q.rptr = dma_ring_publish(&q.r);
        put(&q, DWORDS / 2);
        dma_ring_drop(&q.r);
    }
    unmake(&q);
}
END_TEST

/* A read pointer that overtakes us or points into a dword is no working queue's. */
START_TEST(nonsense_from_the_engine)
{
    static const uint64_t nonsense[] = {48, 1 << 20, UINT64_MAX, 34};

    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        queue_t q;
        uint32_t *p;

        make(&q, 0);
        put(&q, 8);
        q.rptr = dma_ring_publish(&q.r);
        ck_assert_int_eq(dma_ring_idle(&q.r), DMA_OK);
        put(&q, 2);
        dma_ring_publish(&q.r);
        q.rptr = nonsense[i];
        ck_assert_int_eq(dma_ring_idle(&q.r), DMA_ERR_ENGINE);
        put(&q, DWORDS / 2);
        ck_assert_int_eq(reserve(&q, DWORDS / 2, &p), DMA_ERR_ENGINE);
        unmake(&q);
    }
}
END_TEST

/* One that goes back was late: what has been consumed stays so, and the next one counts. */
START_TEST(late_read_pointer)
{
    queue_t q;
    uint64_t end;

    make(&q, 0);
    put(&q, 8);
    q.rptr = dma_ring_publish(&q.r);
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_OK);
    q.rptr = 12;
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_OK);
    put(&q, 2);
    end = dma_ring_publish(&q.r);
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_AGAIN);
    ck_assert_uint_eq(q.r.read, 32);
    q.rptr = end;
    ck_assert_int_eq(dma_ring_idle(&q.r), DMA_OK);
    unmake(&q);
}
END_TEST

/* A nudge is a packet that does nothing, with a doorbell; without room, the old doorbell again. */
START_TEST(nudges)
{
    queue_t q;
    uint64_t end;
    uint32_t *p;

    make(&q, 0);
    put(&q, 8);
    end = dma_ring_publish(&q.r);
    dma_ring_nudge(&q.r);
    ck_assert_uint_eq(q.r.published, end + 4);
    ck_assert_uint_eq(q.doorbell, end + 4);
    ck_assert_uint_eq(q.wptr, end + 4);
    ck_assert_uint_eq(q.ring[8], 0);
    put(&q, 4); /* somebody is building: nothing of that is published */
    dma_ring_nudge(&q.r);
    ck_assert_uint_eq(q.r.published, end + 4);
    dma_ring_publish(&q.r);
    while (reserve(&q, 1, &p) == DMA_OK) {
        *p = 1;
    }
    end = dma_ring_publish(&q.r);
    q.doorbell = 0;
    dma_ring_nudge(&q.r);
    ck_assert_uint_eq(q.r.published, end);
    ck_assert_uint_eq(q.doorbell, end);
    ck_assert_uint_eq(q.r.count.nudges, 3);
    unmake(&q);
}
END_TEST

/* The engine takes one packet: its fences must come in order. */
static void engine_step(queue_t *q, uint64_t end)
{
    uint64_t at = q->at % BYTES;
    size_t left = (size_t)((BYTES - at < end - q->at ? BYTES - at : end - q->at) / 4);
    sdma_packet_t d;
    const char *why = "";
    size_t n = sdma_decode(q->ring + at / 4, left, &d, &why);

    ck_assert_msg(n > 0, "at %llu: %s", (unsigned long long)q->at, why);
    if (d.kind == SDMA_FENCE) {
        ck_assert_uint_eq(d.value, q->next);
        q->next++;
    }
    memset(q->ring + at / 4, POISON, n * 4);
    q->at += n * 4;
}

/* A group of fences, or of copies and a fence, of up to the largest size. Its fences are *value and so on. */
static void build(uint32_t *p, uint32_t dwords, uint32_t *value)
{
    const char *reason;
    const dma_gen_t *gen = dma_gen_find(0x74a1, 90402, &reason);

    while (dwords >= DMA_PACKET_COPY_DWORDS + DMA_PACKET_FENCE_DWORDS) {
        p += dma_packet_copy(p, gen, 64, 128, 64);
        p += dma_packet_fence(p, 256, (*value)++);
        dwords -= DMA_PACKET_COPY_DWORDS + DMA_PACKET_FENCE_DWORDS;
    }
    if (dwords) {
        fill(p, dwords);
    }
}

static uint32_t group(unsigned *seed)
{
    int r = rand_r(seed);

    return (uint32_t)(r % 16 ? r / 16 % 80 : r / 16 % (DWORDS / 2)) + 1;
}

START_TEST(fuzz)
{
    queue_t q;
    unsigned seed = (unsigned)unit_seed() + (unsigned)_i;
    uint32_t value = 0, mark = 0, *p;
    uint64_t told = starts[_i], fulls = 0;

    make(&q, told);
    for (int i = 0; i < FUZZ; i++) {
        switch (rand_r(&seed) % 8) {
        case 0:
        case 1:
        case 2: {
            uint32_t dwords = group(&seed), before = (uint32_t)q.r.reserved;
            dma_status_t status = reserve(&q, dwords, &p);
            if (status == DMA_OK) {
                ck_assert(p >= q.ring && p + dwords <= q.ring + DWORDS);
                build(p, dwords, &value);
            } else {
                ck_assert_int_eq(status, DMA_AGAIN);
                ck_assert_uint_eq((uint32_t)q.r.reserved, before);
                fulls++;
            }
            break;
        }
        case 3:
            told = dma_ring_publish(&q.r);
            mark = value;
            break;
        case 4:
            if (rand_r(&seed) % 8 == 0) {
                dma_ring_drop(&q.r);
                value = mark;
            }
            break;
        default:
            for (int k = rand_r(&seed) % 32; k > 0 && q.at < q.wptr; k--) {
                engine_step(&q, q.wptr);
            }
            q.rptr = q.at;
            ck_assert_int_eq(dma_ring_consumed(&q.r, told), q.at >= told ? DMA_OK : DMA_AGAIN);
        }
        ck_assert_uint_eq(q.wptr, told);
        ck_assert_uint_lt(q.r.reserved - q.at, BYTES);
    }
    while (q.at < q.wptr) {
        engine_step(&q, q.wptr);
    }
    ck_assert_uint_eq(q.next, mark);
    ck_assert_uint_gt(q.r.count.pads, 100);
    ck_assert_uint_gt(fulls, 100);
    ck_assert_uint_eq(fulls, q.r.count.full);
    unmake(&q);
}
END_TEST

/* An engine that is woken by the doorbell or, on odd rounds, finds the write pointer by itself. */
static void *engine_thread(void *arg)
{
    queue_t *q = arg;

    for (unsigned round = 0; q->next < THREADED; round++) {
        uint64_t end = __atomic_load_n(round % 2 ? &q->wptr : &q->doorbell, __ATOMIC_ACQUIRE);
        if (end > q->at) {
            /* the write pointer is never behind the doorbell */
            ck_assert_uint_ge(__atomic_load_n(&q->wptr, __ATOMIC_RELAXED), end);
            while (q->at < end) {
                engine_step(q, end);
            }
            __atomic_store_n(&q->rptr, q->at, __ATOMIC_RELEASE);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

START_TEST(beside_an_engine)
{
    queue_t q;
    pthread_t engine;
    unsigned seed = (unsigned)unit_seed();
    uint32_t value = 0, *p;

    make(&q, starts[_i]);
    q.doorbell = starts[_i];
    ck_assert_int_eq(pthread_create(&engine, NULL, engine_thread, &q), 0);
    while (value < THREADED) {
        uint32_t dwords = group(&seed);
        dma_status_t status;
        while ((status = reserve(&q, dwords, &p)) == DMA_AGAIN) {
            dma_ring_publish(&q.r);
            sched_yield();
        }
        ck_assert_int_eq(status, DMA_OK);
        build(p, dwords, &value);
        if (rand_r(&seed) % 4 == 0) {
            dma_ring_publish(&q.r);
        }
    }
    dma_ring_publish(&q.r);
    ck_assert_int_eq(pthread_join(engine, NULL), 0);
    ck_assert_uint_ge(q.next, THREADED);
    unmake(&q);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma ring");

    unit_test(suite, init_checks_memory, 5);
    unit_test(suite, nothing_is_told_before_publish, 5);
    unit_test(suite, dropped_groups_leave_no_trace, 5);
    unit_test(suite, full_is_strictly_less, 5);
    unit_test(suite, pads_at_the_end, 5);
    unit_test(suite, largest_group_always_fits_at_last, 10);
    unit_test(suite, nonsense_from_the_engine, 5);
    unit_test(suite, late_read_pointer, 5);
    unit_test(suite, nudges, 5);
    unit_loop(suite, fuzz, 0, STARTS, 30);
    unit_loop(suite, beside_an_engine, 0, STARTS, 60);
    return unit_main(suite);
}
