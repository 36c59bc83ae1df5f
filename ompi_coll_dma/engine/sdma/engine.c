/*
 * The sdma engine: GPU plans on user-mode queues of the SDMA engines of AMD GPUs.
 *
 * A unit is one GPU: its generation, its links (topology.h) and its queues. It uses the packets that the record proves
 * (record.h) and that the self-test finds to work. For a binding, the engine map (map.h)
 * selects a queue for the link to every rank; programs on the same link share a queue. Starting a run lowers all its
 * programs to packets and rings one doorbell per queue. After that the hardware needs no CPU until the fences at the
 * ends of the programs.
 *
 * A run that does not fit into the rings is lowered in parts. Each part is published, so that the engine consumes it
 * and makes room.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/private.h"
#include "engine/sdma/proof/proof.h"
#include "node/pause.h"
#include "node/window.h"

#define QUIET_SECONDS 2.0 /* how long unbind waits for copies in progress */

/* ---- opening and closing ---- */

static dma_status_t open_queues(const dma_gpu_config_t *config, const dma_proof_t *proof, dma_sdma_unit_t *unit,
                                char *why)
{
    dma_provider_gpu_t gpu = dma_sdma_provider_gpu(unit, proof);
    dma_map_pick_t first = dma_map_host_facing(unit->gen, "the first queue");
    char reason[DMA_PROVIDER_WHY_BYTES];

    if (dma_queues_open(&unit->queues, dma_providers, config->queues, &gpu, &first, reason) != DMA_OK) {
        return dma_gpu_refuse(why, reason);
    }
    return DMA_OK;
}

/* Without events of ROCr, or with a version that has none, a fault ends the process, as it does in any program. */
static void watch_faults(dma_sdma_unit_t *unit)
{
    dma_rocr_address_t address = dma_sdma_provider_gpu(unit, NULL).address;
    const char *reason;
    dma_rocr_handle_t agent;
    dma_rocr_t rocr;

    if (dma_rocr_find(&rocr, &reason) == DMA_OK && dma_rocr_find_gpu(&rocr, &address, &agent, &reason) == DMA_OK) {
        (void)dma_fault_watch(&unit->fault, &rocr, agent, unit->stuck_seconds, dma_sdma_busy, unit);
    }
}

/* `proof` may be NULL: nothing is known. */
static dma_status_t open_unit(const dma_gpu_config_t *config, dma_proof_t *proof, dma_sdma_unit_t **result, char *why)
{
    dma_sdma_unit_t *unit = calloc(1, sizeof(*unit));
    dma_status_t status;

    if (!unit) {
        return dma_gpu_refuse(why, "no memory for the engine");
    }
    unit->rt = config->rt;
    unit->device = config->device;
    unit->stuck_seconds = config->timeout;
    unit->counters = config->counters;
    unit->budget = config->budget;
    if (strcmp(config->rt->name, "hip")) {
        status = dma_gpu_refuse(why, "the device is not AMD's");
    } else {
        status = dma_sdma_locate(config, unit, why);
    }
    if (status == DMA_OK) {
        if (proof) {
            proof->gpu = unit->gpu;
        }
        status = open_queues(config, proof, unit, why);
    }
    if (status != DMA_OK) {
        dma_topo_free(unit->topo);
        free(unit);
        return status;
    }
    pthread_mutex_init(&unit->bindings_lock, NULL);
    pthread_mutex_init(&unit->draft_lock, NULL);
    watch_faults(unit);
    *result = unit;
    return DMA_OK;
}

dma_status_t dma_sdma_unit_open(const dma_gpu_config_t *config, dma_sdma_unit_t **result, char *why)
{
    return open_unit(config, NULL, result, why);
}

void dma_sdma_unit_close(dma_sdma_unit_t *unit)
{
    dma_fault_unwatch(&unit->fault);
    pthread_mutex_destroy(&unit->bindings_lock);
    pthread_mutex_destroy(&unit->draft_lock);
    free(unit->draft);
    dma_queues_close(&unit->queues);
    dma_topo_free(unit->topo);
    free(unit);
}

/* Why the CPU waits where the engine could. */
static const char *why_no_poll(const dma_sdma_unit_t *unit)
{
    const char *reason;

    if (unit->gen->has & DMA_GEN_POLL) {
        return "";
    }
    return dma_gen_find(unit->gpu->device_id, unit->gpu->version, &reason)->has & DMA_GEN_POLL
               ? ", waits by the CPU"
               : ", waits by the CPU (POLL of this GPU ends early)";
}

static dma_status_t sdma_open(const dma_gpu_config_t *config, dma_gpu_unit_t **result, char *why)
{
    dma_sdma_unit_t *unit;
    dma_proof_t proof = {0};
    dma_status_t status;
    const char *wrong, *failure;

    dma_proof_load(&proof, config->record);
    status = open_unit(config, &proof, &unit, why);
    if (status == DMA_OK) {
        dma_proof_apply(&proof, unit, config->advice);
    }
    dma_proof_free(&proof);
    if (status != DMA_OK) {
        return status;
    }
    if ((wrong = dma_sdma_selftest(unit, config->advice))) {
        failure = dma_sdma_failure(unit);
        status = dma_gpu_refuse(why, failure ? failure : wrong);
        dma_sdma_unit_close(unit);
        return status;
    }
    snprintf(why, DMA_GPU_WHY_BYTES, "queues from %s%s%.120s%s%s%s%s%s%s", unit->queues.provider->ops->name,
             unit->queues.passed_over[0] ? " (" : "", unit->queues.passed_over, unit->queues.passed_over[0] ? ")" : "",
             unit->queues.provider->names_engines ? ", on engines by number" : "",
             unit->gen->has & DMA_GEN_BROADCAST ? ", broadcast" : "", unit->gen->has & DMA_GEN_SWAP ? ", swap" : "",
             unit->gen->has & DMA_GEN_COND ? ", conditional execution" : "", why_no_poll(unit));
    unit->queues.counters = config->counters; /* the self-test does not count */
    *result = (dma_gpu_unit_t *)unit;
    return DMA_OK;
}

static void sdma_close(dma_gpu_unit_t *handle)
{
    dma_sdma_unit_t *unit = (dma_sdma_unit_t *)handle;

    dma_queues_settle(&unit->queues);
    for (dma_queue_t *q = unit->queues.list; q && dma_queues_is_owner(&unit->queues); q = q->next) {
        /* A queue that still waits is left, so the memory that it may write to is left as well. */
        if (q->temp && !dma_queue_waits(&unit->queues, q)) {
            dma_sdma_temp_free(unit, DMA_QUEUE_TEMP, q->temp);
        }
    }
    dma_sdma_unit_close(unit);
}

static void sdma_traits(const dma_gpu_unit_t *handle, dma_gpu_traits_t *traits)
{
    *traits = dma_sdma_traits((const dma_sdma_unit_t *)handle);
}

/* Allocates a binding with all its arrays in one block. */
static dma_sdma_binding_t *binding_alloc(size_t n)
{
    size_t bytes = sizeof(dma_sdma_binding_t) +
                   n * (sizeof(dma_queue_t *) + sizeof(dma_map_pick_t) + sizeof(uint32_t)) +
                   (n + 1) * (sizeof(dma_lower_t) + sizeof(dma_shaped_t) + sizeof(dma_queue_t *));
    dma_sdma_binding_t *b = calloc(1, bytes);

    if (b) {
        b->at = (dma_lower_t *)(b + 1);
        b->shaped = (dma_shaped_t *)(b->at + n + 1);
        b->queues = (dma_queue_t **)(b->shaped + n + 1);
        b->armed_queues = b->queues + n;
        b->picks = (dma_map_pick_t *)(b->armed_queues + n + 1);
        b->nodes = (uint32_t *)(b->picks + n);
    }
    return b;
}

/* Releases the queues that the binding has so far. */
static void release_queues(dma_sdma_binding_t *b)
{
    for (int r = 0; r < b->nranks && b->queues[r]; r++) {
        dma_queue_put(&b->unit->queues, b->queues[r]);
    }
}

static dma_status_t sdma_bind(dma_gpu_unit_t *handle, const dma_gpu_bind_params_t *params, dma_gpu_binding_t **result,
                              char *why)
{
    dma_sdma_unit_t *unit = (dma_sdma_unit_t *)handle;
    size_t n = (size_t)params->nranks;
    const char *failure = dma_sdma_failure(unit);
    dma_sdma_binding_t *b;

    if (failure) {
        return dma_gpu_refuse(why, failure);
    }
    if (atomic_load(&unit->off)) {
        return dma_gpu_refuse(why, "the engine was stopped after a failure");
    }
    if (!(b = binding_alloc(n))) {
        return dma_gpu_refuse(why, "no memory to bind the engine sdma");
    }
    for (size_t r = 0; r < n; r++) {
        b->nodes[r] = params->traits[r].node;
    }
    dma_map_build(unit->gen, unit->gpu, b->nodes, params->nranks, params->rank, b->picks);
    b->unit = unit;
    b->rank = params->rank;
    b->nranks = params->nranks;
    b->lines = params->lines;
    b->trigger = params->trigger;
    for (size_t r = 0; r < n; r++) {
        if (!(b->queues[r] = dma_queue_get(&unit->queues, &b->picks[r], b->nodes[r]))) {
            release_queues(b);
            free(b);
            return dma_gpu_refuse(why, "the driver gives this process no queue");
        }
    }
    dma_sdma_stamps_make(b, params->stamps);
    dma_sdma_watch_begin(b);
    *result = (dma_gpu_binding_t *)b;
    return DMA_OK;
}

static bool sdma_unbind(dma_gpu_binding_t *handle)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);
    double until = dma_now() + QUIET_SECONDS;
    dma_pause_t pause = {0};
    bool quiet;

    if (b->parts && !dma_sdma_is_quiet(b)) {
        dma_sdma_parts_settle(b, until);
    }
    while (!dma_sdma_is_quiet(b) && dma_now() < until) {
        dma_pause(&pause);
    }
    quiet = dma_sdma_is_quiet(b);
    /* Programs in progress may still write to their temporary memory. */
    for (int i = 1; i <= b->nranks && quiet && dma_queues_is_owner(&b->unit->queues); i++) {
        dma_sdma_temp_free(b->unit, DMA_SHAPED_TEMP, b->shaped[i].temp);
    }
    dma_sdma_watch_end(b);
    quiet = dma_sdma_arm_release(b, quiet) && quiet && !b->left;
    dma_sdma_stamps_free(b, quiet);
    dma_sdma_parts_free(b, quiet);
    release_queues(b);
    free(b);
    return quiet;
}

/* Whether `rank` is on another GPU than this rank. */
static bool is_remote(const dma_sdma_binding_t *b, int rank)
{
    return b->nodes[rank] != b->nodes[b->rank];
}

/* The rank whose link a program uses. A host-facing engine serves only peers on our own GPU. So a program with
 * copies to another GPU uses the link to that GPU, whose engine also reaches our own GPU. */
static int link_of(const dma_sdma_binding_t *b, const dma_prog_t *prog)
{
    for (uint32_t i = 0; !is_remote(b, prog->link) && i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];

        for (int d = 0; d < 1 + (op->code == DMA_OP_COPY2); d++) {
            if ((op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2) && is_remote(b, op->dst[d].rank)) {
                return op->dst[d].rank;
            }
        }
    }
    return prog->link;
}

/* Lowers one program, as far as there is room in the ring. */
static dma_status_t lower_program(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index)
{
    const dma_prog_t *prog = &run->plan->progs[index];
    dma_queue_t *queue = b->queues[link_of(b, prog)];
    dma_lower_target_t to = dma_sdma_lower_target(b, queue, index, run->epoch);
    dma_status_t status = DMA_OK;
    uint32_t temps;

    if (b->at[index].op == prog->nops) {
        return DMA_OK;
    }
    temps = dma_lower_temps(run, prog, &to);
    if (temps & DMA_LOWER_OWN_TEMP) {
        status = dma_sdma_temp_get(b->unit, DMA_SHAPED_TEMP, &to.shaped->temp);
    }
    pthread_mutex_lock(&queue->lock);
    if (status == DMA_OK && temps & DMA_LOWER_QUEUE_TEMP) {
        status = dma_sdma_temp_get(b->unit, DMA_QUEUE_TEMP, &queue->temp);
    }
    if (status == DMA_OK) {
        status = dma_lower_program(run, prog, &to, &b->at[index]);
        dma_gpu_count(b->unit->counters, DMA_COUNT_bytes_engines, queue->ring.unpublished_bytes);
        dma_queue_publish(queue, b->unit->counters);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

static void set_run(dma_sdma_binding_t *b, const dma_run_t *run)
{
    atomic_store_explicit(&b->window, run->window, memory_order_relaxed);
    atomic_store_explicit(&b->progs, run->plan->nprogs, memory_order_release); /* behind the window */
    atomic_store_explicit(&b->epoch, run->epoch, memory_order_release);        /* behind what is read with it */
}

static dma_status_t sdma_start(dma_run_t *run)
{
    dma_sdma_binding_t *b = dma_sdma_binding(run->binding);
    dma_status_t result = DMA_OK;

    if (!dma_queues_is_owner(&b->unit->queues) || dma_gpu_is_lost(b->unit->rt, b->unit->device)) {
        return DMA_ERR_ENGINE;
    }
    if (b->run != run || b->epoch != run->epoch) {
        memset(b->at, 0, ((size_t)b->nranks + 1) * sizeof(*b->at));
        b->run = run;
        set_run(b, run);
    }
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        dma_status_t status = dma_sdma_is_armed(b, run->epoch, i) ? DMA_OK : lower_program(b, run, i);

        if (status == DMA_ERR_NOMEM) {
            return status; /* for temporary memory: the engine works */
        }
        if (status != DMA_OK && status != DMA_AGAIN) {
            dma_sdma_switch_off(b->unit);
            return DMA_ERR_ENGINE;
        }
        result = status == DMA_OK ? result : status;
    }
    return result;
}

const dma_gpu_engine_t dma_gpu_engine_sdma = {
    .name = "sdma",
    .open = sdma_open,
    .close = sdma_close,
    .traits = sdma_traits,
    .bind = sdma_bind,
    .unbind = sdma_unbind,
    .start = sdma_start,
    .advance = dma_sdma_advance,
    .end = dma_sdma_end,
    .arm = dma_sdma_arm,
    .disarm = dma_sdma_disarm,
    .stamps = dma_sdma_stamps,
    .check = dma_sdma_check,
};
