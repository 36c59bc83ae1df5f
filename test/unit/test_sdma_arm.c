/*
 * Armed programs of the sdma engine: what is in their queues, read back by a decoder of the test; that they run when all ranks
 * have started and not before; that revoked programs do nothing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libsdma_decode.h"
#include "libsdma_stage.h"
#include "libunit.h"

static uint64_t armed_bytes;

/* How often this thread has looked at the clock, as waits do after each pause. */
static _Thread_local unsigned looks;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    looks++;
    return __real_clock_gettime(clock, t);
}

/* Has our block arrived at a rank? */
static bool arrived(const stage_t *s, int rank)
{
    return !memcmp(s->recv[rank], s->send, STAGE_BYTES);
}

static bool untouched(const stage_t *s, int rank)
{
    for (int i = 0; i < STAGE_RANKS * STAGE_BYTES; i++) {
        if (s->recv[rank][i]) {
            return false;
        }
    }
    return true;
}

/* ---- what stands in the queues ---- */

static size_t decode(const uint32_t *p, size_t left, sdma_packet_t *packet)
{
    const char *why = "";
    size_t n = sdma_decode(p, left, packet, &why);

    ck_assert_msg(n > 0, "%s", why);
    return n;
}

/* A program from dword `at` on: one wait and one condition, whatever it copies. Returns where it ends. */
static size_t expect_program(const stage_t *s, const dma_queue_t *queue, size_t at, int peer)
{
    const uint32_t *ring = queue->ring.mem.ring;
    size_t all = queue->ring.published / 4, covered;
    sdma_packet_t p;

    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_POLL);
    ck_assert_uint_eq(p.addr, (uint64_t)(uintptr_t)stage_trigger(s));
    ck_assert_uint_eq(p.mask, UINT32_MAX - 1); /* a start, or one given up */
    ck_assert_uint_eq(p.value, 2 * s->run.epoch);
    ck_assert_uint_eq(p.test, 3);
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_COND);
    ck_assert_uint_eq(p.addr, queue->go_addr + 4 * (s->run.epoch % 2));
    ck_assert_uint_eq(p.value, 1);
    covered = at + p.covered;
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_COPY);
    ck_assert_uint_eq(p.src, (uint64_t)(uintptr_t)s->send);
    ck_assert_uint_eq(p.dst, s->targets[peer].addr);
    ck_assert_uint_eq(p.bytes, STAGE_BYTES);
    at += decode(ring + at, all - at, &p);
    ck_assert_int_eq(p.kind, SDMA_FENCE);
    ck_assert_uint_eq(p.addr, (uint64_t)(uintptr_t)dma_window_queue(&s->window, 0, peer - 1) +
                                  dma_engine_line_offset(s->run.epoch));
    ck_assert_uint_eq(p.value, s->run.epoch);
    ck_assert_uint_eq(at, covered); /* given up, all of it is skipped, the line too, and nothing behind it */
    return at;
}

static dma_queue_t *armed_queue(const stage_t *s, int program)
{
    return dma_sdma_binding(s->binding)->armed_queues[program];
}

/* Of two epochs, one behind the other. */
START_TEST(packets)
{
    size_t at[3] = {0};
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    ck_assert(fake_quiet());
    fake_hold(true);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
        ck_assert_uint_eq(armed_bytes, 2 * STAGE_BYTES);
        ck_assert_ptr_nonnull(armed_queue(&s, 1));
        ck_assert_ptr_nonnull(armed_queue(&s, 2));
        ck_assert_ptr_null(armed_queue(&s, 3)); /* the own block's */
        ck_assert_ptr_ne(armed_queue(&s, 1), armed_queue(&s, 2));
        at[1] = expect_program(&s, armed_queue(&s, 1), at[1], 1);
        ck_assert_uint_eq(at[1] * 4, armed_queue(&s, 1)->ring.published);
        at[2] = expect_program(&s, armed_queue(&s, 2), at[2], 2);
        ck_assert_uint_eq(at[2] * 4, armed_queue(&s, 2)->ring.published);
        ck_assert_uint_eq(*stage_trigger(&s), 2 * s.run.epoch - 1);
        if (k == 0) {
            ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
            s.run.epoch++;
        }
    }
    fake_hold(false);
    dma_gpu_engine_sdma.disarm(s.binding);
    ck_assert(fake_quiet()); /* the own block has begun */
    stage_end(&s);
}
END_TEST

/* ---- what they do ---- */

static void clear(stage_t *s)
{
    for (int r = 0; r < STAGE_RANKS; r++) {
        memset(s->recv[r], 0, STAGE_RANKS * STAGE_BYTES);
    }
}

static bool all_arrived(const stage_t *s)
{
    return arrived(s, 0) && arrived(s, 1) && arrived(s, 2);
}

/* After 2^32 runs, epochs begin again at 0. */
static const uint32_t first_epochs[] = {5, UINT32_MAX - 2, UINT32_MAX - 3};

/* The next run is armed while the present one waits or runs: it begins when it is let go, not before. */
START_TEST(runs_when_all_have_started)
{
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    s.run.epoch = first_epochs[_i];
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    for (int k = 0; k < 8; k++) {
        uint32_t epoch = s.run.epoch;

        clear(&s);
        ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
        if (k % 3 == 0) {
            s.run.epoch++;
            ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
            s.run.epoch = epoch;
        }
        dma_trigger_release(stage_trigger(&s), epoch - 2); /* by a rank that is late by two runs */
        usleep(2000);
        ck_assert(untouched(&s, 1) && untouched(&s, 2));
        ck_assert(!dma_window_queue_reached(&s.window, 0, 0, epoch));
        stage_release(&s);
        if (k % 3 == 1) {
            s.run.epoch++;
            ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
            s.run.epoch = epoch;
        }
        stage_wait(&s);
        ck_assert(all_arrived(&s));
        dma_gpu_engine_sdma.end(s.binding);
        s.run.epoch++;
        if (k % 3 == 2) {
            ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
        }
    }
    dma_gpu_engine_sdma.disarm(s.binding);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

/* Given up: no byte, no line, whoever lets it go then; and the same epoch can be started by the processor, or armed once more. */
START_TEST(given_up)
{
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    s.run.epoch = first_epochs[_i];
    for (int k = 0; k < 6; k++) {
        clear(&s);
        ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
        dma_gpu_engine_sdma.disarm(s.binding);
        ck_assert_uint_eq(*stage_trigger(&s), 2 * s.run.epoch + 1);
        stage_release(&s);
        ck_assert(fake_quiet());
        ck_assert_uint_eq(*stage_trigger(&s), 2 * s.run.epoch + 1);
        for (int r = 0; r < STAGE_RANKS; r++) {
            ck_assert(untouched(&s, r));
            ck_assert_uint_ne(stage_line(&s, r), s.run.epoch);
        }
        ck_assert_int_eq(k % 2 ? dma_gpu_engine_sdma.arm(&s.run, &armed_bytes) : DMA_OK, DMA_OK);
        ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
        stage_release(&s);
        stage_wait(&s);
        ck_assert(all_arrived(&s));
        s.run.epoch++;
    }
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

static void *let_move(void *arg)
{
    (void)arg;
    usleep(20000);
    fake_hold(false);
    return NULL;
}

/* The engines have seen neither that one run may go nor that the next may not. */
static void revoke_while_held(stage_t *s)
{
    pthread_t thread;

    pthread_create(&thread, NULL, let_move, NULL);
    dma_gpu_engine_sdma.disarm(s->binding);
    pthread_join(thread, NULL);
}

/* What has been let go is not given up, although the next run is: it comes to its end. */
START_TEST(let_go_before_it_is_given_up)
{
    uint32_t epoch;
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    epoch = s.run.epoch++;
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    fake_hold(true);
    dma_trigger_release(dma_window_trigger(&s.window, 0, epoch), epoch);
    revoke_while_held(&s);
    s.run.epoch = epoch;
    stage_wait(&s);
    ck_assert(all_arrived(&s));
    ck_assert(dma_sdma_is_quiet(dma_sdma_binding(s.binding)));
    clear(&s);
    ck_assert(fake_quiet());
    ck_assert(untouched(&s, 0) && untouched(&s, 1) && untouched(&s, 2));
    stage_end(&s);
}
END_TEST

/* This rank has started, others have not, and it fails: nothing runs, nothing waits, and the queues can go at once. */
START_TEST(given_up_behind_the_start)
{
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    s.run.epoch++;
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    s.run.epoch--;
    dma_gpu_engine_sdma.disarm(s.binding);
    stage_release(&s);
    ck_assert(fake_quiet());
    ck_assert(arrived(&s, 0) && untouched(&s, 1) && untouched(&s, 2));
    for (int q = 0; q < 2; q++) {
        ck_assert_uint_ne(stage_line(&s, q), s.run.epoch);
    }
    ck_assert(dma_sdma_is_quiet(dma_sdma_binding(s.binding)));
    looks = 0;
    ck_assert(dma_gpu_engine_sdma.unbind(s.binding));
    ck_assert_uint_lt(looks, 50); /* it does not wait for lines that will not come */
    s.binding = NULL;
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

/* The own block is not armed: it begins with the start, on an engine of its own, and waits for nobody. */
START_TEST(own_block)
{
    dma_sdma_unit_t *unit;
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    unit = (dma_sdma_unit_t *)s.unit;
    for (int k = 0; k < 4; k++) {
        clear(&s);
        ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
        ck_assert_uint_eq(armed_bytes, 2 * STAGE_BYTES);
        usleep(2000);
        ck_assert(untouched(&s, 0));
        fake_hold(true);
        ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
        ck_assert(dma_sdma_busy(unit, 0x100000));
        fake_hold(false);
        while (stage_line(&s, 2) != s.run.epoch) {
            usleep(100);
        }
        ck_assert(arrived(&s, 0) && untouched(&s, 1) && untouched(&s, 2));
        ck_assert(!dma_sdma_busy(unit, 0x100000)); /* the others wait */
        if (k < 3) {
            stage_release(&s);
            stage_wait(&s);
            ck_assert(all_arrived(&s));
            s.run.epoch++;
        }
    }
    dma_gpu_engine_sdma.disarm(s.binding);
    ck_assert(dma_sdma_is_quiet(dma_sdma_binding(s.binding)));
    ck_assert(fake_quiet() && untouched(&s, 1) && untouched(&s, 2));
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

/* Queues that still wait are left on purpose. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_queue";
}

/* An engine reaches a revoked program so late that nobody waits for it any more. The same epoch is started without this program.
 * When the engine gets to the program, its run has ended long ago, and nothing that is armed behind it makes it run. */
START_TEST(given_up_and_late)
{
    fake_options_t options = {.left = _i};
    stage_t s;

    stage_begin(&s, options);
    options.late = fake_counts.made + 1; /* the first that is made for an armed program */
    stage_end(&s);
    stage_begin(&s, options);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    dma_gpu_engine_sdma.disarm(s.binding);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    stage_release(&s);
    stage_wait(&s);
    ck_assert(arrived(&s, 1));
    memset(s.recv[1], 0, STAGE_RANKS * STAGE_BYTES);
    s.run.epoch++;
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_uint_eq(dma_sdma_binding(s.binding)->trigger, 0); /* and then no more */
    if (_i == 0) {
        fake_late_goes();
        ck_assert(fake_quiet());
        ck_assert(untouched(&s, 1));
    }
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    stage_wait(&s);
    ck_assert(arrived(&s, 1));
    ck_assert_int_eq(dma_gpu_engine_sdma.unbind(s.binding), _i == 0); /* it may still look at its words */
    s.binding = NULL;
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

/* ---- what is not armed ---- */

static void expect_nothing(stage_t *s)
{
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s->run, &armed_bytes), DMA_UNSUPPORTED);
    for (int i = 1; i <= STAGE_RANKS; i++) {
        dma_queue_t *queue = dma_sdma_binding(s->binding)->armed_queues[i];

        if (queue) {
            ck_assert_uint_eq(queue->ring.published, 0);
            ck_assert_uint_eq(queue->ring.reserved, 0);
        }
    }
    dma_gpu_engine_sdma.disarm(s->binding);
    ck_assert_uint_eq(*stage_trigger(s), 0); /* there is nothing to give up */
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s->run), DMA_OK);
    stage_wait(s);
}

/* A program of more packets than one condition covers: none of the run's is armed, those that would fit neither. */
START_TEST(too_long_a_program)
{
    static const uint64_t counts[STAGE_RANKS] = {STAGE_BYTES, STAGE_BYTES, 3 * 4096};
    stage_t s;
    dma_gen_t gen;

    stage_begin(&s, (fake_options_t){0});
    gen = *((dma_sdma_unit_t *)s.unit)->gen;
    gen.max_copy = 8; /* 12288 bytes are 1536 packets */
    ((dma_sdma_unit_t *)s.unit)->gen = &gen;
    dma_plan_free(s.plan);
    stage_plan(&s, "pcpy", DMA_ALLTOALLV, false);
    s.run.send.counts = counts;
    s.run.send.displs = (int64_t[]){0, 0, 0};
    expect_nothing(&s);
    ck_assert(!memcmp(s.recv[2], s.send, 3 * 4096));
    ck_assert_uint_eq(dma_sdma_binding(s.binding)->trigger, 0);
    stage_end(&s);
}
END_TEST

/* The next run does not fit while the present one runs: that one comes to its end on queues that are still there. */
START_TEST(not_for_the_next_run)
{
    stage_t s;
    dma_gen_t gen;

    stage_begin(&s, (fake_options_t){0});
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    fake_hold(true);
    stage_release(&s);
    gen = *((dma_sdma_unit_t *)s.unit)->gen;
    gen.max_copy = 1; /* as many packets as bytes */
    ((dma_sdma_unit_t *)s.unit)->gen = &gen;
    s.run.epoch++;
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_uint_eq(dma_sdma_binding(s.binding)->trigger, 0);
    s.run.epoch--;
    ck_assert_ptr_nonnull(armed_queue(&s, 1));
    ck_assert_ptr_nonnull(armed_queue(&s, 2));
    fake_hold(false);
    stage_wait(&s);
    ck_assert(all_arrived(&s));
    ck_assert(dma_gpu_engine_sdma.unbind(s.binding));
    s.binding = NULL;
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    stage_end(&s);
}
END_TEST

/* Nor does the next run fit when the read pointers of this one are lost: its queues are left, and what they may read stays. */
START_TEST(given_up_and_left)
{
    stage_t s;
    dma_gen_t gen;

    stage_begin(&s, (fake_options_t){.left = true});
    fake_lose("drop-read-pointer:1/1", 1);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    ck_assert_int_eq(dma_gpu_engine_sdma.start(&s.run), DMA_OK);
    stage_release(&s);
    stage_wait(&s);
    dma_gpu_engine_sdma.end(s.binding);
    gen = *((dma_sdma_unit_t *)s.unit)->gen;
    gen.max_copy = 1; /* as many packets as bytes */
    ((dma_sdma_unit_t *)s.unit)->gen = &gen;
    s.run.epoch++;
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_ptr_null(armed_queue(&s, 1));
    ck_assert(!dma_gpu_engine_sdma.unbind(s.binding));
    s.binding = NULL;
    fake_lose("", 1);
    stage_end(&s);
}
END_TEST

/* An exchange that is not by exchange packets alone. */
START_TEST(exchange_through_memory)
{
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    dma_plan_free(s.plan);
    stage_plan(&s, "swap", DMA_ALLTOALL, true);
    s.run.recv.bytes = STAGE_BYTES - 1;
    expect_nothing(&s);
    ck_assert_uint_eq(dma_sdma_binding(s.binding)->trigger, 0);
    stage_end(&s);
}
END_TEST

/* Engines that serve two of us, or nobody knows which: they must not wait. And where there is no queue left. */
START_TEST(queues_that_must_not_wait)
{
    unsigned before;
    stage_t s;

    stage_begin(&s, (fake_options_t){.minor = _i == 0 ? 16 : 0, .max_queues = _i == 2 ? 4 : 0});
    if (_i == 1) {
        dma_gpu_engine_sdma.unbind(s.binding);
        s.traits[2].node = s.traits[1].node;
        stage_bind(&s);
        s.run.binding = s.binding;
    }
    before = fake_counts.made;
    expect_nothing(&s);
    ck_assert_uint_le(fake_counts.made - before, _i == 2 ? 1 : 0);
    ck_assert_ptr_null(dma_sdma_binding(s.binding)->armed_queues[1]); /* what there was has been given back */
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    ck_assert_uint_le(fake_counts.made - before, _i == 2 ? 1 : 0); /* and is not asked for again */
    ck_assert_uint_eq(dma_sdma_binding(s.binding)->trigger, 0);
    stage_end(&s);
}
END_TEST

/* A child of the process that made the queues must not write into them. */
START_TEST(queues_of_the_parent)
{
    dma_sdma_unit_t *unit;
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    unit = (dma_sdma_unit_t *)s.unit;
    atomic_store(unit->queues.owner, 0);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_UNSUPPORTED);
    atomic_store(unit->queues.owner, 1);
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK);
    dma_gpu_engine_sdma.disarm(s.binding);
    stage_end(&s);
}
END_TEST

/* ---- no memory ---- */

static _Thread_local bool no_memory;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return no_memory ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(n, bytes);
}

START_TEST(without_memory)
{
    dma_gpu_bind_params_t job = {.rank = 0, .nranks = STAGE_RANKS};
    char why[DMA_GPU_WHY_BYTES];
    dma_gpu_binding_t *second;
    dma_status_t armed, bound;
    stage_t s;

    stage_begin(&s, (fake_options_t){0});
    ck_assert_int_eq(dma_gpu_engine_sdma.arm(&s.run, &armed_bytes), DMA_OK); /* makes the queues */
    dma_gpu_engine_sdma.disarm(s.binding);
    ck_assert(fake_quiet());
    free(((dma_sdma_unit_t *)s.unit)->draft); /* as in front of the first */
    ((dma_sdma_unit_t *)s.unit)->draft = NULL;
    job.traits = s.traits;
    s.run.epoch++;
    no_memory = true;
    armed = dma_gpu_engine_sdma.arm(&s.run, &armed_bytes);
    bound = dma_gpu_engine_sdma.bind(s.unit, &job, &second, why);
    no_memory = false; /* an assertion takes memory */
    ck_assert_int_eq(armed, DMA_UNSUPPORTED);
    ck_assert_int_eq(bound, DMA_UNSUPPORTED);
    ck_assert_uint_ne(dma_sdma_binding(s.binding)->trigger, 0);
    ck_assert_str_eq(why, "no memory to bind the engine sdma");
    stage_end(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_arm");

    unit_test(s, packets, 20);
    unit_loop(s, runs_when_all_have_started, 0, 3, 40);
    unit_loop(s, given_up, 0, 3, 40);
    unit_test(s, let_go_before_it_is_given_up, 40);
    unit_test(s, given_up_behind_the_start, 40);
    unit_test(s, own_block, 40);
    unit_loop(s, given_up_and_late, 0, 2, 20);
    unit_test(s, too_long_a_program, 40);
    unit_test(s, not_for_the_next_run, 40);
    unit_test(s, given_up_and_left, 40);
    unit_test(s, exchange_through_memory, 20);
    unit_loop(s, queues_that_must_not_wait, 0, 3, 20);
    unit_test(s, queues_of_the_parent, 20);
    unit_test(s, without_memory, 20);
    return unit_main(s);
}
