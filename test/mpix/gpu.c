/* Streams for the tests; see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gpu_table_t gpu;

void gpu_must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %d\n", what, error);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

void gpu_begin_mpi(bool multiple)
{
    int level = multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, given;
    MPIX_Queue queue;

    MPI_Init_thread(NULL, NULL, level, &given);
    gpu_must(given != level, "level of threads");
    gpu_must(MPIX_Queue_init(&queue, MPIX_QUEUE_THREAD, NULL) || MPIX_Queue_free(&queue), "the first queue");
    gpu_must(MPI_T_init_thread(MPI_THREAD_SINGLE, &given), "MPI_T");
}

static void *call_of(void *library, const char *name)
{
    void *call = library ? dlsym(library, name) : NULL;

    gpu_must(!call, name);
    return call;
}

/* HIP 5.2 has hipLaunchHostFunc for graphs only, so this is hipStreamAddCallback, whose function has two more arguments. */
static int (*add_callback)(void *stream, void (*callback)(void *stream, int error, void *arg), void *arg,
                           unsigned flags);

typedef struct call {
    void (*function)(void *arg);
    void *arg;
} call_t;

static void call_back(void *stream, int error, void *arg)
{
    call_t call = *(call_t *)arg;

    (void)stream;
    gpu_must(error, "callback");
    free(arg);
    call.function(call.arg);
}

static int hip_host_function(void *stream, void (*function)(void *arg), void *arg)
{
    call_t *call = malloc(sizeof(*call));

    *call = (call_t){function, arg};
    return add_callback(stream, call_back, call, 0);
}

static int (*set_hip_device)(int device);
static int (*set_cuda_context)(void *context);
static int device_of_rank;
static void *context_of_rank;

static void open_hip(int rank)
{
    void *library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_GLOBAL);
    int devices = 0;

    library = library ? library : dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_GLOBAL);
    gpu_must(((int (*)(int *))call_of(library, "hipGetDeviceCount"))(&devices), "hipGetDeviceCount");
    *(void **)&set_hip_device = call_of(library, "hipSetDevice");
    device_of_rank = rank % devices;
    *(void **)&gpu.alloc = call_of(library, "hipMalloc");
    *(void **)&gpu.release = call_of(library, "hipFree");
    *(void **)&gpu.host_alloc = call_of(library, "hipHostMalloc");
    *(void **)&gpu.host_release = call_of(library, "hipHostFree");
    *(void **)&gpu.stream_create = call_of(library, "hipStreamCreateWithFlags");
    *(void **)&gpu.stream_destroy = call_of(library, "hipStreamDestroy");
    *(void **)&gpu.synchronize = call_of(library, "hipStreamSynchronize");
    *(void **)&add_callback = call_of(library, "hipStreamAddCallback");
    gpu.host_function = hip_host_function;
    *(void **)&gpu.hip_copy = call_of(library, "hipMemcpyAsync");
    *(void **)&gpu.event_create = call_of(library, "hipEventCreateWithFlags");
    *(void **)&gpu.event_record = call_of(library, "hipEventRecord");
    *(void **)&gpu.event_synchronize = call_of(library, "hipEventSynchronize");
    *(void **)&gpu.stream_wait_event = call_of(library, "hipStreamWaitEvent");
}

static void open_cuda(int rank)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int devices = 0;

    gpu_must(((int (*)(unsigned))call_of(library, "cuInit"))(0), "cuInit");
    gpu_must(((int (*)(int *))call_of(library, "cuDeviceGetCount"))(&devices), "cuDeviceGetCount");
    gpu_must(((int (*)(void **, int))call_of(library, "cuDevicePrimaryCtxRetain"))(&context_of_rank, rank % devices),
             "context");
    *(void **)&set_cuda_context = call_of(library, "cuCtxSetCurrent");
    *(void **)&gpu.alloc = call_of(library, "cuMemAlloc_v2");
    *(void **)&gpu.release = call_of(library, "cuMemFree_v2");
    *(void **)&gpu.host_alloc = call_of(library, "cuMemHostAlloc");
    *(void **)&gpu.host_release = call_of(library, "cuMemFreeHost");
    *(void **)&gpu.stream_create = call_of(library, "cuStreamCreate");
    *(void **)&gpu.stream_destroy = call_of(library, "cuStreamDestroy_v2");
    *(void **)&gpu.synchronize = call_of(library, "cuStreamSynchronize");
    *(void **)&gpu.host_function = call_of(library, "cuLaunchHostFunc");
    *(void **)&gpu.cuda_copy = call_of(library, "cuMemcpyAsync");
    *(void **)&gpu.current = call_of(library, "cuCtxGetCurrent");
    *(void **)&gpu.event_create = call_of(library, "cuEventCreate");
    *(void **)&gpu.event_record = call_of(library, "cuEventRecord");
    *(void **)&gpu.event_synchronize = call_of(library, "cuEventSynchronize");
    *(void **)&gpu.stream_wait_event = call_of(library, "cuStreamWaitEvent");
    *(void **)&gpu.fake_synchronizations = dlsym(library, "fake_synchronizations");
    *(void **)&gpu.fake_break = dlsym(library, "fake_break");
    *(void **)&gpu.fake_refuse = dlsym(library, "fake_refuse");
}

void gpu_enter(void)
{
    if (set_hip_device) {
        gpu_must(set_hip_device(device_of_rank), "hipSetDevice");
    }
    if (set_cuda_context) {
        gpu_must(set_cuda_context(context_of_rank), "cuCtxSetCurrent");
    }
}

void gpu_open(const char *name, int rank)
{
    if (!strcmp(name, "hip")) {
        gpu.type = MPIX_QUEUE_HIP;
        open_hip(rank);
    } else if (!strcmp(name, "cuda")) {
        gpu.type = MPIX_QUEUE_CUDA;
        open_cuda(rank);
    } else {
        gpu_must(strcmp(name, "thread"), name);
    }
    gpu_enter();
}

void gpu_copy(void *to, const void *from, size_t bytes, void *stream)
{
    gpu_must(gpu.hip_copy ? gpu.hip_copy(to, from, bytes, 4, stream) : gpu.cuda_copy(to, from, bytes, stream), "copy");
}
