/*
 * AMD: when HIP has let go of memory.
 *
 * A command of HIP holds the memory that it moves until a thread of HIP's has seen its end; that is later than the end seen by
 * the device, by the word that it writes, and by hipStreamQuery, hipStreamSynchronize and hipEventQuery, which all look at the
 * hardware. Memory that HIP is told to forget meanwhile is not forgotten in full (up to 5.7 at least): hipIpcCloseMemHandle
 * takes an import out of HIP's map of addresses only if nobody else holds it. Else it stays mapped, and its entry points to
 * an object that goes with the command. A later hipHostUnregister that looks near it in the map aborts the process.
 *
 * So before an import is closed or memory unregistered, the streams that have been used since the last time are settled:
 * hipEventElapsedTime is the one call that waits for that thread. What it has seen of an event it has seen of all commands
 * that it was told of before, save for one thing: it goes through the signals that it waits for in no order, so it may
 * come to a later one first, in the same round. An event that is recorded after that cannot be seen in that round but
 * among those before the one in question; one recorded after that cannot be seen before the next round.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "dma/clock.h"
#include "gpu/hip.h"

#define ROUNDS  3
#define SECONDS 10.0

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static dma_gpu_stream_t *streams;

bool dma_hip_gone(struct ihipStream_t *stream)
{
    hip_error_t error = dma_hip.hipStreamQuery(stream);

    return error != HIP_DONE && dma_hip_status(error, "hipStreamQuery") != DMA_AGAIN;
}

dma_gpu_stream_t *dma_hip_add_stream(struct ihipStream_t *made, int device)
{
    dma_gpu_stream_t *stream = malloc(sizeof(*stream));

    if (stream) {
        *stream = (dma_gpu_stream_t){.hip = made, .device = device};
        pthread_mutex_lock(&lock);
        stream->next = streams;
        streams = stream;
        pthread_mutex_unlock(&lock);
    }
    return stream;
}

struct ihipStream_t *dma_hip_drop_stream(dma_gpu_stream_t *stream)
{
    struct ihipStream_t *hip = stream->hip;
    dma_gpu_stream_t **link;

    pthread_mutex_lock(&lock);
    for (link = &streams; *link != stream; link = &(*link)->next) {
    }
    *link = stream->next;
    pthread_mutex_unlock(&lock);
    free(stream);
    return hip;
}

static dma_status_t await_round(struct ihipStream_t *stream, struct ihipEvent_t *const *event)
{
    double until = dma_now() + SECONDS;
    dma_status_t status = DMA_OK;
    float ms;

    for (int i = 0; i < 2 && status == DMA_OK; i++) {
        status = DMA_HIP(hipEventRecord, event[i], stream);
    }
    if (status != DMA_OK) {
        return status;
    }
    while ((status = DMA_HIP(hipEventElapsedTime, &ms, event[0], event[1])) == DMA_AGAIN && dma_now() < until) {
        sched_yield();
    }
    return status;
}

/* With the stream's device chosen. */
static dma_status_t settle(struct ihipStream_t *stream)
{
    struct ihipEvent_t *event[2] = {NULL, NULL};
    dma_status_t status = DMA_OK;

    for (int i = 0; i < 2 && status == DMA_OK; i++) {
        status = DMA_HIP(hipEventCreateWithFlags, &event[i], 0);
    }
    for (int i = 0; i < ROUNDS && status == DMA_OK; i++) {
        status = await_round(stream, event);
    }
    for (int i = 0; i < 2; i++) {
        if (event[i]) {
            (void)DMA_HIP(hipEventDestroy, event[i]);
        }
    }
    return status;
}

static dma_status_t settle_on(const dma_gpu_stream_t *stream)
{
    dma_status_t status;
    int now = stream->device;

    if (dma_hip_gone(stream->hip)) {
        return DMA_OK;
    }
    status = DMA_HIP(hipGetDevice, &now);
    if (status == DMA_OK && now != stream->device) {
        status = DMA_HIP(hipSetDevice, stream->device);
    }
    if (status == DMA_OK) {
        status = settle(stream->hip);
    }
    if (now != stream->device) {
        (void)DMA_HIP(hipSetDevice, now);
    }
    return status;
}

dma_status_t dma_hip_settle(void)
{
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&lock);
    for (dma_gpu_stream_t *s = streams; s && status == DMA_OK; s = s->next) {
        /* acquire: what other threads have put there before is on the stream */
        if (atomic_exchange_explicit(&s->used, false, memory_order_acquire) && (status = settle_on(s)) != DMA_OK) {
            atomic_store_explicit(&s->used, true, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}
