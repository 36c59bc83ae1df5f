/*
 * Queues of one GPU: which are shared, what happens when the driver has none left, queues of one user, and when a queue is
 * taken for broken.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/hw/packet.h"
#include "engine/sdma/proof/proof.h"
#include "libkfd_fake.h"
#include "libunit.h"

static dma_sdma_unit_t unit;

/* The pick for the queue that each process has from the begin on. */
static const dma_map_pick_t host = {.kind = DMA_MAP_HOST};

static void begin(fake_options_t options)
{
    char reason[DMA_PROVIDER_WHY_BYTES];
    dma_status_t status;

    options.running = true;
    options.seed = unit_seed();
    options.gen = EMU_SDMA_GFX942;
    fake_begin(&options);
    status = dma_queues_open(&unit.queues, fake_providers, "auto", &fake_gpu, &host, reason);
    ck_assert_msg(status == DMA_OK, "%s", reason);
}

static void end(void)
{
    dma_queues_close(&unit.queues);
    fake_end();
}

static dma_map_pick_t on_engine(uint32_t engine, uint32_t candidates)
{
    return (dma_map_pick_t){.kind = DMA_MAP_ENGINE, .engine = engine, .candidates = candidates};
}

/* Writes a word, and waits for it. */
static void works(dma_queue_t *queue)
{
    static _Thread_local uint32_t value;
    _Atomic uint32_t *word = queue->go; /* of the queue's own line, as both sides see it */
    uint32_t *p;

    ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_FENCE_DWORDS, 1, &p), DMA_OK);
    dma_packet_fence(p, queue->go_addr, ++value);
    dma_ring_publish(&queue->ring);
    ck_assert(fake_quiet());
    ck_assert_uint_eq(atomic_load(word), value);
}

START_TEST(one_for_each_engine)
{
    dma_map_pick_t xgmi = {.kind = DMA_MAP_XGMI}, four = on_engine(4, 0), five = on_engine(5, 0);
    dma_queue_t *q[6];

    begin((fake_options_t){0});
    q[0] = dma_queue_get(&unit.queues, &four, 1);
    q[1] = dma_queue_get(&unit.queues, &five, 2);
    q[2] = dma_queue_get(&unit.queues, &host, 0);
    q[3] = dma_queue_get(&unit.queues, &xgmi, 3);
    q[4] = dma_queue_get(&unit.queues, &xgmi, 4); /* another peer: the driver may have another engine */
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < i; k++) {
            ck_assert_ptr_ne(q[i], q[k]);
            ck_assert_uint_ne(q[i]->go_addr, q[k]->go_addr);
            ck_assert_uint_ne(q[i]->step_addr, q[k]->step_addr);
        }
        works(q[i]);
    }
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &four, 9), q[0]);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &host, 9), q[2]);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &xgmi, 4), q[4]);
    ck_assert_uint_eq(fake_counts.made, 5);
    end();
    ck_assert_uint_eq(fake_broken(), 0);
}
END_TEST

/* No room: an engine that would do as well, and no other: what it does for a link that is not its own is not known. */
START_TEST(none_left)
{
    dma_map_pick_t two = on_engine(2, 1 << 3), three = on_engine(3, 0), four = on_engine(4, 1 << 3),
                   five = on_engine(5, 0);
    dma_queue_t *a, *b;

    begin((fake_options_t){.max_queues = 3});
    a = dma_queue_get(&unit.queues, &two, 1);
    b = dma_queue_get(&unit.queues, &three, 2);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &four, 3), b);
    ck_assert_ptr_null(dma_queue_get(&unit.queues, &five, 3));
    ck_assert_ptr_null(dma_queue_get_exclusive(&unit.queues, &five, 3));
    works(a);
    end();
}
END_TEST

/* Who has given a queue back does not count any more. */
START_TEST(least_used)
{
    dma_map_pick_t four = on_engine(4, 0), five = on_engine(5, 0), any = {.kind = DMA_MAP_XGMI};
    dma_queue_t *a, *b;

    begin((fake_options_t){.max_queues = 3});
    a = dma_queue_get(&unit.queues, &four, 1);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &four, 1), a);
    b = dma_queue_get(&unit.queues, &five, 2);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &five, 2), b);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &five, 2), b);
    dma_queue_put(&unit.queues, a);
    dma_queue_put(&unit.queues, b);
    dma_queue_put(&unit.queues, b);
    dma_queue_put(&unit.queues, b);
    ck_assert_ptr_eq(dma_queue_get(&unit.queues, &any, 3), b);
    end();
}
END_TEST

START_TEST(old_driver)
{
    dma_map_pick_t four = on_engine(4, 0);
    dma_queue_t *a, *b;

    begin((fake_options_t){.minor = 16});
    a = dma_queue_get(&unit.queues, &four, 1);
    b = dma_queue_get(&unit.queues, &four, 2);
    ck_assert_ptr_ne(a, b); /* by peer: which engine it is, the driver knows */
    ck_assert_ptr_null(dma_queue_get_exclusive(&unit.queues, &four, 1));
    works(a);
    works(b);
    end();
}
END_TEST

/* Nobody else gets it, and its place is free again afterwards: more in a row than there are places. */
START_TEST(of_one_user)
{
    dma_map_pick_t four = on_engine(4, 0);
    dma_queue_t *own, *other;

    begin((fake_options_t){0});
    for (int i = 0; i < 70; i++) {
        own = dma_queue_get_exclusive(&unit.queues, &four, 1);
        ck_assert_ptr_nonnull(own);
        ck_assert_uint_eq(atomic_exchange(own->step_word, 7), 0); /* nothing of who had its line before */
        if (i == 0) {
            other = dma_queue_get(&unit.queues, &four, 1);
            ck_assert_ptr_ne(other, own);
            works(own);
        }
        dma_queue_put_exclusive(&unit.queues, own);
    }
    works(other);
    end();
}
END_TEST

START_TEST(taken_for_broken)
{
    dma_queue_t *queue;
    int64_t error = 0;
    int looks = 0;
    uint32_t *p;

    begin((fake_options_t){0});
    queue = dma_queue_get(&unit.queues, &host, 0);
    ck_assert_int_eq(dma_queue_check(queue, 0.01, NULL), DMA_OK); /* it has nothing to do */
    works(queue);
    ck_assert_int_eq(dma_queue_check(queue, 0.01, NULL), DMA_OK);
    /* it has, and does not move */
    ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS, 1, &p), DMA_OK);
    dma_packet_poll(p, queue->go_addr, DMA_PACKET_EQUAL, 12345, UINT32_MAX, 4);
    fake_hold(true);
    dma_ring_publish(&queue->ring);
    ck_assert_int_eq(dma_queue_check(queue, 0.2, NULL), DMA_OK); /* not for long yet */
    usleep(20000);
    ck_assert_int_eq(dma_queue_check(queue, 0.2, NULL), DMA_OK); /* nudged, and not for long since */
    ck_assert_uint_eq(queue->ring.count.nudges, 1);
    while (dma_queue_check(queue, 0.2, NULL) == DMA_OK) { /* a pause counts for an eighth of the time */
        looks++;
        ck_assert_int_lt(looks, 10);
        usleep(30000);
    }
    ck_assert_int_gt(looks, 6);
    ck_assert_int_eq(dma_queue_check(queue, HUGE_VAL, NULL), DMA_OK);
    fake_hold(false);
    atomic_store(queue->go, 12345);
    ck_assert(fake_quiet());
    ck_assert_int_eq(dma_queue_check(queue, 0.01, NULL), DMA_OK); /* late was not dead */
    /* the driver says that something has befallen it */
    queue->made.error = &error;
    ck_assert_int_eq(dma_queue_check(queue, HUGE_VAL, NULL), DMA_OK);
    error = 1;
    ck_assert_int_eq(dma_queue_check(queue, HUGE_VAL, NULL), DMA_ERR_ENGINE);
    end();
}
END_TEST

/* Packets that wait for a word. The read pointer passes a packet when it is fetched: the fence remains while the POLL waits. */
static void publish_wait(dma_queue_t *queue, uint64_t word_addr, uint32_t value)
{
    uint32_t *p, n;

    ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS + DMA_PACKET_FENCE_DWORDS, 2, &p), DMA_OK);
    n = dma_packet_poll(p, word_addr, DMA_PACKET_EQUAL, value, UINT32_MAX, 4);
    dma_packet_fence(p + n, queue->step_addr, 1);
    dma_ring_publish(&queue->ring);
}

/* At work: with packets left, except where all of them wait for a start. Of those, only what they read counts. */
START_TEST(busy_where_work_is_left)
{
    static _Alignas(4096) _Atomic uint32_t start[2048];
    dma_queue_t *queue;
    uint64_t ring;

    begin((fake_options_t){0});
    ck_assert(!dma_queues_busy(&unit.queues, 0));
    queue = dma_queue_get(&unit.queues, &host, 0);
    ring = (uint64_t)(uintptr_t)queue->made.ring;
    works(queue);
    ck_assert(!dma_queues_busy(&unit.queues, 0));
    ck_assert(!dma_queues_busy(&unit.queues, 0x1000));
    ck_assert(dma_queues_busy(&unit.queues, ring));
    ck_assert(dma_queues_busy(&unit.queues, ring + DMA_QUEUE_RING_BYTES - 1));
    ck_assert(!dma_queues_busy(&unit.queues, ring + DMA_QUEUE_RING_BYTES));
    publish_wait(queue, queue->go_addr, 12345);
    ck_assert(dma_queues_busy(&unit.queues, 0));
    atomic_store(&queue->start, 40);
    atomic_store(&queue->start_word, &start[0]);
    ck_assert(!dma_queues_busy(&unit.queues, 0));
    ck_assert(!dma_queues_busy(&unit.queues, 0x1000));
    ck_assert(dma_queues_busy(&unit.queues, (uint64_t)(uintptr_t)&start[1]));
    ck_assert(!dma_queues_busy(&unit.queues, (uint64_t)(uintptr_t)&start[1024]));
    ck_assert(dma_queues_busy(&unit.queues, queue->go_addr));
    for (uint32_t word = 39; word < 43; word++) {
        atomic_store(&start[0], word);
        ck_assert_int_eq(dma_queues_busy(&unit.queues, 0), word == 40 || word == 41); /* started; revoked behind it */
    }
    atomic_store(queue->go, 12345);
    ck_assert(fake_quiet());
    atomic_store(&start[0], 40);
    ck_assert(!dma_queues_busy(&unit.queues, 0));
    pthread_mutex_lock(&unit.queues.lock);
    ck_assert(dma_queues_busy(&unit.queues, 0)); /* a queue is being made: never wait for that */
    pthread_mutex_unlock(&unit.queues.lock);
    end();
}
END_TEST

/* A queue of the self-test is late and not stuck, and moves on during the trial of the next packet. The memory that it uses is
 * still there then, and nothing else uses it. At the end nothing is left. The packet that was tried on this queue is not used;
 * the others are. */
START_TEST(late_in_the_self_test)
{
    static const struct {
        unsigned queue; /* that is late: the first is the one for copies, then one for each packet */
        uint32_t lacks;
        const char *named;
    } cases[] = {{2, DMA_GEN_TIMESTAMP, "timestamp"},      {3, DMA_GEN_RECT, "strides"},
                 {4, DMA_GEN_BROADCAST, "broadcast"},      {5, DMA_GEN_SWAP, "swap"},
                 {6, DMA_GEN_POLL | DMA_GEN_COND, "poll"}, {7, DMA_GEN_COND, "prelaunch"}};
    char advice[DMA_GPU_ADVICE_BYTES] = "", wanted[64];
    const char *reason;
    uint32_t all;

    begin((fake_options_t){.late = cases[_i].queue, .late_until = cases[_i].queue + 1});
    unit.limited = *dma_gen_find(0x74a1, 90402, &reason);
    unit.gen = &unit.limited;
    all = unit.limited.has;
    ck_assert_ptr_null(dma_sdma_selftest(&unit, advice));
    ck_assert_uint_eq(unit.limited.has, all & ~cases[_i].lacks);
    snprintf(wanted, sizeof(wanted), "%s failed in the self-test (hangs)", cases[_i].named);
    ck_assert_str_eq(advice, wanted);
    fake_late_goes();
    ck_assert(fake_quiet());
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    end();
    ck_assert_uint_eq(fake_broken(), 0);
}
END_TEST

/* The fence of a trial comes when nobody waits for it any more, and the queue has fetched everything. The queue is not destroyed before,
 * and nothing else uses the memory. */
START_TEST(late_fence_in_the_self_test)
{
    const uint64_t late_ns = UINT64_C(1000000000000);
    char advice[DMA_GPU_ADVICE_BYTES] = "", rule[32];
    const char *reason;

    snprintf(rule, sizeof(rule), "late-fence:%d", _i ? 7 : 4); /* of one packet, or of two */
    begin((fake_options_t){0});
    unit.limited = *dma_gen_find(0x74a1, 90402, &reason);
    unit.gen = &unit.limited;
    fake_lose(rule, late_ns);
    ck_assert_ptr_null(dma_sdma_selftest(&unit, advice));
    ck_assert_ptr_nonnull(strstr(advice, "failed in the self-test (hangs)"));
    fake_skip_time(late_ns);
    ck_assert(fake_quiet());
    end();
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
}
END_TEST

/* A packet that does not do what it should is not used, and the reason is told. */
START_TEST(wrong_in_the_self_test)
{
    static const struct {
        emu_sdma_packet_kind_t kind;
        uint32_t lacks;
        const char *told;
    } cases[] = {
        {EMU_SDMA_RECT, DMA_GEN_RECT, "strides failed in the self-test (wrong data)"},
        {EMU_SDMA_BROADCAST, DMA_GEN_BROADCAST, "broadcast failed in the self-test (wrong data)"},
        {EMU_SDMA_SWAP, DMA_GEN_SWAP, "swap failed in the self-test (wrong data)"},
        {EMU_SDMA_POLL, DMA_GEN_POLL | DMA_GEN_COND,
         "poll failed in the self-test (a POLL ends before its word has the value)"},
        {EMU_SDMA_COND_EXE, DMA_GEN_COND, "prelaunch failed in the self-test (the condition is not obeyed)"},
        {EMU_SDMA_TIMESTAMP, DMA_GEN_TIMESTAMP, "timestamp failed in the self-test (wrong data)"},
        {EMU_SDMA_COPY, 0, NULL},
    };
    fake_options_t options = {.spoil_kinds = 1u << cases[_i].kind};
    char advice[DMA_GPU_ADVICE_BYTES] = "";
    const char *reason, *wrong;
    uint32_t all = 0;

    begin(options);
    /* On a busy machine the copy behind a POLL may come too late to be noticed, or only in what uses POLL. */
    for (int k = 0; k < (cases[_i].told ? 20 : 1) && (!k || strcmp(advice, cases[_i].told)); k++) {
        advice[0] = 0;
        unit.limited = *dma_gen_find(0x74a1, 90402, &reason);
        unit.gen = &unit.limited;
        all = unit.limited.has;
        wrong = dma_sdma_selftest(&unit, advice);
        ck_assert_str_eq(wrong ? wrong : "", cases[_i].told ? "" : "a queue on the device does not do what it is told");
        ck_assert(fake_quiet());
    }
    ck_assert_uint_eq(unit.limited.has, all & ~cases[_i].lacks);
    ck_assert_str_eq(advice, cases[_i].told ? cases[_i].told : "");
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    end();
}
END_TEST

enum { LEAVERS = 2, LEFT = 100000 };

static const dma_provider_ops_t *provider_ops;
static unsigned freed;

static void *leave(void *arg)
{
    static char memory;

    pthread_barrier_wait(arg);
    for (int i = 0; i < LEFT; i++) {
        dma_queues_free_at_close(&unit.queues, &memory, 1);
    }
    return NULL;
}

static void count_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    if (bytes == 1) {
        freed++;
    } else {
        provider_ops->free(provider, memory, bytes);
    }
}

/* Communicators that end at once, in several threads, leave memory: all of it is freed. */
START_TEST(left_by_several_threads)
{
    dma_provider_ops_t ops;
    pthread_t threads[LEAVERS];
    pthread_barrier_t all;

    begin((fake_options_t){0});
    provider_ops = unit.queues.provider->ops;
    ops = *provider_ops;
    ops.free = count_free;
    unit.queues.provider->ops = &ops;
    pthread_barrier_init(&all, NULL, LEAVERS);
    for (int i = 0; i < LEAVERS; i++) {
        pthread_create(&threads[i], NULL, leave, &all);
    }
    for (int i = 0; i < LEAVERS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&all);
    end();
    ck_assert_uint_eq(freed, LEAVERS * LEFT);
}
END_TEST

/* The self-test says what it lacks, and a fault is the reason for all that follows from it. */
START_TEST(cannot_be_tested)
{
    char advice[DMA_GPU_ADVICE_BYTES] = "";
    const char *reason;

    begin((fake_options_t){.max_queues = 1});
    unit.limited = *dma_gen_find(0x74a1, 90402, &reason);
    unit.gen = &unit.limited;
    atomic_store(unit.queues.owner, 0); /* as in a forked child: there is no memory to be had */
    ck_assert_str_eq(dma_sdma_selftest(&unit, advice), "no memory for the self-test");
    atomic_store(unit.queues.owner, 1);
    unit.queues.list->exclusive = true; /* the only queue there may be is another's */
    ck_assert_str_eq(dma_sdma_selftest(&unit, advice), "no queue for the self-test");
    unit.queues.list->exclusive = false;
    atomic_store(&unit.fault.happened, true);
    ck_assert_str_eq(dma_sdma_selftest(&unit, advice), "the GPU faulted in the self-test");
    atomic_store(&unit.fault.happened, false);
    ck_assert(fake_quiet());
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_queue");

    unit_test(s, one_for_each_engine, 20);
    unit_test(s, none_left, 20);
    unit_test(s, least_used, 20);
    unit_test(s, old_driver, 20);
    unit_test(s, of_one_user, 20);
    unit_test(s, taken_for_broken, 20);
    unit_test(s, busy_where_work_is_left, 20);
    unit_loop(s, late_in_the_self_test, 0, 6, 20);
    unit_loop(s, late_fence_in_the_self_test, 0, 2, 20);
    unit_loop(s, wrong_in_the_self_test, 0, 7, 20);
    unit_test(s, left_by_several_threads, 20);
    unit_test(s, cannot_be_tested, 20);
    return unit_main(s);
}
