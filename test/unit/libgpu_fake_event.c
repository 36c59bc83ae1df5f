/* The fake runtime's events. Those with timing tell when a device has reached them, by the clock of all devices. */
#include <stdlib.h>
#include <time.h>

#include "libgpu_fake_internal.h"

static double passed; /* ns, under the lock */

void fake_gpu_pass(double ns)
{
    pthread_mutex_lock(&fake_machine.lock);
    passed += ns;
    pthread_mutex_unlock(&fake_machine.lock);
}

double fake_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec + passed;
}

static dma_status_t make(const char *function, bool timed, dma_gpu_event_t **event)
{
    dma_status_t status;

    fake_scope(function);
    if (!fake_call(function, &status)) {
        return status;
    }
    *event = calloc(1, sizeof(**event));
    if (!*event) {
        return DMA_ERR_NOMEM;
    }
    (*event)->timed = timed;
    return DMA_OK;
}

static dma_status_t event_create(dma_gpu_event_t **event)
{
    return make("event_create", false, event);
}

static dma_status_t event_create_timed(dma_gpu_event_t **event)
{
    return make("event_create_timed", true, event);
}

static dma_status_t event_destroy(dma_gpu_event_t *event)
{
    dma_status_t status;

    fake_scope("event_destroy");
    if (!fake_call("event_destroy", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    while (event->reached < event->recorded || event->waits) {
        pthread_cond_wait(&fake_machine.changed, &fake_machine.lock);
    }
    pthread_mutex_unlock(&fake_machine.lock);
    free(event);
    return DMA_OK;
}

static dma_status_t event_query(dma_gpu_event_t *event)
{
    dma_status_t status;

    fake_scope("event_query");
    if (!fake_call("event_query", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    status = event->reached < event->recorded ? DMA_AGAIN : DMA_OK;
    pthread_mutex_unlock(&fake_machine.lock);
    return status;
}

/* In milliseconds, a float, as the real ones have it. */
static dma_status_t event_elapsed(dma_gpu_event_t *from, dma_gpu_event_t *to, double *ns)
{
    dma_status_t status;

    fake_scope("event_elapsed");
    if (!fake_call("event_elapsed", &status)) {
        return status;
    }
    if (!from->timed || !to->timed || !from->recorded || !to->recorded) {
        fake_misuse("event_elapsed of an event without a time");
    }
    pthread_mutex_lock(&fake_machine.lock);
    status = from->reached < from->recorded || to->reached < to->recorded ? DMA_AGAIN : DMA_OK;
    *ns = 1e6 * (double)(float)((to->ns - from->ns) / 1e6);
    pthread_mutex_unlock(&fake_machine.lock);
    return status;
}

void fake_fill_events(dma_gpu_runtime_t *table)
{
    passed = 0;
    table->event_create = event_create;
    table->event_create_timed = event_create_timed;
    table->event_destroy = event_destroy;
    table->event_query = event_query;
    table->event_elapsed = event_elapsed;
}
