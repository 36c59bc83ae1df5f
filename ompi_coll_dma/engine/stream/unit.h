/*
 * A unit of the stream engine: two streams on one device, the memory that exchanges need, and the clock of its timed events.
 * Communicators use the streams in turn.
 */
#ifndef DMA_STREAM_UNIT_H
#define DMA_STREAM_UNIT_H

#include <pthread.h>

#include "engine/stream/self_copy.h"
#include "engine/stream/stamps.h"

/* A small copy inside of the device, whose time tells whether its compute units are busy (self_copy.h). */
typedef struct dma_stream_probe {
    uint64_t memory; /* 0: not allocated yet */
    dma_gpu_event_t *event;
    uint64_t number; /* of the last one */
    bool out;        /* it was submitted, and nobody has seen its end */
    bool broken;     /* something about it has failed: no more probes */
} dma_stream_probe_t;

enum { DMA_STREAM_EVENTS = DMA_COUNT_REASON + DMA_REASON_stream_events };

typedef struct dma_stream_unit {
    const dma_gpu_runtime_t *rt;
    int device;
    dma_self_copy_method_t method;
    dma_counters_t *counters; /* may be NULL */
    pthread_mutex_t lock;     /* only pthread_mutex_trylock: guards the streams and the members below */
    dma_gpu_stream_t *streams[DMA_STREAMS];
    dma_budget_t *budget;
    uint64_t temp, temp_bytes; /* for exchanges; 0: not allocated yet */
    _Atomic bool writes;       /* write32 works on the streams; enqueue.c reads it without the lock */
    dma_stream_clock_t clock;
    dma_stream_probe_t probe;
} dma_stream_unit_t;

/* Members of the engine's table. */
dma_status_t dma_stream_open(const dma_gpu_config_t *config, dma_gpu_unit_t **result, char *why);
void dma_stream_close(dma_gpu_unit_t *handle);

/* Allocates the memory for exchanges, as much as is useful, if the budget and the device have room for it. The least is taken
 * in any case, because a call that has begun cannot do without it. In scope, with the lock. */
dma_status_t dma_stream_allocate_temp(dma_stream_unit_t *unit);

/* Both in scope, with the lock. Submits a probe and returns its number. 0: there is none, or another one has not ended. */
uint64_t dma_stream_probe_begin(dma_stream_unit_t *unit);
/* Has this probe ended? Those before the last one have. */
bool dma_stream_probe_ended(dma_stream_unit_t *unit, uint64_t number);

#endif
