/*
 * CUDA for test programs that were written for HIP: the calls of hip.h, by CUDA's driver. With DMA_TEST_GPU=cuda, hip_open()
 * fills its table from here. There is one kind of device memory. Tests without a GPU use the driver of test/mpix/fake_cuda.c.
 */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, MOST_DEVICES = 16, MAPPED = 3, NOT_SUPPORTED = 801 };

static struct {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuCtxSynchronize)(void);
    int (*cuMemAlloc_v2)(void **memory, size_t bytes);
    int (*cuMemFree_v2)(void *memory);
    int (*cuMemHostAlloc)(void **memory, size_t bytes, unsigned flags);
    int (*cuMemFreeHost)(void *memory);
    int (*cuMemHostRegister_v2)(void *memory, size_t bytes, unsigned flags);
    int (*cuMemHostUnregister)(void *memory);
    int (*cuMemcpy)(void *to, const void *from, size_t bytes);
    int (*cuGetErrorString)(int error, const char **text);
} cuda;

#define NAME(call) #call
static const char *const names[] = {
    NAME(cuInit),
    NAME(cuDeviceGetCount),
    NAME(cuDevicePrimaryCtxRetain),
    NAME(cuCtxSetCurrent),
    NAME(cuCtxSynchronize),
    NAME(cuMemAlloc_v2),
    NAME(cuMemFree_v2),
    NAME(cuMemHostAlloc),
    NAME(cuMemFreeHost),
    NAME(cuMemHostRegister_v2),
    NAME(cuMemHostUnregister),
    NAME(cuMemcpy),
    NAME(cuGetErrorString),
};
_Static_assert(sizeof(names) / sizeof(names[0]) * sizeof(void *) == sizeof(cuda), "a name for every call");

static void *contexts[MOST_DEVICES];
static long (*stream_writes)(void);

static int set_device(int device)
{
    int error = contexts[device] ? DONE : cuda.cuDevicePrimaryCtxRetain(&contexts[device], device);

    return error ? error : cuda.cuCtxSetCurrent(contexts[device]);
}

static int take_flagged(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return cuda.cuMemAlloc_v2(memory, bytes);
}

static int host_take(void **memory, size_t bytes, unsigned flags)
{
    return cuda.cuMemHostAlloc(memory, bytes, flags | MAPPED);
}

static int host_register(void *memory, size_t bytes, unsigned flags)
{
    return cuda.cuMemHostRegister_v2(memory, bytes, flags | MAPPED);
}

static int copy(void *to, const void *from, size_t bytes, int kind)
{
    (void)kind;
    return cuda.cuMemcpy(to, from, bytes);
}

static int reset(void)
{
    return NOT_SUPPORTED;
}

static const char *error_string(int error)
{
    const char *text = NULL;

    return cuda.cuGetErrorString(error, &text) == DONE && text ? text : "an error";
}

bool cuda_fill(hip_table_t *table, int *devices)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i]);

        if (!symbol) {
            fprintf(stderr, "CUDA has no %s\n", names[i]);
            return false;
        }
        memcpy((char *)&cuda + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    if (!library || cuda.cuInit(0) || cuda.cuDeviceGetCount(devices) || *devices < 1 || *devices > MOST_DEVICES) {
        fprintf(stderr, library ? "CUDA sees no device\n" : "there is no CUDA\n");
        return false;
    }
    *(void **)&stream_writes = dlsym(library, "fake_writes");
    *table = (hip_table_t){
        .hipGetDeviceCount = cuda.cuDeviceGetCount,
        .hipSetDevice = set_device,
        .hipMalloc = cuda.cuMemAlloc_v2,
        .hipFree = cuda.cuMemFree_v2,
        .hipExtMallocWithFlags = take_flagged,
        .hipMallocManaged = take_flagged,
        .hipHostMalloc = host_take,
        .hipHostFree = cuda.cuMemFreeHost,
        .hipHostRegister = host_register,
        .hipHostUnregister = cuda.cuMemHostUnregister,
        .hipMemcpy = copy,
        .hipDeviceSynchronize = cuda.cuCtxSynchronize,
        .hipDeviceReset = reset,
        .hipGetErrorString = error_string,
    };
    return set_device(0) == DONE;
}

bool cuda_stats(hip_stats_t *stats)
{
    if (stream_writes) {
        stats->fences = stream_writes();
    }
    return stream_writes != NULL;
}
