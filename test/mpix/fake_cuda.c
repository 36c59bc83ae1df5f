/*
 * Replaces libcuda.so.1 in the tests of queues. A stream is a thread, which does its work in order. Device memory is host
 * memory. It is strict: a call for a stream fails in a thread without a context. Tests control it with the functions fake_*.
 *
 *   DMA_FAKE_CUDA=unordered   streams do not wait for events
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, INVALID = 1, NO_CONTEXT = 201, NOT_READY = 600, FAULT = 700, REFUSED = 801, DEVICES = 4 };

typedef struct work {
    struct work *next;
    void (*run)(struct work *work);
    void (*function)(void *arg);
    void *to;
    const void *from;
    uint64_t value;
} work_t;

typedef struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    unsigned flags;
    work_t *head, **tail;
    bool running, broken, ending;
} stream_t;

#define API __attribute__((visibility("default")))

static _Thread_local void *current;
static int synchronizations, refused;
static char contexts[DEVICES];

API int fake_synchronizations(void)
{
    return __atomic_load_n(&synchronizations, __ATOMIC_ACQUIRE);
}

/* The stream stops, and all calls for it fail. */
API void fake_break(stream_t *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->broken = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

/* 1: refuses memory operations of streams. 2: refuses mapped host memory. */
API void fake_refuse(int refuse)
{
    refused = refuse;
}

/* ---- devices and memory ---- */

API int cuInit(unsigned flags)
{
    return flags ? INVALID : DONE;
}

API int cuDeviceGetCount(int *count)
{
    *count = DEVICES;
    return DONE;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = &contexts[device];
    return DONE;
}

API int cuCtxSetCurrent(void *context)
{
    current = context;
    return DONE;
}

API int cuCtxGetCurrent(void **context)
{
    *context = current;
    return DONE;
}

API int cuMemAlloc_v2(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return DONE;
}

API int cuMemFree_v2(void *memory)
{
    free(memory);
    return DONE;
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    *memory = flags == 3 && refused != 2 ? malloc(bytes) : NULL;
    return *memory ? DONE : INVALID;
}

API int cuMemFreeHost(void *memory)
{
    free(memory);
    return DONE;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *there, void *memory, unsigned flags)
{
    *there = (uintptr_t)memory;
    return flags ? INVALID : DONE;
}

/* ---- streams ---- */

static void *stream_main(void *arg)
{
    stream_t *s = arg;
    work_t *work;

    pthread_mutex_lock(&s->lock);
    while (!s->ending || (s->head && !s->broken)) {
        if (!s->head || s->broken) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        work = s->head;
        s->head = work->next;
        s->tail = s->head ? s->tail : &s->head;
        s->running = true;
        pthread_mutex_unlock(&s->lock);
        work->run(work);
        free(work);
        pthread_mutex_lock(&s->lock);
        s->running = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

API int cuStreamCreate(stream_t **stream, unsigned flags)
{
    stream_t *s = calloc(1, sizeof(*s));

    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->flags = flags;
    s->tail = &s->head;
    pthread_create(&s->thread, NULL, stream_main, s);
    *stream = s;
    return DONE;
}

/* Waits until the work of the stream is done. */
API int cuStreamDestroy_v2(stream_t *s)
{
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    free(s);
    return DONE;
}

API int cuStreamGetFlags(stream_t *s, unsigned *flags)
{
    *flags = s->flags;
    return DONE;
}

API int cuStreamQuery(stream_t *s)
{
    int result;

    pthread_mutex_lock(&s->lock);
    result = s->broken ? FAULT : s->head || s->running ? NOT_READY : DONE;
    pthread_mutex_unlock(&s->lock);
    return result;
}

API int cuStreamSynchronize(stream_t *s)
{
    int result;

    __atomic_add_fetch(&synchronizations, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&s->lock);
    while ((s->head || s->running) && !s->broken) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    result = s->broken ? FAULT : DONE;
    pthread_mutex_unlock(&s->lock);
    return result;
}

static int put(stream_t *s, work_t what)
{
    work_t *work = malloc(sizeof(*work));
    int result;

    if (!current || !work) {
        free(work);
        return NO_CONTEXT;
    }
    *work = what;
    pthread_mutex_lock(&s->lock);
    *s->tail = work;
    s->tail = &work->next;
    result = s->broken ? FAULT : DONE;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return result;
}

static void run_function(work_t *work)
{
    work->function(work->to);
}

static void run_copy(work_t *work)
{
    memcpy(work->to, work->from, work->value);
}

static void run_write(work_t *work)
{
    __atomic_store_n((uint32_t *)work->to, (uint32_t)work->value, __ATOMIC_RELEASE);
}

static void run_wait(work_t *work)
{
    while ((int32_t)(__atomic_load_n((uint32_t *)work->to, __ATOMIC_ACQUIRE) - (uint32_t)work->value) < 0) {
        sched_yield();
    }
}

/* ---- events: `recorded` counts the calls, `reached` those that a stream has come to ---- */

typedef struct event {
    uint64_t recorded, reached;
} event_t;

API int cuEventCreate(event_t **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return *event ? DONE : INVALID;
}

static void run_reach(work_t *work)
{
    __atomic_store_n((uint64_t *)work->to, work->value, __ATOMIC_RELEASE);
}

static void wait_for_event(event_t *event, uint64_t number)
{
    while (__atomic_load_n(&event->reached, __ATOMIC_ACQUIRE) < number) {
        sched_yield();
    }
}

static void run_wait_event(work_t *work)
{
    wait_for_event(work->to, work->value);
}

API int cuEventRecord(event_t *event, stream_t *stream)
{
    return put(stream, (work_t){.run = run_reach, .to = &event->reached, .value = ++event->recorded});
}

API int cuEventSynchronize(event_t *event)
{
    wait_for_event(event, event->recorded);
    return DONE;
}

API int cuStreamWaitEvent(stream_t *stream, event_t *event, unsigned flags)
{
    const char *mode = getenv("DMA_FAKE_CUDA");

    if (mode && !strcmp(mode, "unordered")) {
        return DONE;
    }
    return flags ? INVALID : put(stream, (work_t){.run = run_wait_event, .to = event, .value = event->recorded});
}

API int cuLaunchHostFunc(stream_t *stream, void (*function)(void *arg), void *arg)
{
    return put(stream, (work_t){.run = run_function, .function = function, .to = arg});
}

API int cuMemcpyAsync(void *to, const void *from, size_t bytes, stream_t *stream)
{
    return put(stream, (work_t){.run = run_copy, .to = to, .from = from, .value = bytes});
}

API int cuStreamWriteValue32_v2(stream_t *stream, uint64_t word, uint32_t value, unsigned flags)
{
    return refused == 1 ? REFUSED
           : flags      ? INVALID
                        : put(stream, (work_t){.run = run_write, .to = (void *)word, .value = value});
}

API int cuStreamWaitValue32_v2(stream_t *stream, uint64_t word, uint32_t value, unsigned flags)
{
    return refused == 1 ? REFUSED
           : flags      ? INVALID
                        : put(stream, (work_t){.run = run_wait, .to = (void *)word, .value = value});
}
