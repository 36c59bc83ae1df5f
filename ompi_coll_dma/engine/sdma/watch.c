/*
 * Is work of a binding in flight, and does it still move?
 *
 * What can be lost between an engine and us, how it shows, and what becomes of it:
 *
 *     a doorbell        the queue does not move            dma_queue_check nudges it: just late
 *     a read pointer    the queue seems not to move        the same, since the next one stands for all; until then less room
 *     a read pointer    goes back, because it comes late   ignored (ring.c)
 *     a fence           the queue has fetched everything,  an error after `stuck_seconds`. Another fence would not say more:
 *                       and a line is not written          what has lost the write of a fence may have lost those of copies
 *     a fence           comes late                         just late
 *     a fence           comes twice                        An old epoch is not a new one's, also of another communicator: epochs
 *                                                          begin at a random number, and successive ones have different words.
 *                                                          Later than DMA_EPOCH_WORDS runs it could hide one from a peer
 *     a drain's fence   the queue stands still in a POLL, or the CPU waits for the step: an error after `stuck_seconds`
 *     an interrupt      our queues raise none, and nothing of this engine waits for one
 *
 * After such an error the unit binds to no further communicator: their device memory goes through the host.
 *
 * The read pointer says nothing about copies that are in flight: packets are fetched before they are carried out. So a fault is
 * ours as long as a line of a run is not written, even if all queues look idle.
 */
#include <math.h>

#include "engine/sdma/private.h"
#include "node/window.h"

bool dma_sdma_is_quiet(const dma_sdma_binding_t *b)
{
    if (b->ended == b->epoch) {
        return true;
    }
    for (uint32_t q = 0; q + 1 < b->progs; q++) {
        if (!dma_window_queue_reached(b->window, b->rank, (int)q, b->epoch)) {
            return false;
        }
    }
    return true;
}

void dma_sdma_end(dma_gpu_binding_t *handle)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);

    atomic_store_explicit(&b->ended, b->epoch, memory_order_relaxed);
}

bool dma_sdma_has_started(const dma_sdma_binding_t *b, int rank)
{
    return dma_ready_started(atomic_load_explicit(&dma_window_ready(b->window, rank)->word, memory_order_relaxed),
                             b->epoch);
}

/* Armed programs of the last run that have not been revoked. */
static bool is_armed(const dma_sdma_binding_t *b)
{
    return b->armed && b->armed == b->epoch;
}

/* Is there a run whose end depends on nobody but the engine? */
static bool is_running(const dma_sdma_binding_t *b)
{
    for (int r = 0; is_armed(b) && r < b->nranks; r++) {
        if (!dma_sdma_has_started(b, r)) {
            return false;
        }
    }
    if (is_armed(b) && b->parts && !dma_sdma_parts_ready(b)) {
        return false; /* it waits for whoever makes the partitions */
    }
    return b->epoch && !dma_sdma_is_quiet(b);
}

/* ---- faults ---- */

void dma_sdma_watch_begin(dma_sdma_binding_t *b)
{
    pthread_mutex_lock(&b->unit->bindings_lock);
    b->next = b->unit->bindings;
    b->unit->bindings = b;
    pthread_mutex_unlock(&b->unit->bindings_lock);
}

void dma_sdma_watch_end(dma_sdma_binding_t *b)
{
    dma_sdma_binding_t **link = &b->unit->bindings;

    pthread_mutex_lock(&b->unit->bindings_lock);
    while (*link != b) {
        link = &(*link)->next;
    }
    *link = b->next;
    pthread_mutex_unlock(&b->unit->bindings_lock);
}

bool dma_sdma_busy(void *arg, uint64_t address)
{
    dma_sdma_unit_t *unit = arg;
    bool busy = dma_queues_busy(&unit->queues, address);

    pthread_mutex_lock(&unit->bindings_lock);
    for (const dma_sdma_binding_t *b = unit->bindings; b && !busy; b = b->next) {
        /* acquire: the window of that epoch. Programs that wait for our start touch nothing of ours but what is_busy knows. */
        busy = atomic_load_explicit(&b->epoch, memory_order_acquire) &&
               !(is_armed(b) && !dma_sdma_has_started(b, b->rank)) && !dma_sdma_is_quiet(b);
    }
    pthread_mutex_unlock(&unit->bindings_lock);
    return busy;
}

/* ---- losses ---- */

/* A number that changes when anything of the run moves, except for the read pointers. */
static uint64_t position(const dma_sdma_binding_t *b)
{
    uint64_t sum = 0;

    for (uint32_t i = 1; i < b->progs; i++) {
        sum += ((uint64_t)b->at[i].op << 32) + b->at[i].done + b->at[i].step;
        sum += dma_window_queue_reached(b->window, b->rank, (int)i - 1, b->epoch);
    }
    return sum;
}

/* Whether the run has stood still for too long, although its queues may have nothing left to fetch. */
static bool is_stuck(dma_sdma_binding_t *b, bool running, uint64_t moved)
{
    double at = dma_now();

    if (!running || !b->watched_at || moved != b->watched || b->epoch != b->watched_epoch) {
        b->watched_at = running ? at : 0;
        b->watched = moved;
        b->watched_epoch = b->epoch;
        return false;
    }
    return at - b->watched_at > b->unit->stuck_seconds;
}

static dma_status_t check_queues(dma_sdma_binding_t *b, double seconds, uint64_t *moved)
{
    for (int r = 0; r < b->nranks; r++) {
        dma_queue_t *queue = b->queues[r];
        dma_status_t status;

        pthread_mutex_lock(&queue->lock);
        status = dma_queue_check(queue, seconds, b->unit->counters);
        *moved += queue->ring.read;
        pthread_mutex_unlock(&queue->lock);
        if (status != DMA_OK) {
            return status;
        }
    }
    for (int i = 1; i <= b->nranks; i++) {
        if (!b->armed_queues[i]) {
            continue;
        }
        if (dma_queue_check(b->armed_queues[i], seconds, b->unit->counters) != DMA_OK) {
            return DMA_ERR_ENGINE;
        }
        *moved += b->armed_queues[i]->ring.read;
    }
    return DMA_OK;
}

void dma_sdma_switch_off(dma_sdma_unit_t *unit)
{
    if (!atomic_exchange(&unit->off, true)) {
        dma_gpu_count(unit->counters, DMA_COUNT_REASON + DMA_REASON_engine_failed, 1);
    }
}

dma_status_t dma_sdma_check(dma_gpu_binding_t *handle, const char **reason)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);
    /* While programs wait for peers they may do so for any time. Then only errors of a queue count. */
    bool running = is_running(b);
    uint64_t moved = position(b);

    if ((*reason = dma_sdma_failure(b->unit))) {
        return DMA_ERR_ENGINE;
    }
    *reason = "a queue stands still, or reports an error";
    if (check_queues(b, running ? b->unit->stuck_seconds : HUGE_VAL, &moved) == DMA_OK) {
        if (!is_stuck(b, running, moved)) {
            return DMA_OK;
        }
        *reason = "a completion has not come";
    }
    dma_sdma_switch_off(b->unit);
    return DMA_ERR_ENGINE;
}
