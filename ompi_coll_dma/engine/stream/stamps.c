/* Times of streams: see stamps.h. */
#include "engine/stream/stamps.h"

#include "dma/clock.h"
#include "node/pause.h"

#define RENEW_NS   250e6
#define FIRST_NS   1e9  /* the time of the first event: no other one is before 0 */
#define TICK_NS    10.0 /* as the engines' clocks in traces have it */
#define MOST_DELAY 0.05 /* seconds in which a runtime notices an event that has been reached */

void dma_stream_clock_destroy(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt)
{
    if (clock->zero) {
        (void)rt->event_destroy(clock->zero);
        clock->zero = NULL;
    }
}

void dma_stream_stamps_destroy(dma_stream_stamps_t *stamps)
{
    for (int i = 0; i < DMA_STREAMS && stamps->rt; i++) {
        if (stamps->before[i]) {
            (void)stamps->rt->event_destroy(stamps->before[i]);
        }
        if (stamps->after[i]) {
            (void)stamps->rt->event_destroy(stamps->after[i]);
        }
    }
    stamps->rt = NULL;
}

static bool put(dma_stream_stamps_t *stamps, dma_gpu_event_t **event, dma_gpu_stream_t *stream)
{
    if (!*event && stamps->rt->event_create_timed(event) != DMA_OK) {
        *event = NULL;
        stamps->broken = true;
        return false;
    }
    stamps->broken = stamps->rt->event_record(*event, stream) != DMA_OK;
    return !stamps->broken;
}

void dma_stream_stamps_put_before(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream)
{
    stamps->given[which] = false;
    if (stamps->rt && !stamps->broken) {
        (void)put(stamps, &stamps->before[which], stream);
    }
}

void dma_stream_stamps_put_after(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream)
{
    if (stamps->rt && !stamps->broken) {
        stamps->given[which] = put(stamps, &stamps->after[which], stream);
    }
}

/* The engine has reached both events; the runtime may notice that later. */
static bool elapsed(const dma_gpu_runtime_t *rt, dma_gpu_event_t *from, dma_gpu_event_t *to, double *ns)
{
    double until = dma_now() + MOST_DELAY;
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = rt->event_elapsed(from, to, ns)) == DMA_AGAIN && dma_now() < until) {
        dma_pause(&pause);
    }
    return status == DMA_OK;
}

bool dma_stream_stamps_read(dma_stream_stamps_t *stamps, dma_stream_clock_t *clock, dma_stream_which_t which,
                            uint64_t ticks[2])
{
    double since = 0, length, begin;

    if (!stamps->given[which]) {
        return false;
    }
    stamps->given[which] = false;
    if (!elapsed(stamps->rt, stamps->before[which], stamps->after[which], &length) ||
        (clock->zero && !elapsed(stamps->rt, clock->zero, stamps->before[which], &since))) {
        return false;
    }
    begin = clock->zero ? clock->zero_ns + since : FIRST_NS;
    if (length < 0 || begin < 0) {
        return false;
    }
    if (!clock->zero || since > RENEW_NS) {
        dma_stream_clock_destroy(clock, stamps->rt);
        *clock = (dma_stream_clock_t){.zero = stamps->before[which], .zero_ns = begin};
        stamps->before[which] = NULL;
    }
    ticks[0] = (uint64_t)(begin / TICK_NS);
    ticks[1] = (uint64_t)((begin + length) / TICK_NS);
    return true;
}
