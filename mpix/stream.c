/* Streams of HIP and CUDA; see stream.h. */
#include "stream.h"

#include <mpix_dma.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"

/* Constants that are equal in HIP and in CUDA's driver. */
enum { DONE = 0, NOT_READY = 600, NON_BLOCKING = 1, AT_LEAST = 0 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long asynchronous; /* with the lock: streams of queues that wait for MPI */

static uint64_t *reached_of(const mpix_stream_t *stream)
{
    return stream->words->place[0].at;
}

static uint64_t *done_of(const mpix_stream_t *stream)
{
    return stream->words->place[1].at;
}

/* The value of an environment variable that is a number, or -1. */
static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : -1;

    return text && end != text && !*end && number >= 0 ? number : -1;
}

/* Why one more stream may not wait, or NULL; see stream.h. */
static const char *refuse_wait(void)
{
    long most = number_of("MPIX_DMA_WAITING_STREAMS");

    if (most > asynchronous) {
        return NULL;
    }
    return most > 0 ? "as many streams have asynchronous queues as may wait at once"
                    : "work of MPI could stand behind a stream that waits (MPIX_DMA_WAITING_STREAMS)";
}

/* Some devices and drivers refuse the operations. So each is tried once, with the number that the words already have. */
static const char *try_words(mpix_stream_t *stream)
{
    stream->words = mpix_memory_for_stream(stream->type, stream->device);
    if (!stream->words) {
        return "there is no memory that streams can wait for";
    }
    stream->number = *done_of(stream);
    if (mpix_stream_signal(stream, stream->number) == MPI_SUCCESS &&
        mpix_stream_gate(stream, stream->number) == MPI_SUCCESS) {
        return NULL;
    }
    /* The stream may have accepted the first operation, which uses the words. */
    (void)mpix_stream_synchronize(stream);
    mpix_memory_give_back(stream->words);
    stream->words = NULL;
    return "the runtime refuses memory operations of this stream";
}

bool mpix_stream_is_non_blocking(const mpix_stream_t *stream)
{
    unsigned flags = 0;

    return stream->rt->flags && stream->rt->flags(stream->handle, &flags) == DONE && flags & NON_BLOCKING;
}

bool mpix_stream_is_captured(const mpix_stream_t *stream)
{
    int status = 0;

    return stream->rt && stream->rt->capturing && stream->rt->capturing(stream->handle, &status) == DONE && status != 0;
}

/* Why the host waits, or NULL. */
static const char *make_asynchronous(mpix_stream_t *stream, bool allowed)
{
    const mpix_runtime_t *rt = stream->rt;
    const char *why;

    if (!allowed) {
        return "MPI_Init_thread has not given MPI_THREAD_MULTIPLE";
    }
    if (!(rt->write64 && rt->wait64) && !(rt->write32 && rt->wait32)) {
        return "the runtime has no memory operations of streams";
    }
    if (!mpix_stream_is_non_blocking(stream)) {
        return "the stream was not created as non-blocking";
    }
    why = refuse_wait();
    why = why ? why : try_words(stream);
    asynchronous += why == NULL;
    return why;
}

/* The current device or context of the runtime. */
static bool open_runtime(mpix_stream_t *stream)
{
    const mpix_runtime_t *rt = stream->rt = mpix_runtime(stream->type);

    if (rt && stream->type == MPIX_QUEUE_HIP) {
        return rt->get_device(&stream->device) == DONE;
    }
    return rt && rt->get_context(&stream->context) == DONE && stream->context;
}

int mpix_stream_open(mpix_stream_t *stream, int type, void *handle, bool allowed)
{
    *stream = (mpix_stream_t){.type = type, .handle = handle};
    if (type == MPIX_QUEUE_THREAD) {
        return MPI_SUCCESS;
    }
    if (!open_runtime(stream)) {
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    pthread_mutex_lock(&lock);
    stream->why = make_asynchronous(stream, allowed);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

void mpix_stream_here(mpix_stream_t *stream, int type)
{
    *stream = (mpix_stream_t){.type = type};
    if (type != MPIX_QUEUE_THREAD && !open_runtime(stream)) {
        stream->type = MPIX_QUEUE_THREAD;
    }
}

/* A stream that has failed may still write to its words, so no other queue gets them. */
void mpix_stream_close(mpix_stream_t *stream, uint64_t number, bool failed)
{
    if (!stream->words) {
        return;
    }
    pthread_mutex_lock(&lock);
    asynchronous--;
    pthread_mutex_unlock(&lock);
    if (!failed) {
        mpix_stream_release(stream, number);
        mpix_memory_give_back(stream->words);
    }
    stream->words = NULL;
}

static int class_of(int error)
{
    return error == DONE ? MPI_SUCCESS : MPI_ERR_OTHER;
}

int mpix_stream_signal(const mpix_stream_t *stream, uint64_t number)
{
    const mpix_runtime_t *rt = stream->rt;
    const mpix_place_t *reached = &stream->words->place[0];

    return class_of(stream->type == MPIX_QUEUE_HIP ? rt->write64(stream->handle, reached->at, number, 0)
                                                   : rt->write32(stream->handle, reached->there, (uint32_t)number, 0));
}

int mpix_stream_gate(const mpix_stream_t *stream, uint64_t number)
{
    const mpix_runtime_t *rt = stream->rt;
    const mpix_place_t *done = &stream->words->place[1];

    return class_of(stream->type == MPIX_QUEUE_HIP
                        ? rt->wait64(stream->handle, done->at, number, AT_LEAST, UINT64_MAX)
                        : rt->wait32(stream->handle, done->there, (uint32_t)number, AT_LEAST));
}

int mpix_stream_synchronize(const mpix_stream_t *stream)
{
    return class_of(stream->rt->synchronize(stream->handle));
}

mpix_progress_t mpix_stream_progress(const mpix_stream_t *stream)
{
    int error = stream->rt->query(stream->handle);

    return error == DONE ? MPIX_STREAM_DONE : error == NOT_READY ? MPIX_STREAM_BUSY : MPIX_STREAM_FAILED;
}

/* Acquire: MPI may then read what the stream has written before. */
bool mpix_stream_has_reached(const mpix_stream_t *stream, uint64_t number)
{
    uint32_t reached = (uint32_t)__atomic_load_n(reached_of(stream), __ATOMIC_ACQUIRE);

    return (int32_t)(reached - (uint32_t)number) >= 0;
}

/* Release: the stream then sees what MPI has written with the CPU. Writes of devices are complete when the request is. */
void mpix_stream_release(const mpix_stream_t *stream, uint64_t number)
{
    __atomic_store_n(done_of(stream), number, __ATOMIC_RELEASE);
}

void mpix_stream_enter(const mpix_stream_t *stream)
{
    static _Thread_local int device;
    static _Thread_local void *context;

    if (stream->type == MPIX_QUEUE_HIP && device != stream->device + 1) {
        device = stream->rt->set_device(stream->device) == DONE ? stream->device + 1 : 0;
    } else if (stream->type == MPIX_QUEUE_CUDA && context != stream->context) {
        context = stream->rt->set_context(stream->context) == DONE ? stream->context : NULL;
    }
}
