/*
 * HIP: our streams, and when HIP has released the memory of the commands on them.
 *
 * A HIP command holds a reference to the memory that it accesses until a HIP thread has processed its completion. That
 * is later than the completion on the device, and later than hipStreamQuery, hipStreamSynchronize and hipEventQuery
 * report, because these look at the hardware. Memory that is closed in between is not closed completely (HIP 5.2 to 5.6
 * at least): hipIpcCloseMemHandle removes an import from HIP's address map only if nothing else refers to it. Otherwise
 * the import stays mapped, and its map entry points to an object that is destroyed with the command. A later
 * hipHostUnregister that finds this entry aborts the process.
 *
 * So before an import is closed, all streams that have been used since the last time are quiesced. A callback is queued
 * behind their commands. The HIP thread that calls it releases the commands of the same completion first, in their
 * order. However, the thread checks the pending signals in rounds and in no particular order, so it may see a later
 * completion before an earlier one in the same round. A second callback, queued after the first was called, may still
 * be seen in that round before the earlier command. A third one, queued after the second was called, cannot be seen
 * before the next round, and by then the command has been seen. So three callbacks, one after the other, are
 * sufficient.
 *
 * The HIP thread also calls the application's callbacks, and these may block for any time, even on a collective. So the
 * wait for a callback is bounded: if a stream cannot be quiesced now, a later call tries again, and until then nothing
 * is closed. A stream does not advance while its callback is pending. So callbacks have a stream of their own on each
 * device, which waits for events on the streams in use. Its priority is low, because streams of one priority share the
 * few hardware queues of a device.
 */
#include <pthread.h>
#include <stdlib.h>

#include "dma/clock.h"
#include "gpu/hip/hip.h"
#include "node/pause.h"

#define ROUNDS       3   /* callbacks, one after the other: see above */
#define WAIT_SECONDS 1.0 /* for all of them; the application's callbacks may block the HIP thread for longer */

/* Shared by the thread that waits and the HIP thread; the last of the two frees it. */
typedef struct probe {
    atomic_bool called;
    atomic_int users;
} probe_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the devices */
static dma_gpu_stream_t *streams;
static struct {
    struct ihipStream_t *callback_stream; /* NULL: there is none yet */
    probe_t *probe;                       /* pending, or NULL */
    unsigned rounds;                      /* callbacks that are still needed */
    bool timed_out;                       /* the last wait for the probe has timed out */
} devices[DMA_GPU_MAX_DEVICES];

dma_gpu_stream_t *dma_hip_stream_add(struct ihipStream_t *made, int device)
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

struct ihipStream_t *dma_hip_stream_remove(dma_gpu_stream_t *stream)
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

static void drop_probe(probe_t *probe)
{
    /* acquire and release: the thread that frees the probe sees all accesses of the other thread */
    if (atomic_fetch_sub_explicit(&probe->users, 1, memory_order_acq_rel) == 1) {
        free(probe);
    }
}

static void on_probe(struct ihipStream_t *stream, hip_error_t error, void *data)
{
    probe_t *probe = data;

    (void)stream;
    (void)error;
    /* release: what the HIP thread has released, it has released before this store */
    atomic_store_explicit(&probe->called, true, memory_order_release);
    drop_probe(probe);
}

static dma_status_t make_callback_stream(int device)
{
    struct ihipStream_t **stream = &devices[device].callback_stream;

    return *stream ? DMA_OK
                   : DMA_HIP(hipStreamCreateWithPriority, stream, HIP_STREAM_NON_BLOCKING, HIP_STREAM_PRIORITY_LOW);
}

/* With the device current. Makes the callback stream wait for all work that is on the pending streams now. */
static dma_status_t wait_for_streams(int device)
{
    struct ihipEvent_t *event = NULL;
    dma_status_t status = DMA_HIP(hipEventCreateWithFlags, &event, HIP_EVENT_DISABLE_TIMING);

    for (const dma_gpu_stream_t *s = streams; s && status == DMA_OK; s = s->next) {
        if (s->device == device && s->pending) {
            status = DMA_HIP(hipEventRecord, event, s->hip);
            if (status == DMA_OK) {
                status = DMA_HIP(hipStreamWaitEvent, devices[device].callback_stream, event, 0);
            }
        }
    }
    if (event) {
        (void)DMA_HIP(hipEventDestroy, event);
    }
    return status;
}

static dma_status_t post_probe(int device)
{
    probe_t *probe = malloc(sizeof(*probe));
    dma_status_t status;

    if (!probe) {
        return DMA_ERR_NOMEM;
    }
    atomic_init(&probe->called, false);
    atomic_init(&probe->users, 2);
    if ((status = make_callback_stream(device)) == DMA_OK && (status = wait_for_streams(device)) == DMA_OK) {
        status = DMA_HIP(hipStreamAddCallback, devices[device].callback_stream, on_probe, probe, 0);
    }
    if (status != DMA_OK) {
        free(probe);
        return status;
    }
    devices[device].probe = probe;
    return DMA_OK;
}

/* Waits for the pending callback until the time `until`; DMA_AGAIN if it was not called. After a timeout, later
 * calls only check. */
static dma_status_t wait_probe(int device, double until)
{
    probe_t *probe = devices[device].probe;
    dma_pause_t pause = {0};

    while (!atomic_load_explicit(&probe->called, memory_order_acquire)) {
        if (devices[device].timed_out || dma_now() >= until) {
            devices[device].timed_out = true;
            return DMA_AGAIN;
        }
        dma_pause(&pause);
    }
    drop_probe(probe);
    devices[device].probe = NULL;
    devices[device].timed_out = false;
    devices[device].rounds--;
    return DMA_OK;
}

/* With the device current. */
static dma_status_t quiesce(int device, double until)
{
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && devices[device].rounds) {
        if (devices[device].probe || (status = post_probe(device)) == DMA_OK) {
            status = wait_probe(device, until);
        }
    }
    return status;
}

static dma_status_t quiesce_device(int device, double until)
{
    dma_gpu_scope_t scope;
    dma_status_t status = dma_hip_enter(device, &scope);

    if (status == DMA_OK) {
        status = quiesce(device, until);
        dma_hip_leave(&scope);
    }
    return status;
}

/* Marks the streams that were used since the last call. */
static void mark_used_streams(void)
{
    for (dma_gpu_stream_t *s = streams; s; s = s->next) {
        /* acquire: work that another thread has submitted before it set the flag is on the stream */
        if (atomic_exchange_explicit(&s->used, false, memory_order_acquire)) {
            s->pending = true;
            /* a probe that is pending was queued too early to count */
            devices[s->device].rounds = ROUNDS + (devices[s->device].probe != NULL);
        }
    }
}

dma_status_t dma_hip_quiesce(void)
{
    double until = dma_now() + WAIT_SECONDS;
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&lock);
    mark_used_streams();
    for (int d = 0; d < DMA_GPU_MAX_DEVICES; d++) {
        if (dma_hip_is_lost(d)) {
            devices[d].rounds = 0; /* a reset has ended all commands */
        } else if (devices[d].rounds && quiesce_device(d, until) != DMA_OK) {
            status = DMA_AGAIN;
        }
    }
    for (dma_gpu_stream_t *s = streams; s; s = s->next) {
        s->pending = devices[s->device].rounds != 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
