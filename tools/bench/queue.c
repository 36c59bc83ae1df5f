/*
 * Persistent calls in the order of a stream: see bench.h. A call is MPIX_Enqueue_start and MPIX_Enqueue_waitall; the host waits
 * for all calls between two barriers at once, with MPIX_Queue_wait. libmpix_dma is loaded at run time: by its name, or from where
 * it is installed. In device memory the queue has a stream of its own, otherwise it is one of threads.
 */
#include <dlfcn.h>
#include <mpix_dma.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"

#define LIBRARY "libmpix_dma.so.0"

enum { NON_BLOCKING = 1 }; /* does not synchronize with the default stream, in CUDA and in HIP */

static struct {
    int (*init)(MPIX_Queue *queue, int type, void *stream);
    int (*free)(MPIX_Queue *queue);
    int (*wait)(MPIX_Queue queue);
    int (*start)(MPIX_Queue queue, MPI_Request *request);
    int (*waitall)(MPIX_Queue queue);
    MPIX_Queue queue;
    void *stream;
} mpix;

static bool load(void)
{
    static const struct {
        const char *name;
        void **place;
    } functions[] = {{"MPIX_Queue_init", (void **)&mpix.init},
                     {"MPIX_Queue_free", (void **)&mpix.free},
                     {"MPIX_Queue_wait", (void **)&mpix.wait},
                     {"MPIX_Enqueue_start", (void **)&mpix.start},
                     {"MPIX_Enqueue_waitall", (void **)&mpix.waitall}};
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    library = library ? library : dlopen(DMA_LIBDIR "/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].place = dlsym(library, functions[i].name);
        if (!*functions[i].place) {
            return false;
        }
    }
    return library;
}

static bool make_stream(void)
{
    int (*create)(void **stream, unsigned flags);

    *(void **)&create = dlsym(RTLD_DEFAULT, device_is_cuda() ? "cuStreamCreate" : "hipStreamCreateWithFlags");
    return create && create(&mpix.stream, NON_BLOCKING) == 0;
}

const char *queue_open(const bench_t *b)
{
    int type = !b->device ? MPIX_QUEUE_THREAD : device_is_cuda() ? MPIX_QUEUE_CUDA : MPIX_QUEUE_HIP;

    if (!load()) {
        return dlerror();
    }
    if (b->device && !make_stream()) {
        return "the runtime makes no stream";
    }
    return mpix.init(&mpix.queue, type, b->device ? &mpix.stream : NULL) == MPI_SUCCESS ? NULL
                                                                                        : "MPIX_Queue_init has failed";
}

void queue_close(void)
{
    if (mpix.queue) {
        mpix.free(&mpix.queue);
    }
}

int queue_run(bench_call_t *call)
{
    int code = mpix.start(mpix.queue, &call->request);

    return code == MPI_SUCCESS ? mpix.waitall(mpix.queue) : code;
}

int queue_wait(void)
{
    return mpix.wait(mpix.queue);
}
