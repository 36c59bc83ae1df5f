/*
 * The self-test of a unit: a plain copy, and those packets that the record proves (record.h), tried once more in this
 * process on scratch memory. A packet is not used if its result is wrong or if it hangs the queue.
 *
 * An engine serves the queues of all processes in turn, so a queue that seems to hang may only be late, and may write
 * later. Its scratch memory is kept until the unit is closed, and the trials behind it get memory of their own.
 */
#include <stdio.h>
#include <string.h>

#include "engine/sdma/trial.h"

#define COPY_SECONDS 10.0 /* timeout of the plain copy, which the engine cannot do without */
#define TEST_SECONDS 2.0  /* timeout of an optional packet, without which something is slower */
#define HOLD_COPIES  4 /* how long a POLL is watched, during which it blocks its engine: as long as so many copies, */
#define HOLD_MOST    1e-3 /* at most, in seconds */

/* Leaves the scratch memory to a queue that is late. Without memory no further packet is tried. */
static void renew_memory(dma_trial_t *t)
{
    dma_trial_end(t);
    t->late = false;
    (void)dma_trial_begin(t, t->unit);
}

/* Runs a trial on an exclusive queue, so that a packet that hangs the queue affects nothing else. The queue is
 * destroyed afterwards, or left if it still waits. */
static const char *run_exclusive(dma_trial_t *t, const char *(*run)(dma_trial_t *t))
{
    dma_map_pick_t pick = dma_map_host_facing(t->unit->gen, "the self-test");
    const char *wrong;

    if (!(t->queue = dma_queue_get_exclusive(&t->unit->queues, &pick, 0))) {
        return "no queue is free";
    }
    wrong = run(t);
    if (!dma_queue_put_exclusive(&t->unit->queues, t->queue)) {
        t->late = true;
        renew_memory(t);
    }
    return wrong;
}

/* Tries the packets that the unit may use so far. Those that fail are taken away. */
static void run_packets(dma_trial_t *t, char *advice)
{
    uint32_t *has = &t->unit->limited.has;

    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        const dma_trial_packet_t *p = &dma_trial_packets[i];
        const char *wrong = !(*has & p->has) ? NULL : t->host ? run_exclusive(t, p->run) : "no memory";

        if (wrong) {
            *has &= ~(uint32_t)p->has;
            dma_gpu_count(t->unit->counters, DMA_COUNT_REASON + DMA_REASON_packet_failed, 1);
            dma_gpu_advise(advice, "%s failed in the self-test (%s)", dma_record_feature_name(p->feature), wrong);
        }
        if (!(*has & DMA_GEN_POLL)) {
            *has &= ~(uint32_t)DMA_GEN_COND; /* armed programs wait */
        }
    }
}

const char *dma_sdma_selftest(dma_sdma_unit_t *unit, char *advice)
{
    dma_map_pick_t pick = dma_map_host_facing(unit->gen, "the self-test");
    dma_trial_t t = {.seconds = COPY_SECONDS, .rounds = 1};
    double begin;
    const char *wrong;

    if (!dma_trial_begin(&t, unit)) {
        return "no memory for the self-test";
    }
    /* This queue is kept, so that the engine has at least one queue, however many other processes take. */
    t.queue = dma_queue_get(&unit->queues, &pick, 0);
    begin = dma_now();
    wrong = !t.queue                                    ? "no queue for the self-test"
            : dma_trial_copy(&t, DMA_TRIAL_PLACE_BYTES) ? "a queue on the device does not do what it is told"
                                                        : NULL;
    t.hold = HOLD_COPIES * (dma_now() - begin);
    t.hold = t.hold < HOLD_MOST ? t.hold : HOLD_MOST;
    t.late = t.queue && wrong;
    t.seconds = TEST_SECONDS;
    if (!wrong) {
        run_packets(&t, advice);
    }
    if (dma_fault_seen(&unit->fault)) {
        wrong = "the GPU faulted in the self-test"; /* the others follow from it */
    }
    dma_trial_end(&t);
    return wrong;
}
