/*
 * AMD: our streams, and when HIP has let go of what was put on them.
 *
 * A command of HIP holds the memory that it moves until a thread of HIP's has seen its end; that is later than the end seen by
 * the device, by the word that it writes, and by hipStreamQuery, hipStreamSynchronize and hipEventQuery, which all look at the
 * hardware. Memory that HIP is told to forget meanwhile is not forgotten in full (5.2 to 5.6 at least): hipIpcCloseMemHandle
 * takes an import out of HIP's map of addresses only if nobody else holds it. Else it stays mapped, and its entry points to
 * an object that goes with the command. A later hipHostUnregister that looks near it in the map aborts the process.
 *
 * So before an import is closed, the streams that have been used since the last time are settled: a callback behind them is
 * called by that thread, which lets go of the commands that came with it, in their order, first. It goes through the signals that
 * it waits for in no order, however, so a later one may be seen before an earlier one, in the same round. A callback that is put
 * behind them after that cannot be seen in that round but among those before the one in question; one put there after that cannot
 * be seen before the next round. So three, one after the other.
 *
 * The thread also calls the application's callbacks, and those may wait for anything, for a collective too. So it is not waited
 * for long: what cannot be settled now is asked again later, and what is not settled is not closed. And as a stream stands still
 * until its callback has been called, ours are on a stream of their own for each device, of low priority, since streams of a
 * priority share the few queues of a device. It waits for events on the streams in use.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "dma/clock.h"
#include "gpu/hip/hip.h"

#define ROUNDS       3
#define WAIT_SECONDS 0.05

/* Lives until both have seen it: who asked, and HIP's thread. */
typedef struct probe {
    atomic_bool called;
    atomic_int users;
} probe_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the devices */
static dma_gpu_stream_t *streams;
static struct {
    dma_gpu_stream_t callback_stream; /* the callbacks' stream; hip NULL: none yet */
    probe_t *probe;                   /* under way, or NULL */
    unsigned rounds;                  /* that are still needed */
    bool timed_out;                   /* the last wait for the probe was in vain */
} devices[DMA_GPU_MAX_DEVICES];

dma_gpu_stream_t *dma_hip_stream_add(struct ihipStream_t *made, int device, unsigned resets)
{
    dma_gpu_stream_t *stream = malloc(sizeof(*stream));

    if (stream) {
        *stream = (dma_gpu_stream_t){.hip = made, .device = device, .resets = resets};
        pthread_mutex_lock(&lock);
        stream->next = streams;
        streams = stream;
        pthread_mutex_unlock(&lock);
    }
    return stream;
}

struct ihipStream_t *dma_hip_stream_remove(dma_gpu_stream_t *stream)
{
    struct ihipStream_t *hip;
    dma_gpu_stream_t **link;

    dma_hip_detect_resets();
    hip = dma_hip_stream_is_lost(stream) ? NULL : stream->hip;
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
    /* acquire and release: the last one frees what the other has written */
    if (atomic_fetch_sub_explicit(&probe->users, 1, memory_order_acq_rel) == 1) {
        free(probe);
    }
}

static void on_probe(struct ihipStream_t *stream, hip_error_t error, void *data)
{
    probe_t *probe = data;

    (void)stream;
    (void)error;
    /* release: what HIP's thread has let go of, it has let go of before */
    atomic_store_explicit(&probe->called, true, memory_order_release);
    drop_probe(probe);
}

static dma_status_t make_callback_stream(int device)
{
    dma_gpu_stream_t *callback_stream = &devices[device].callback_stream;

    if (callback_stream->hip && !dma_hip_stream_is_lost(callback_stream)) {
        return DMA_OK;
    }
    *callback_stream = (dma_gpu_stream_t){.device = device, .resets = dma_hip_resets(device)};
    return DMA_HIP(hipStreamCreateWithPriority, &callback_stream->hip, HIP_STREAM_NON_BLOCKING,
                   HIP_STREAM_PRIORITY_LOW);
}

/* With the device current: the stream of callbacks waits for what is on the others now. */
static dma_status_t wait_for_streams(int device)
{
    struct ihipEvent_t *event = NULL;
    dma_status_t status = DMA_HIP(hipEventCreateWithFlags, &event, HIP_EVENT_DISABLE_TIMING);

    for (const dma_gpu_stream_t *s = streams; s && status == DMA_OK; s = s->next) {
        if (s->device == device && s->pending && !dma_hip_stream_is_lost(s)) {
            status = DMA_HIP(hipEventRecord, event, s->hip);
            if (status == DMA_OK) {
                status = DMA_HIP(hipStreamWaitEvent, devices[device].callback_stream.hip, event, 0);
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
        status = DMA_HIP(hipStreamAddCallback, devices[device].callback_stream.hip, on_probe, probe, 0);
    }
    if (status != DMA_OK) {
        free(probe);
        return status;
    }
    devices[device].probe = probe;
    return DMA_OK;
}

/* The on_probe to what has been asked, or DMA_AGAIN at `until`. One that was timed_out once is not waited for again. */
static dma_status_t wait_probe(int device, double until)
{
    probe_t *probe = devices[device].probe;

    while (!atomic_load_explicit(&probe->called, memory_order_acquire)) {
        if (devices[device].timed_out || dma_now() >= until) {
            devices[device].timed_out = true;
            return DMA_AGAIN;
        }
        sched_yield();
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

/* What is on the streams now is to be settled. */
static void mark_used_streams(void)
{
    for (dma_gpu_stream_t *s = streams; s; s = s->next) {
        /* acquire: what other threads have put there before is on the stream */
        if (atomic_exchange_explicit(&s->used, false, memory_order_acquire)) {
            s->pending = true;
            /* a probe that is under way is too early */
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
        if (devices[d].rounds && quiesce_device(d, until) != DMA_OK) {
            status = DMA_AGAIN;
        }
    }
    for (dma_gpu_stream_t *s = streams; s; s = s->next) {
        s->pending = devices[s->device].rounds != 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void dma_hip_quiesce_release(void)
{
    dma_hip_detect_resets();
    pthread_mutex_lock(&lock);
    for (int d = 0; d < DMA_GPU_MAX_DEVICES; d++) {
        /* One with a callback under way stays: destroying it would wait for that. */
        if (devices[d].callback_stream.hip && !devices[d].probe &&
            !dma_hip_stream_is_lost(&devices[d].callback_stream)) {
            (void)DMA_HIP(hipStreamDestroy, devices[d].callback_stream.hip);
            devices[d].callback_stream.hip = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
}
