/*
 * Completions of an engine that are lost, late, or there twice: which runs continue, which end with an error, and what is left.
 * And which communicator a fault belongs to while copies are in flight that the read pointers have passed.
 */
#include <string.h>
#include <unistd.h>

#include "engine/sdma/hw/packet.h"
#include "libsdma_stage.h"
#include "libunit.h"

#define STUCK 0.2 /* seconds after which a unit here counts as broken */
#define LATE  30  /* where it must not, however busy the machine is */

static stage_t s;
static const dma_gpu_engine_t *const engine = &dma_gpu_engine_sdma;

static dma_sdma_unit_t *unit(void)
{
    return (dma_sdma_unit_t *)s.unit;
}

static dma_sdma_binding_t *binding(void)
{
    return dma_sdma_binding(s.binding);
}

static void begin(void)
{
    stage_begin(&s, (fake_options_t){0});
    unit()->stuck_seconds = STUCK;
}

static void end(void)
{
    fake_lose("", 1);
    stage_end(&s);
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
}

static void start(uint32_t epoch)
{
    s.run.epoch = epoch;
    ck_assert_int_eq(engine->start(&s.run), DMA_OK);
}

static bool has_ended(void)
{
    for (int q = 0; q + 1 < (int)s.run.plan->nprogs; q++) {
        if (stage_line(&s, q) != s.run.epoch) {
            return false;
        }
    }
    return true;
}

/* Looks at the engine as a waiting call does, until the run has ended. */
static dma_status_t watch(const char **reason)
{
    dma_status_t status = DMA_OK;
    double until = dma_now() + 120;

    *reason = "";
    while (!has_ended() && status == DMA_OK) {
        status = engine->check(s.binding, reason);
        ck_assert(dma_now() < until);
        usleep(500);
    }
    return status;
}

static bool is_right(void)
{
    for (int r = 0; r < STAGE_RANKS; r++) {
        if (memcmp(s.recv[r], s.send, STAGE_BYTES)) {
            return false;
        }
    }
    return true;
}

static uint64_t nudges(void)
{
    uint64_t n = 0;

    for (const dma_queue_t *q = unit()->queues.list; q; q = q->next) {
        n += q->ring.count.nudges;
    }
    return n;
}

static bool all_fetched(void)
{
    for (dma_queue_t *q = unit()->queues.list; q; q = q->next) {
        if (dma_ring_idle(&q->ring) != DMA_OK) {
            return false;
        }
    }
    return true;
}

/* ---- faults ---- */

/* Every packet is fetched, and nothing has ended: a fault now is ours. When the run has ended, it is not. */
START_TEST(fault_of_copies_in_flight)
{
    begin();
    ck_assert(!dma_sdma_busy(unit(), 0));
    fake_lose("late-fence:1/1", UINT64_C(300000000));
    start(7);
    while (!all_fetched()) {
        usleep(100);
    }
    if (!has_ended()) { /* how late they are is random */
        ck_assert(!dma_queues_busy(&unit()->queues, 0));
        ck_assert(dma_sdma_busy(unit(), 0));
    }
    stage_wait(&s);
    ck_assert(!dma_sdma_busy(unit(), 0));
    end();
}
END_TEST

/* Programs that wait touch nothing of ours, also if this rank has started and others have not. When they are let go they do. */
START_TEST(fault_before_the_start)
{
    uint64_t bytes;

    begin();
    ck_assert(fake_quiet());
    s.run.epoch = 9;
    ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
    ck_assert(!dma_sdma_busy(unit(), 0x100000));
    ck_assert_int_eq(engine->start(&s.run), DMA_OK);
    while (stage_line(&s, 2) != 9) { /* the own block, which does not wait */
        usleep(100);
    }
    ck_assert(!dma_sdma_busy(unit(), 0x100000));
    ck_assert(dma_sdma_busy(unit(), (uint64_t)(uintptr_t)stage_trigger(&s)));
    s.run.epoch++;
    ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
    s.run.epoch--;
    ck_assert(!dma_sdma_busy(unit(), 0x100000));
    fake_hold(true);
    stage_release(&s);
    ck_assert(dma_sdma_busy(unit(), 0x100000));
    fake_hold(false);
    stage_wait(&s);
    engine->end(s.binding);
    ck_assert(!dma_sdma_busy(unit(), 0x100000)); /* the next run waits */
    engine->disarm(s.binding);
    end();
}
END_TEST

/* A queue has done its part of a run and waits for the next run, while another queue is still at work. It may wait for any time,
 * and its doorbell is not rung again. The time for which it stands still counts from the next start on. */
START_TEST(waits_for_the_next_run)
{
    _Atomic uint32_t *line;
    const char *reason;
    uint64_t bytes, before;
    double until, began;

    begin();
    s.run.epoch = 20;
    ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
    ck_assert_int_eq(engine->start(&s.run), DMA_OK);
    s.run.epoch++;
    ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
    s.run.epoch--;
    stage_release(&s);
    stage_wait(&s);
    line = &dma_window_queue(&s.window, 0, 1)->by_epoch[20 % DMA_EPOCH_WORDS];
    atomic_store(line, 0); /* as if the second queue had not come to its end */
    ck_assert_int_eq(dma_ring_idle(&binding()->armed_queues[1]->ring), DMA_AGAIN);
    before = binding()->armed_queues[1]->ring.count.nudges;
    for (until = dma_now() + 3 * STUCK; dma_now() < until; usleep(1000)) {
        binding()->at[2].done++; /* it moves */
        binding()->armed_queues[2]->seen_at = 0;
        ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    }
    ck_assert_uint_eq(binding()->armed_queues[1]->ring.count.nudges, before);
    atomic_store(line, 20);
    engine->end(s.binding);
    s.run.epoch++;
    began = dma_now();
    ck_assert_int_eq(engine->start(&s.run), DMA_OK);
    fake_hold(true);
    stage_release(&s);
    ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    usleep(1000);
    ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    /* a busy machine may let this thread stand still for longer than a queue may */
    ck_assert(binding()->armed_queues[1]->ring.count.nudges == before || dma_now() - began > STUCK / 4);
    fake_hold(false);
    stage_wait(&s);
    end();
}
END_TEST

/* ---- losses ---- */

/* The queue sleeps: it is nudged, and nobody notices more than that it took longer. */
START_TEST(lost_doorbells)
{
    const char *reason;

    begin();
    unit()->stuck_seconds = LATE;
    fake_lose(_i == 0 ? "drop-doorbell:1/3" : "late-doorbell:1/2", 30000000);
    for (uint32_t epoch = 1; epoch <= 10; epoch++) {
        start(epoch);
        ck_assert_int_eq(watch(&reason), DMA_OK);
        ck_assert(is_right());
    }
    ck_assert(_i == 1 || nudges() > 0);
    end();
}
END_TEST

/* Another communicator on the same queues waits for its peers, before its first run or in one, and looks at them as often. */
START_TEST(lost_doorbells_beside_one_that_waits)
{
    dma_status_t status;
    const char *reason;
    stage_t beside;
    uint64_t bytes;

    begin();
    stage_begin_beside(&beside, &s);
    unit()->stuck_seconds = LATE;
    if (_i == 1) {
        beside.run.epoch = 100;
        ck_assert_int_eq(engine->arm(&beside.run, &bytes), DMA_OK);
        ck_assert_int_eq(engine->start(&beside.run), DMA_OK);
    }
    fake_lose("drop-doorbell:1/3", 1);
    for (uint32_t epoch = 1; epoch <= 10; epoch++) {
        start(epoch);
        while (!has_ended()) {
            status = engine->check(s.binding, &reason);
            ck_assert_msg(status == DMA_OK, "epoch %u: %s", epoch, reason);
            ck_assert_int_eq(engine->check(beside.binding, &reason), DMA_OK);
            usleep(500);
        }
        ck_assert(is_right());
    }
    ck_assert(nudges() > 0);
    fake_lose("", 1);
    engine->disarm(beside.binding);
    stage_end_beside(&beside);
    end();
}
END_TEST

/* All of them: then the queue seems to stand still, which costs a nudge. At the end nothing is left. */
START_TEST(lost_read_pointers)
{
    const char *reason;

    begin();
    unit()->stuck_seconds = LATE;
    fake_lose("drop-read-pointer:1/2,any-read-pointer:1/2", 1000000);
    for (uint32_t epoch = 1; epoch <= 20; epoch++) {
        start(epoch);
        ck_assert_int_eq(watch(&reason), DMA_OK);
        ck_assert(is_right());
    }
    unit()->stuck_seconds = STUCK;
    /* long afterwards, while this rank waits for a peer: an engine without work is not broken */
    usleep((useconds_t)(1e6 * STUCK) + 50000);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
        usleep(20000);
    }
    end();
}
END_TEST

/* The last read pointers of a run are lost, without a nudge or behind one. Long afterwards the engine is with another process for
 * a moment when the next run begins. The time between the runs is none in which the queue stood still. */
START_TEST(lost_read_pointer_and_a_pause)
{
    dma_queue_t *queue;
    const char *reason;

    begin();
    ck_assert(fake_quiet());
    queue = binding()->queues[1];
    fake_lose("drop-read-pointer:1/1", 1);
    fake_hold(true);
    start(2);
    ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    while (_i == 1 && queue->ring.count.nudges == 0) {
        usleep(1000);
        ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    }
    fake_hold(false);
    stage_wait(&s);
    ck_assert(fake_quiet());
    engine->end(s.binding);
    ck_assert_int_eq(dma_ring_idle(&queue->ring), DMA_AGAIN);
    fake_lose("", 1);
    usleep((useconds_t)(1e6 * STUCK) + 50000); /* the program computes */
    fake_hold(true);
    start(3);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
        usleep(15000);
    }
    ck_assert_uint_gt(queue->ring.count.nudges, 0);
    fake_hold(false);
    stage_wait(&s);
    end();
}
END_TEST

/* A doorbell is lost, and the program computes for long between two looks, of which the second one nudges for the first time. */
START_TEST(lost_doorbell_and_a_pause)
{
    const char *reason;
    dma_status_t status;

    begin();
    ck_assert(fake_quiet());
    fake_lose("drop-doorbell:1/1", 1);
    start(1);
    ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
    usleep((useconds_t)(1e6 * STUCK) + 50000);
    fake_lose("", 1);
    status = engine->check(s.binding, &reason);
    ck_assert_msg(status == DMA_OK, "%s", reason);
    ck_assert_uint_gt(nudges(), 0);
    unit()->stuck_seconds = LATE;
    ck_assert_int_eq(watch(&reason), DMA_OK);
    end();
}
END_TEST

/* A fence that is late is just that. */
START_TEST(late_fences)
{
    const char *reason;

    begin();
    unit()->stuck_seconds = LATE;
    fake_lose("late-fence:1/2", 50000000);
    for (uint32_t epoch = 1; epoch <= 10; epoch++) {
        start(epoch);
        ck_assert_int_eq(watch(&reason), DMA_OK);
        ck_assert(is_right());
    }
    end();
}
END_TEST

/* The GPU has faulted: the unit takes no further communicator, and says why. */
START_TEST(no_binding_after_a_fault)
{
    dma_gpu_bind_params_t job = {.rank = 0, .nranks = STAGE_RANKS, .traits = s.traits};
    char why[DMA_GPU_WHY_BYTES];
    dma_gpu_binding_t *second;

    begin();
    strcpy(unit()->fault.text, "the GPU faulted at address 0x1000");
    atomic_store(&unit()->fault.happened, true);
    job.traits = s.traits;
    ck_assert_int_eq(engine->bind(s.unit, &job, &second, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "the GPU faulted at address 0x1000");
    atomic_store(&unit()->fault.happened, false);
    end();
}
END_TEST

/* The queues have nothing left to do, and a line is not written: an error, and the unit takes no further communicator. */
START_TEST(lost_fence)
{
    dma_gpu_bind_params_t job = {.rank = 0, .nranks = STAGE_RANKS, .traits = s.traits};
    char why[DMA_GPU_WHY_BYTES];
    dma_gpu_binding_t *second;
    const char *reason;
    double began;

    begin();
    fake_lose("drop-fence:1", 1);
    start(3);
    began = dma_now();
    ck_assert_int_eq(watch(&reason), DMA_ERR_ENGINE);
    ck_assert(dma_now() - began >= STUCK);
    ck_assert_str_eq(reason, "a completion has not come");
    job.lines = (uint64_t)(uintptr_t)dma_window_queue(&s.window, 0, 0);
    ck_assert_int_eq(engine->bind(s.unit, &job, &second, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "the engine was stopped after a failure");
    ck_assert_uint_eq(stage_reasons(&s, DMA_REASON_engine_failed), 1);
    ck_assert(!engine->unbind(s.binding)); /* its memory must stay */
    s.binding = NULL;
    end();
}
END_TEST

/* The device has no room for the memory of an exchange: the call fails, and the engine serves other communicators. */
START_TEST(no_room_for_an_exchange)
{
    stage_t beside;

    begin();
    dma_plan_free(s.plan);
    stage_plan(&s, "swap", DMA_ALLTOALL, true);
    s.run.recv.bytes = STAGE_BYTES - 1; /* more than exchange packets can do */
    fake_gpu_fail("alloc", 0, DMA_ERR_NOMEM);
    ck_assert_int_eq(engine->start(&s.run), DMA_ERR_NOMEM);
    ck_assert_uint_eq(stage_reasons(&s, DMA_REASON_engine_failed), 0);
    stage_begin_beside(&beside, &s);
    ck_assert_int_eq(engine->start(&beside.run), DMA_OK);
    stage_wait(&beside);
    stage_end_beside(&beside);
    ck_assert(!engine->unbind(s.binding));
    s.binding = NULL;
    end();
}
END_TEST

/* What comes twice may hide the line of a run that has ended. It is no line of this run, and nothing is missing. */
START_TEST(fences_twice)
{
    const char *reason;
    double until;

    begin();
    fake_lose("twice-fence:1/1", 1000000000);
    start(11);
    ck_assert(fake_quiet());
    until = dma_now() + 1;
    engine->end(s.binding);
    fake_lose("", 1);
    start(11 + DMA_EPOCH_WORDS); /* the same words */
    ck_assert(fake_quiet());     /* whoever looks at them late does not find this run's */
    engine->end(s.binding);
    while (dma_now() < until + STUCK) {
        ck_assert_int_eq(engine->check(s.binding, &reason), DMA_OK);
        usleep((useconds_t)(1e6 * STUCK / 10));
    }
    ck_assert(fake_quiet());
    ck_assert(!has_ended()); /* they have been hidden */
    ck_assert(dma_sdma_is_quiet(binding()));
    end();
}
END_TEST

/* Armed, and neither doorbell nor read pointer comes through: revoked all the same. */
START_TEST(disarmed_without_doorbells)
{
    uint64_t bytes;

    begin();
    fake_lose(_i == 0 ? "drop-doorbell:1/4" : "drop-read-pointer:1/2", 1);
    for (uint32_t epoch = 1; epoch <= 10; epoch++) {
        s.run.epoch = epoch;
        ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
        engine->disarm(s.binding);
        ck_assert(!binding()->stalled);
        ck_assert(!has_ended());
    }
    end();
}
END_TEST

/* A wait for what is revoked is short, so a queue is nudged at regular intervals, and not ever more seldom. */
START_TEST(nudged_at_regular_intervals)
{
    dma_queue_t *queue;
    uint64_t bytes;

    begin();
    fake_hold(true);
    ck_assert_int_eq(engine->arm(&s.run, &bytes), DMA_OK);
    queue = binding()->armed_queues[1];
    for (int i = 0; i < 40; i++) { /* every other look begins an interval of 10 ms */
        dma_queue_nudge(queue, NULL);
        usleep(11000);
    }
    ck_assert_uint_eq(queue->ring.count.nudges, 20);
    fake_hold(false);
    engine->disarm(s.binding);
    end();
}
END_TEST

/* They do not hide the next runs from a rank that looks late. */
START_TEST(fences_twice_hide_nothing)
{
    begin();
    for (uint32_t epoch = 1; epoch <= 3 * DMA_EPOCH_WORDS; epoch++) {
        fake_lose(epoch % 3 ? "twice-fence:1/1" : "", 1000000);
        start(epoch);
        stage_wait(&s);
        engine->end(s.binding);
        if (epoch % 3 == 0) {
            usleep(5000);
            ck_assert(has_ended());
        }
    }
    end();
}
END_TEST

/* A queue that gets the line of one that is no more goes on behind its last step: a fence of that one is no drain of this one. */
START_TEST(steps_go_on)
{
    dma_map_pick_t pick;
    dma_queue_t *queue;
    unsigned slot;

    begin();
    pick = binding()->picks[1];
    queue = dma_queue_get_exclusive(&unit()->queues, &pick, s.traits[1].node);
    ck_assert_ptr_nonnull(queue);
    slot = queue->slot;
    queue->step = 41;
    ck_assert(dma_queue_put_exclusive(&unit()->queues, queue));
    queue = dma_queue_get_exclusive(&unit()->queues, &pick, s.traits[1].node);
    ck_assert_uint_eq(queue->slot, slot);
    ck_assert_uint_eq(queue->step, 41);
    ck_assert_uint_eq(atomic_load(queue->step_word), 41);
    ck_assert(dma_queue_put_exclusive(&unit()->queues, queue));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma_watch");

    unit_loop(suite, fault_of_copies_in_flight, 0, 5, 30);
    unit_test(suite, fault_before_the_start, 30);
    unit_loop(suite, lost_doorbells, 0, 2, 60);
    unit_loop(suite, lost_doorbells_beside_one_that_waits, 0, 2, 60);
    unit_test(suite, lost_read_pointers, 60);
    unit_test(suite, lost_doorbell_and_a_pause, 60);
    unit_loop(suite, lost_read_pointer_and_a_pause, 0, 2, 30);
    unit_test(suite, late_fences, 30);
    unit_test(suite, no_binding_after_a_fault, 20);
    unit_test(suite, lost_fence, 60);
    unit_test(suite, no_room_for_an_exchange, 20);
    unit_test(suite, fences_twice, 30);
    unit_test(suite, fences_twice_hide_nothing, 30);
    unit_loop(suite, disarmed_without_doorbells, 0, 2, 60);
    unit_test(suite, nudged_at_regular_intervals, 20);
    unit_test(suite, waits_for_the_next_run, 20);
    unit_test(suite, steps_go_on, 20);
    return unit_main(suite);
}
