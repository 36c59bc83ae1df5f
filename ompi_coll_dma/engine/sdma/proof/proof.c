/*
 * What may be used on one GPU: see proof.h.
 *
 * The self-test: a plain copy, and those packets that the record proves, tried once more in this process on scratch memory. A
 * packet is not used if its result is wrong or if it hangs the queue. An engine serves the queues of all processes in turn, so a
 * queue that seems to hang may only be late, and may write later. Its scratch memory is kept until the unit is closed, and the
 * trials behind it get memory of their own.
 */
#include "engine/sdma/proof/proof.h"

#include <stdio.h>
#include <string.h>

#include "engine/sdma/proof/trial.h"

#define COPY_SECONDS 10.0 /* timeout of the plain copy, which the engine cannot do without */
#define TEST_SECONDS 2.0  /* timeout of an optional packet, without which something is slower */
#define HOLD_COPIES  4 /* how long a POLL is watched, during which it blocks its engine: as long as so many copies, */
#define HOLD_MOST    1e-3 /* at most, in seconds */

enum {
    PACKET_FAILED = DMA_COUNT_REASON + DMA_REASON_packet_failed,
    PACKET_UNTRIED = DMA_COUNT_REASON + DMA_REASON_packets_unrecorded,
};

static uint32_t without(uint32_t has, uint32_t packet)
{
    has &= ~packet;
    return has & DMA_GEN_POLL ? has : has & ~(uint32_t)DMA_GEN_COND; /* armed programs wait */
}

/* ---- the record ---- */

void dma_proof_load(dma_proof_t *proof, const char *path)
{
    proof->path = path ? path : DMA_RECORD_FILE;
    proof->all = !strcmp(proof->path, DMA_RECORD_ALL);
    proof->loaded = proof->all ? DMA_UNSUPPORTED : dma_record_load(proof->path, &proof->record, proof->reason);
}

void dma_proof_free(dma_proof_t *proof)
{
    if (proof->loaded == DMA_OK) {
        dma_record_free(&proof->record);
    }
}

dma_status_t dma_proof_find(const dma_proof_t *proof, const char *provider, dma_record_result_t *results, char *reason)
{
    dma_record_key_t key;

    if (proof->loaded != DMA_OK) {
        snprintf(reason, DMA_RECORD_WHY_BYTES, "%s", proof->reason);
        return proof->loaded;
    }
    dma_record_key_read(proof->gpu, provider, &key);
    return dma_record_find(&proof->record, &key, results, reason);
}

bool dma_proof_copies_failed(void *arg, const char *provider, char *why)
{
    const dma_proof_t *proof = arg;
    dma_record_result_t results[DMA_RECORD_FEATURES];
    char reason[DMA_RECORD_WHY_BYTES];

    if (dma_proof_find(proof, provider, results, reason) != DMA_OK ||
        results[DMA_RECORD_COPY].state != DMA_RECORD_FAILED) {
        return false;
    }
    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s: %.100s", "by its record copies failed", results[DMA_RECORD_COPY].reason);
    return true;
}

uint32_t dma_proof_limit(uint32_t has, const dma_record_result_t *results)
{
    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        const dma_trial_packet_t *p = &dma_trial_packets[i];

        has = results && results[p->feature].state == DMA_RECORD_PROVEN ? has : without(has, p->has);
    }
    return results ? has : 0;
}

void dma_proof_apply(const dma_proof_t *proof, dma_sdma_unit_t *unit, char *advice)
{
    dma_record_result_t results[DMA_RECORD_FEATURES];
    uint32_t had = unit->limited.has;
    char reason[DMA_RECORD_WHY_BYTES];

    if (proof->all) {
        return;
    }
    if (dma_proof_find(proof, unit->queues.provider->ops->name, results, reason) != DMA_OK) {
        unit->limited.has = dma_proof_limit(had, NULL);
        dma_gpu_count(unit->counters, PACKET_UNTRIED, 1);
        dma_gpu_advise(advice,
                       "the engine sdma uses plain copies only, because %s proves no other packets (%s): "
                       "coll_dma_accept makes this record",
                       proof->path, reason);
        return;
    }
    unit->limited.has = dma_proof_limit(had, results);
    for (int i = 0; i < DMA_TRIAL_PACKETS; i++) {
        const dma_trial_packet_t *p = &dma_trial_packets[i];
        const dma_record_result_t *r = &results[p->feature];
        bool failed = r->state == DMA_RECORD_FAILED;

        if (had & p->has && r->state != DMA_RECORD_PROVEN) {
            dma_gpu_count(unit->counters, failed ? PACKET_FAILED : PACKET_UNTRIED, 1);
            dma_gpu_advise(advice, "%s is not used: it %s%s%s (%s)", dma_record_feature_name(p->feature),
                           failed ? "failed" : "was not tried", r->reason[0] ? ": " : "", r->reason, proof->path);
        }
    }
}

/* ---- the self-test ---- */

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
            *has = without(*has, p->has);
            dma_gpu_count(t->unit->counters, PACKET_FAILED, 1);
            dma_gpu_advise(advice, "%s failed in the self-test (%s)", dma_record_feature_name(p->feature), wrong);
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
