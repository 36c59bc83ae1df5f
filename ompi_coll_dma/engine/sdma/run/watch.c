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

/* Does the last run wait for whoever makes its partitions? */
static bool awaits_parts(const dma_sdma_binding_t *b)
{
    return b->parts && dma_sdma_is_armed(b, b->epoch, 1) && !dma_sdma_parts_ready(b);
}

/* Is there a run whose end depends on nobody but the engine? */
static bool is_running(const dma_sdma_binding_t *b)
{
    return b->progs && !dma_sdma_run_waits(b, b->epoch) && !awaits_parts(b) && !dma_sdma_is_quiet(b);
}

/* May programs of the last run touch memory of ours? Those that wait do not, except that is_busy knows the words that they read.
 * The own block may be copied while the others wait. */
static bool may_touch(const dma_sdma_binding_t *b)
{
    if (dma_sdma_run_waits(b, b->epoch)) {
        return b->own_prog && !dma_sdma_has_reached(b, b->own_prog);
    }
    return !dma_sdma_is_quiet(b);
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
        /* acquire: the window of that run */
        busy = atomic_load_explicit(&b->progs, memory_order_acquire) && may_touch(b);
    }
    pthread_mutex_unlock(&unit->bindings_lock);
    return busy;
}

/* ---- losses ---- */

/* A number that changes when anything of the run moves, except for its queues. */
static uint64_t position(const dma_sdma_binding_t *b)
{
    uint64_t sum = 0;

    for (uint32_t i = 1; i < b->progs; i++) {
        sum += ((uint64_t)b->at[i].op << 32) + b->at[i].done + b->at[i].step;
        sum += dma_sdma_has_reached(b, i);
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

/* Changes when a queue moves. So it does when it is nudged: until then it may have been waiting for this look. */
static uint64_t queue_position(const dma_queue_t *queue)
{
    return queue->ring.read + queue->ring.count.nudges;
}

/* A queue that has come to the end of the present run's program waits for the next run, for any time. */
static dma_status_t check_armed_queue(const dma_sdma_binding_t *b, uint32_t prog, double seconds, uint64_t *moved)
{
    dma_queue_t *queue = b->armed_queues[prog];
    bool waits = dma_sdma_is_armed(b, b->epoch, prog) && dma_sdma_has_reached(b, prog);
    dma_status_t status = dma_queue_check(queue, waits ? HUGE_VAL : seconds, b->unit->counters);

    *moved += queue_position(queue);
    return status;
}

static dma_status_t check_queues(dma_sdma_binding_t *b, double seconds, uint64_t *moved)
{
    for (int r = 0; r < b->nranks; r++) {
        dma_queue_t *queue = b->queues[r];
        dma_status_t status;

        pthread_mutex_lock(&queue->lock);
        status = dma_queue_check(queue, seconds, b->unit->counters);
        *moved += queue_position(queue);
        pthread_mutex_unlock(&queue->lock);
        if (status != DMA_OK) {
            return status;
        }
    }
    for (uint32_t i = 1; i <= (uint32_t)b->nranks; i++) {
        if (b->armed_queues[i] && check_armed_queue(b, i, seconds, moved) != DMA_OK) {
            return DMA_ERR_ENGINE;
        }
    }
    return DMA_OK;
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
