/* Streams of HIP and CUDA; see stream.h. */
#include "stream.h"

#include <dlfcn.h>
#include <mpix_dma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Constants that are equal in HIP and in CUDA's driver. */
enum { DONE = 0, NOT_READY = 600, NON_BLOCKING = 1, AT_LEAST = 0 };
enum { HIP_SIGNAL_MEMORY = 2, CUDA_PORTABLE = 1, CUDA_MAPPED = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all static variables here */
static mpix_words_t *unused;
static long asynchronous; /* streams of queues that exist */

/* Calls that HIP and CUDA share. */
typedef struct common {
    int (*synchronize)(void *stream);
    int (*query)(void *stream);
    int (*flags)(void *stream, unsigned *flags);
    int (*capturing)(void *stream, int *status);
} common_t;

static struct {
    common_t common;
    int (*get_device)(int *device);
    int (*set_device)(int device);
    int (*alloc)(void **memory, size_t bytes, unsigned flags);
    int (*release)(void *memory);
    int (*write)(void *stream, void *word, uint64_t value, unsigned flags);
    int (*wait)(void *stream, void *word, uint64_t value, unsigned flags, uint64_t mask);
} hip;

static struct {
    common_t common;
    int (*get_context)(void **context);
    int (*set_context)(void *context);
    int (*alloc)(void **memory, size_t bytes, unsigned flags);
    int (*release)(void *memory);
    int (*address)(uint64_t *there, void *memory, unsigned flags);
    int (*write)(void *stream, uint64_t word, uint32_t value, unsigned flags);
    int (*wait)(void *stream, uint64_t word, uint32_t value, unsigned flags);
} cuda;

static const mpix_symbol_t hip_symbols[] = {
    {"hipStreamSynchronize", &hip.common.synchronize, true},
    {"hipStreamQuery", &hip.common.query, true},
    {"hipGetDevice", &hip.get_device, true},
    {"hipSetDevice", &hip.set_device, true},
    {"hipStreamGetFlags", &hip.common.flags, false},
    {"hipStreamIsCapturing", &hip.common.capturing, false},
    {"hipExtMallocWithFlags", &hip.alloc, false},
    {"hipFree", &hip.release, false},
    {"hipStreamWriteValue64", &hip.write, false},
    {"hipStreamWaitValue64", &hip.wait, false},
    {NULL, NULL, false},
};
static const mpix_symbol_t cuda_symbols[] = {
    {"cuStreamSynchronize", &cuda.common.synchronize, true},
    {"cuStreamQuery", &cuda.common.query, true},
    {"cuCtxGetCurrent", &cuda.get_context, true},
    {"cuCtxSetCurrent", &cuda.set_context, true},
    {"cuStreamGetFlags", &cuda.common.flags, false},
    {"cuStreamIsCapturing", &cuda.common.capturing, false},
    {"cuMemHostAlloc", &cuda.alloc, false},
    {"cuMemFreeHost", &cuda.release, false},
    {"cuMemHostGetDevicePointer_v2", &cuda.address, false},
    {"cuStreamWriteValue32_v2", &cuda.write, false},
    {"cuStreamWaitValue32_v2", &cuda.wait, false},
    {NULL, NULL, false},
};
static const char *const hip_libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so", NULL};
static const char *const cuda_libraries[] = {"libcuda.so.1", "libcuda.so", NULL};

bool mpix_runtime_fill(int type, const mpix_symbol_t *symbols)
{
    const char *const *libraries = type == MPIX_QUEUE_HIP ? hip_libraries : cuda_libraries;
    void *library = NULL;

    for (; *libraries && !library; libraries++) {
        library = dlopen(*libraries, RTLD_NOW | RTLD_NOLOAD);
    }
    for (; library && symbols->name; symbols++) {
        *(void **)symbols->to = dlsym(library, symbols->name);
        if (symbols->required && !*(void **)symbols->to) {
            return false;
        }
    }
    return library != NULL;
}

static const common_t *common_of(int type)
{
    return type == MPIX_QUEUE_HIP ? &hip.common : &cuda.common;
}

static bool has_memory_operations(int type)
{
    return type == MPIX_QUEUE_HIP ? hip.alloc && hip.release && hip.write && hip.wait
                                  : cuda.alloc && cuda.release && cuda.address && cuda.write && cuda.wait;
}

/* HIP requires an allocation (signal memory) for each word that a stream waits for. */
static bool alloc_word(int type, uint64_t **word, uint64_t *there)
{
    void *memory = NULL;

    if (type == MPIX_QUEUE_HIP) {
        if (hip.alloc(&memory, sizeof(**word), HIP_SIGNAL_MEMORY) != DONE) {
            return false;
        }
        *there = (uintptr_t)memory;
    } else if (cuda.alloc(&memory, sizeof(**word), CUDA_PORTABLE | CUDA_MAPPED) != DONE) {
        return false;
    } else if (cuda.address(there, memory, 0) != DONE) {
        cuda.release(memory);
        return false;
    }
    *word = memory;
    __atomic_store_n(*word, 0, __ATOMIC_RELEASE);
    return true;
}

static void free_word(int type, uint64_t *word)
{
    if (word) {
        (void)(type == MPIX_QUEUE_HIP ? hip.release(word) : cuda.release(word));
    }
}

static void free_words(mpix_words_t *words)
{
    if (words) {
        free_word(words->type, words->reached);
        free_word(words->type, words->done);
        free(words);
    }
}

static bool fits(const mpix_words_t *words, const mpix_stream_t *stream)
{
    return words->type == stream->type && (words->type == MPIX_QUEUE_CUDA || words->device == stream->device);
}

static bool are_there(const mpix_words_t *words)
{
    return mpix_pinned_is(words->type, words->reached, words->reached_allocated) &&
           mpix_pinned_is(words->type, words->done, words->done_allocated);
}

/* Takes the words of a queue that was freed, or returns NULL. Words that a reset of the device has freed are forgotten. */
static mpix_words_t *take_unused(const mpix_stream_t *stream)
{
    mpix_words_t **at = &unused, *words;

    while ((words = *at)) {
        if (!fits(words, stream)) {
            at = &words->next;
            continue;
        }
        *at = words->next;
        if (are_there(words)) {
            return words;
        }
        free(words);
    }
    return NULL;
}

static mpix_words_t *take_words(const mpix_stream_t *stream)
{
    mpix_words_t *words = take_unused(stream);

    if (words) {
        return words;
    }
    words = calloc(1, sizeof(*words));
    if (words) {
        words->type = stream->type;
        words->device = stream->device;
        if (alloc_word(words->type, &words->reached, &words->reached_there) &&
            alloc_word(words->type, &words->done, &words->done_there)) {
            words->reached_allocated = mpix_pinned_look(words->type, words->reached);
            words->done_allocated = mpix_pinned_look(words->type, words->done);
            return words;
        }
    }
    free_words(words);
    return NULL;
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
    stream->words = take_words(stream);
    if (!stream->words) {
        return "there is no memory that streams can wait for";
    }
    if (mpix_stream_signal(stream, stream->words->number) == MPI_SUCCESS &&
        mpix_stream_gate(stream, stream->words->number) == MPI_SUCCESS) {
        return NULL;
    }
    /* The stream may have accepted the first operation, which uses the words. */
    (void)mpix_stream_synchronize(stream);
    free_words(stream->words);
    stream->words = NULL;
    return "the runtime refuses memory operations of this stream";
}

bool mpix_stream_is_non_blocking(const mpix_stream_t *stream)
{
    const common_t *common = common_of(stream->type);
    unsigned flags = 0;

    return common->flags && common->flags(stream->handle, &flags) == DONE && flags & NON_BLOCKING;
}

bool mpix_stream_is_captured(const mpix_stream_t *stream)
{
    const common_t *common = common_of(stream->type);
    int status = 0;

    return stream->type != MPIX_QUEUE_THREAD && common->capturing &&
           common->capturing(stream->handle, &status) == DONE && status != 0;
}

/* Why the host waits, or NULL. */
static const char *make_asynchronous(mpix_stream_t *stream, bool allowed)
{
    const char *why;

    if (!allowed) {
        return "MPI_Init_thread has not given MPI_THREAD_MULTIPLE";
    }
    if (!has_memory_operations(stream->type)) {
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

static int open_runtime(mpix_stream_t *stream)
{
    if (stream->type == MPIX_QUEUE_HIP) {
        return mpix_runtime_fill(MPIX_QUEUE_HIP, hip_symbols) && hip.get_device(&stream->device) == DONE;
    }
    return mpix_runtime_fill(MPIX_QUEUE_CUDA, cuda_symbols) && cuda.get_context(&stream->context) == DONE &&
           stream->context;
}

void mpix_tell(const char *what, const char *why)
{
    const char *verbose = getenv("MPIX_DMA_VERBOSE");

    if (verbose && *verbose && *verbose != '0') {
        fprintf(stderr, "libmpix_dma: %s, because %s\n", what, why);
    }
}

int mpix_stream_open(mpix_stream_t *stream, int type, void *handle, bool allowed)
{
    int result = MPI_SUCCESS;

    *stream = (mpix_stream_t){.type = type, .handle = handle};
    if (type == MPIX_QUEUE_THREAD) {
        return MPI_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    if (!open_runtime(stream)) {
        result = MPI_ERR_UNSUPPORTED_OPERATION;
    } else {
        stream->why = make_asynchronous(stream, allowed);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void mpix_stream_here(mpix_stream_t *stream, int type)
{
    *stream = (mpix_stream_t){.type = type};
    pthread_mutex_lock(&lock);
    if (type != MPIX_QUEUE_THREAD && !open_runtime(stream)) {
        stream->type = MPIX_QUEUE_THREAD;
    }
    pthread_mutex_unlock(&lock);
}

/* A stream that has failed may still write to its words, so no other queue gets them. */
void mpix_stream_close(mpix_stream_t *stream, uint64_t number, bool failed)
{
    if (!stream->words) {
        return;
    }
    pthread_mutex_lock(&lock);
    asynchronous--;
    if (!failed) {
        mpix_stream_release(stream, number);
        stream->words->number = number;
        stream->words->next = unused;
        unused = stream->words;
        stream->words = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static int class_of(int error)
{
    return error == DONE ? MPI_SUCCESS : MPI_ERR_OTHER;
}

int mpix_stream_signal(const mpix_stream_t *stream, uint64_t number)
{
    const mpix_words_t *words = stream->words;

    return class_of(stream->type == MPIX_QUEUE_HIP
                        ? hip.write(stream->handle, words->reached, number, 0)
                        : cuda.write(stream->handle, words->reached_there, (uint32_t)number, 0));
}

int mpix_stream_gate(const mpix_stream_t *stream, uint64_t number)
{
    const mpix_words_t *words = stream->words;

    return class_of(stream->type == MPIX_QUEUE_HIP
                        ? hip.wait(stream->handle, words->done, number, AT_LEAST, UINT64_MAX)
                        : cuda.wait(stream->handle, words->done_there, (uint32_t)number, AT_LEAST));
}

int mpix_stream_synchronize(const mpix_stream_t *stream)
{
    return class_of(common_of(stream->type)->synchronize(stream->handle));
}

mpix_progress_t mpix_stream_progress(const mpix_stream_t *stream)
{
    int error = common_of(stream->type)->query(stream->handle);

    return error == DONE ? MPIX_STREAM_DONE : error == NOT_READY ? MPIX_STREAM_BUSY : MPIX_STREAM_FAILED;
}

/* Acquire: MPI may then read what the stream has written before. */
bool mpix_stream_has_reached(const mpix_stream_t *stream, uint64_t number)
{
    uint32_t reached = (uint32_t)__atomic_load_n(stream->words->reached, __ATOMIC_ACQUIRE);

    return (int32_t)(reached - (uint32_t)number) >= 0;
}

/* Release: the stream then sees what MPI has written with the CPU. Writes of devices are complete when the request is. */
void mpix_stream_release(const mpix_stream_t *stream, uint64_t number)
{
    __atomic_store_n(stream->words->done, number, __ATOMIC_RELEASE);
}

void mpix_stream_enter(const mpix_stream_t *stream)
{
    static _Thread_local int device;
    static _Thread_local void *context;

    if (stream->type == MPIX_QUEUE_HIP && device != stream->device + 1) {
        device = hip.set_device(stream->device) == DONE ? stream->device + 1 : 0;
    } else if (stream->type == MPIX_QUEUE_CUDA && context != stream->context) {
        context = cuda.set_context(stream->context) == DONE ? stream->context : NULL;
    }
}
