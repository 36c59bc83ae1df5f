/*
 * The streams of the fake runtime: lists of work, which the threads that stand for devices carry out.
 *
 * A device draws one of its streams that can go on, and takes its first piece of work. It does the work without the
 * lock, so that copies of several devices truly overlap. The next piece of a stream waits until this one is done.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libgpu_fake_internal.h"

typedef enum work_code { WORK_COPY, WORK_RECT, WORK_WRITE, WORK_WAIT, WORK_RECORD, WORK_EVENT } work_code_t;

typedef struct one_copy {
    uint64_t dst, src, bytes;
} one_copy_t;

typedef struct work {
    struct work *next;
    work_code_t code;
    uint32_t value;
    uint64_t dst, src, bytes, dst_pitch, src_pitch, height;
    dma_gpu_event_t *event;
    uint64_t ticket; /* of the event */
    size_t n;
    one_copy_t copies[];
} work_t;

struct fake_stream {
    struct fake_stream *next;
    int device;
    bool busy, lost; /* lost in a reset */
    unsigned asleep; /* microseconds by which its next work is late */
    work_t *first, **last;
};

struct dma_gpu_graph {
    int device;
    uint64_t dst, src, bytes;
};

static fake_stream_t *of(dma_gpu_stream_t *stream)
{
    return (fake_stream_t *)stream;
}

static void snooze(unsigned us)
{
    struct timespec t = {.tv_nsec = (long)us * 1000};

    nanosleep(&t, NULL);
}

/* The caller holds the lock. Can this work be done now? */
static bool ready(const work_t *w)
{
    switch (w->code) {
    case WORK_WAIT:
        return (int32_t)(__atomic_load_n((uint32_t *)(uintptr_t)w->dst, __ATOMIC_ACQUIRE) - w->value) >= 0;
    case WORK_EVENT:
        return w->event->reached >= w->ticket;
    default:
        return true;
    }
}

static void copy_bytes(uint64_t dst, uint64_t src, uint64_t bytes)
{
    fake_note_written(dst, bytes);
    memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
}

static void perform(const work_t *w)
{
    switch (w->code) {
    case WORK_COPY:
        for (size_t i = 0; i < w->n; i++) {
            copy_bytes(w->copies[i].dst, w->copies[i].src, w->copies[i].bytes);
        }
        break;
    case WORK_RECT:
        for (uint64_t i = 0; i < w->height; i++) {
            copy_bytes(w->dst + i * w->dst_pitch, w->src + i * w->src_pitch, w->bytes);
        }
        break;
    case WORK_WRITE:
        __atomic_store_n((uint32_t *)(uintptr_t)w->dst, w->value, __ATOMIC_RELEASE);
        break;
    case WORK_WAIT:
    case WORK_RECORD:
    case WORK_EVENT:
        break;
    }
}

/* Under the lock: a random stream of the device that can go on. */
static fake_stream_t *pick(int device)
{
    fake_stream_t *found = NULL;
    uint64_t seen = 0;

    for (fake_stream_t *s = fake_machine.streams; s; s = s->next) {
        if (s->device == device && s->first && !s->busy && ready(s->first) && fake_random() % ++seen == 0) {
            found = s;
        }
    }
    return found;
}

static bool waiting(int device)
{
    for (fake_stream_t *s = fake_machine.streams; s; s = s->next) {
        if (s->device == device && s->first) {
            return true;
        }
    }
    return false;
}

void fake_gpu_sleep(int device, unsigned us)
{
    pthread_mutex_lock(&fake_machine.lock);
    for (fake_stream_t *s = fake_machine.streams; s; s = s->next) {
        s->asleep = s->device == device ? us : s->asleep;
    }
    pthread_mutex_unlock(&fake_machine.lock);
}

/* Under the lock, which is let go of while the work is done. */
static void step(fake_stream_t *s)
{
    work_t *w = s->first;
    unsigned late = fake_machine.options.late_us ? (unsigned)(fake_random() % fake_machine.options.late_us) : 0;

    late += s->asleep;
    s->asleep = 0;

    s->busy = true;
    pthread_mutex_unlock(&fake_machine.lock);
    if (late) {
        snooze(late);
    }
    perform(w);
    pthread_mutex_lock(&fake_machine.lock);
    if (w->code == WORK_RECORD && w->event->reached < w->ticket) {
        w->event->reached = w->ticket;
        w->event->ns = fake_now();
    } else if (w->code == WORK_EVENT) {
        w->event->waits--;
    }
    s->first = w->next;
    if (!s->first) {
        s->last = &s->first;
    }
    s->busy = false;
    free(w);
    pthread_cond_broadcast(&fake_machine.changed);
}

void *fake_device_main(void *arg)
{
    int device = (int)(intptr_t)arg;
    fake_stream_t *s;

    pthread_mutex_lock(&fake_machine.lock);
    while (!fake_machine.stopping) {
        s = fake_machine.held[device] ? NULL : pick(device);
        if (s) {
            step(s);
        } else if (!fake_machine.held[device] && waiting(device)) {
            /* Waits for a word in memory whose change nobody announces. */
            pthread_mutex_unlock(&fake_machine.lock);
            snooze(20);
            pthread_mutex_lock(&fake_machine.lock);
        } else {
            pthread_cond_wait(&fake_machine.work[device], &fake_machine.lock);
        }
    }
    pthread_mutex_unlock(&fake_machine.lock);
    return NULL;
}

/* Checks and counts the call, and appends a copy of `w` that has n copies. */
static dma_status_t submit(const char *function, dma_gpu_stream_t *stream, const work_t *w, const one_copy_t *copies,
                           size_t n)
{
    int device = fake_scope(function);
    work_t *made;
    dma_status_t status;

    if (!fake_call(function, &status)) {
        return status;
    }
    if (of(stream)->device != device) {
        fake_misuse("%s on a stream of device %d in the scope of device %d", function, of(stream)->device, device);
    }
    made = malloc(sizeof(*made) + n * sizeof(*copies));
    if (!made) {
        return DMA_ERR_NOMEM;
    }
    *made = *w;
    made->next = NULL;
    made->n = n;
    if (n) {
        memcpy(made->copies, copies, n * sizeof(*copies));
    }
    pthread_mutex_lock(&fake_machine.lock);
    if (of(stream)->lost) {
        pthread_mutex_unlock(&fake_machine.lock);
        free(made);
        return DMA_ERR_ENGINE;
    }
    for (size_t i = n; i > 1; i--) {
        size_t j = fake_random() % i;
        one_copy_t swapped = made->copies[i - 1];

        made->copies[i - 1] = made->copies[j];
        made->copies[j] = swapped;
    }
    if (made->event) {
        made->event->recorded += w->code == WORK_RECORD;
        made->event->waits += w->code == WORK_EVENT;
        made->ticket = made->event->recorded;
    }
    *of(stream)->last = made;
    of(stream)->last = &made->next;
    pthread_cond_signal(&fake_machine.work[of(stream)->device]);
    pthread_mutex_unlock(&fake_machine.lock);
    return DMA_OK;
}

static dma_status_t copy_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
    one_copy_t copy = {dst, src, bytes};

    fake_check_range("copy_async", dst, bytes);
    fake_check_range("copy_async", src, bytes);
    return submit("copy_async", stream, &(work_t){.code = WORK_COPY}, &copy, 1);
}

static dma_status_t copy_batch(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src,
                               const uint64_t *bytes, size_t n)
{
    one_copy_t *copies = calloc(n + 1, sizeof(*copies));
    dma_status_t status;

    if (!copies) {
        return DMA_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == 0) {
            fake_misuse("copy_batch with a copy of 0 bytes");
        }
        fake_check_range("copy_batch", dst[i], bytes[i]);
        fake_check_range("copy_batch", src[i], bytes[i]);
        copies[i] = (one_copy_t){dst[i], src[i], bytes[i]};
    }
    status = submit("copy_batch", stream, &(work_t){.code = WORK_COPY}, copies, n);
    free(copies);
    return status;
}

static dma_status_t copy2d_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t dst_pitch, uint64_t src,
                                 uint64_t src_pitch, uint64_t width, uint64_t height)
{
    work_t w = {.code = WORK_RECT,
                .dst = dst,
                .src = src,
                .bytes = width,
                .dst_pitch = dst_pitch,
                .src_pitch = src_pitch,
                .height = height};

    if (width > dst_pitch || width > src_pitch) {
        fake_misuse("copy2d_async of rows wider than their pitch");
    }
    if (dst_pitch > DMA_GPU_MAX_PITCH || src_pitch > DMA_GPU_MAX_PITCH) {
        return DMA_ERR_ENGINE;
    }
    if (height) {
        fake_check_range("copy2d_async", dst, (height - 1) * dst_pitch + width);
        fake_check_range("copy2d_async", src, (height - 1) * src_pitch + width);
    }
    return submit("copy2d_async", stream, &w, NULL, 0);
}

static dma_status_t write32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value)
{
    return submit("write32", stream, &(work_t){.code = WORK_WRITE, .dst = addr, .value = value}, NULL, 0);
}

dma_status_t fake_gpu_wait32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value)
{
    return submit("wait32", stream, &(work_t){.code = WORK_WAIT, .dst = addr, .value = value}, NULL, 0);
}

/* Only the first may fail. */
static dma_status_t write_and_wait32(dma_gpu_stream_t *stream, const uint64_t *writes, size_t nwrites,
                                     const uint64_t *waits, size_t nwaits, uint32_t value)
{
    dma_status_t status = DMA_OK;

    for (size_t i = 0; i < nwrites + nwaits && status == DMA_OK; i++) {
        work_t w = {.code = i < nwrites ? WORK_WRITE : WORK_WAIT,
                    .dst = i < nwrites ? writes[i] : waits[i - nwrites],
                    .value = value};

        status = submit(i ? "word" : "write_and_wait32", stream, &w, NULL, 0);
        if (status != DMA_OK && i == 0) {
            return DMA_UNSUPPORTED;
        }
    }
    return status;
}

/* The application has made its stream with the table's function. */
static dma_status_t stream_adopt(void *native, dma_gpu_stream_t **stream)
{
    int device = fake_scope("stream_adopt");
    dma_status_t status;

    if (!fake_call("stream_adopt", &status)) {
        return status;
    }
    if (of(native)->device != device) {
        return DMA_UNSUPPORTED;
    }
    *stream = native;
    return DMA_OK;
}

static void stream_forget(dma_gpu_stream_t *stream)
{
    dma_status_t status;

    (void)stream;
    fake_call("stream_forget", &status);
}

static bool lost[FAKE_GPU_MAX_DEVICES];

/* Drops all work except the piece that the device is doing. */
void fake_gpu_reset(int device)
{
    pthread_mutex_lock(&fake_machine.lock);
    lost[device] = true;
    for (fake_stream_t *s = fake_machine.streams; s; s = s->next) {
        work_t **at = &s->first, *w;

        if (s->device != device) {
            continue;
        }
        s->lost = true;
        if (s->busy) {
            at = &s->first->next;
        }
        while ((w = *at)) {
            *at = w->next;
            if (w->code == WORK_RECORD) {
                w->event->reached = w->ticket;
            } else if (w->code == WORK_EVENT) {
                w->event->waits--;
            }
            free(w);
        }
        s->last = at;
    }
    pthread_cond_broadcast(&fake_machine.changed);
    pthread_mutex_unlock(&fake_machine.lock);
}

bool fake_is_lost(int device)
{
    bool is;

    pthread_mutex_lock(&fake_machine.lock);
    is = lost[device];
    pthread_mutex_unlock(&fake_machine.lock);
    return is;
}

static dma_status_t stream_create(dma_gpu_stream_t **stream)
{
    int device = fake_scope("stream_create");
    fake_stream_t *made;
    dma_status_t status;

    if (!fake_call("stream_create", &status)) {
        return status;
    }
    made = calloc(1, sizeof(*made));
    if (!made) {
        return DMA_ERR_NOMEM;
    }
    made->device = device;
    made->last = &made->first;
    pthread_mutex_lock(&fake_machine.lock);
    made->next = fake_machine.streams;
    fake_machine.streams = made;
    pthread_mutex_unlock(&fake_machine.lock);
    *stream = (dma_gpu_stream_t *)made;
    return DMA_OK;
}

/* Waits, as the real ones do, except for a word that may never be written. */
static dma_status_t stream_destroy(dma_gpu_stream_t *stream)
{
    fake_stream_t **at = &fake_machine.streams, *s = of(stream);
    dma_status_t status;

    fake_scope("stream_destroy");
    if (!fake_call("stream_destroy", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    while (s->first) {
        if (s->first->code == WORK_WAIT) {
            fake_misuse("stream_destroy with a wait pending");
        }
        pthread_cond_wait(&fake_machine.changed, &fake_machine.lock);
    }
    while (*at && *at != s) {
        at = &(*at)->next;
    }
    if (!*at) {
        fake_misuse("stream_destroy of a stream that is none");
    }
    *at = s->next;
    pthread_mutex_unlock(&fake_machine.lock);
    free(s);
    return DMA_OK;
}

static dma_status_t stream_query(dma_gpu_stream_t *stream)
{
    dma_status_t status;

    fake_scope("stream_query");
    if (!fake_call("stream_query", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    status = of(stream)->lost ? DMA_ERR_ENGINE : of(stream)->first ? DMA_AGAIN : DMA_OK;
    pthread_mutex_unlock(&fake_machine.lock);
    return status;
}

static dma_status_t stream_sync(dma_gpu_stream_t *stream)
{
    dma_status_t status;

    fake_scope("stream_sync");
    if (!fake_call("stream_sync", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    while (of(stream)->first) {
        pthread_cond_wait(&fake_machine.changed, &fake_machine.lock);
    }
    status = of(stream)->lost ? DMA_ERR_ENGINE : DMA_OK;
    pthread_mutex_unlock(&fake_machine.lock);
    return status;
}

/* The only work on the default stream of the fake application are copies that are late. */
static dma_status_t default_sync(void)
{
    dma_status_t status;

    fake_scope("default_sync");
    if (!fake_call("default_sync", &status)) {
        return status;
    }
    fake_gpu_arrive();
    return DMA_OK;
}

static dma_status_t copy(uint64_t dst, uint64_t src, uint64_t bytes)
{
    dma_status_t status;

    fake_scope("copy");
    fake_check_range("copy", dst, bytes);
    fake_check_range("copy", src, bytes);
    if (!fake_call("copy", &status)) {
        return status;
    }
    copy_bytes(dst, src, bytes);
    return DMA_OK;
}

static dma_status_t event_record(dma_gpu_event_t *event, dma_gpu_stream_t *stream)
{
    return submit("event_record", stream, &(work_t){.code = WORK_RECORD, .event = event}, NULL, 0);
}

static dma_status_t stream_wait_event(dma_gpu_stream_t *stream, dma_gpu_event_t *event)
{
    return submit("stream_wait_event", stream, &(work_t){.code = WORK_EVENT, .event = event}, NULL, 0);
}

static dma_status_t graph_create(uint64_t dst, uint64_t src, uint64_t bytes, dma_gpu_graph_t **graph)
{
    int device = fake_scope("graph_create");
    dma_status_t status;

    if (!fake_call("graph_create", &status)) {
        return status;
    }
    fake_check_range("graph_create", dst, bytes);
    fake_check_range("graph_create", src, bytes);
    *graph = malloc(sizeof(**graph));
    if (!*graph) {
        return DMA_ERR_NOMEM;
    }
    **graph = (dma_gpu_graph_t){.device = device, .dst = dst, .src = src, .bytes = bytes};
    return DMA_OK;
}

static dma_status_t graph_update(dma_gpu_graph_t *graph, uint64_t dst, uint64_t src, uint64_t bytes)
{
    dma_status_t status;

    fake_scope("graph_update");
    if (!fake_call("graph_update", &status)) {
        return status;
    }
    fake_check_range("graph_update", dst, bytes);
    fake_check_range("graph_update", src, bytes);
    graph->dst = dst;
    graph->src = src;
    graph->bytes = bytes;
    return DMA_OK;
}

static dma_status_t graph_launch(dma_gpu_graph_t *graph, dma_gpu_stream_t *stream)
{
    one_copy_t copy = {graph->dst, graph->src, graph->bytes};

    if (of(stream)->device != graph->device) {
        fake_misuse("graph_launch on another device");
    }
    return submit("graph_launch", stream, &(work_t){.code = WORK_COPY}, &copy, 1);
}

static void graph_destroy(dma_gpu_graph_t *graph)
{
    dma_status_t status;

    fake_call("graph_destroy", &status);
    free(graph);
}

void fake_fill_streams(dma_gpu_runtime_t *table)
{
    memset(lost, 0, sizeof(lost));
    table->is_lost = fake_is_lost;
    table->copy = copy;
    table->copy_async = copy_async;
    table->copy2d_async = copy2d_async;
    table->copy_batch = copy_batch;
    table->stream_create = stream_create;
    table->stream_destroy = stream_destroy;
    table->stream_query = stream_query;
    table->stream_sync = stream_sync;
    table->default_sync = default_sync;
    table->write32 = write32;
    table->write_and_wait32 = write_and_wait32;
    table->stream_adopt = stream_adopt;
    table->stream_forget = stream_forget;
    table->event_record = event_record;
    table->stream_wait_event = stream_wait_event;
    fake_fill_events(table);
    table->graph_create = graph_create;
    table->graph_update = graph_update;
    table->graph_launch = graph_launch;
    table->graph_destroy = graph_destroy;
}
