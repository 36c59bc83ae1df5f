/*
 * Replaces libcuda.so.1 in tests: in queues of streams, and in jobs of several processes over coll/dma. It needs no GPU.
 *
 * A stream is a thread, which does its work in order. The processor cannot access device memory, only streams and copies can
 * (fake_cuda_memory.c). It is strict: a call fails in a thread without a context, with addresses that are not alive, and with
 * streams that were destroyed. Tests control it with the functions fake_*, and with variables:
 *
 *   DMA_FAKE_CUDA=unordered        streams do not wait for events
 *   DMA_FAKE_CUDA_CONNECTIONS=N    streams share so many connections, in the order in which they are made. What is behind a
 *                                  stream that waits, on the same connection, waits too
 *   DMA_FAKE_CUDA_SEED=N           seed of the random orders and pauses; otherwise they differ from run to run
 *
 * As measured on a H100, calls that free memory, and the first launch of a kernel, do not return while a stream of the device
 * waits for a value. Meanwhile no other thread can put work into any stream (docs/dev/measurements/h100x2.md).
 */
#include "fake_cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONTEXTS = 32, DEVICE_IDS = 0x21 };

fake_state_t fake_state;

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER, contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static fake_context_t contexts[FAKE_DEVICES];
static bool initialized;
static unsigned seed, threads;
static _Thread_local fake_context_t *stack[MOST_CONTEXTS];
static _Thread_local int top;
static _Thread_local uint64_t random_state;

/* ---- what tests ask and tell ---- */

long fake_writes(void)
{
    return __atomic_load_n(&fake_state.writes, __ATOMIC_ACQUIRE);
}

void fake_refuse(int refuse)
{
    fake_state.refused = refuse;
}

/* ---- for the other files ---- */

cuda_error_t fake_complain(cuda_error_t error, const char *call, const char *what, uint64_t addr)
{
    fprintf(stderr, "fake CUDA: %s: %s (%#llx)\n", call, what, (unsigned long long)addr);
    return error;
}

unsigned fake_random(unsigned below)
{
    if (!random_state) {
        random_state = seed + 0x9E3779B97F4A7C15u * (1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
    }
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

void fake_dawdle(void)
{
    unsigned n = fake_random(64);

    if (n == 0) {
        usleep(fake_random(300));
    } else if (n < 8) {
        sched_yield();
    }
}

uint64_t fake_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void fake_lock_driver(void)
{
    pthread_mutex_lock(&driver);
}

void fake_unlock_driver(void)
{
    pthread_mutex_unlock(&driver);
}

bool fake_is_initialized(void)
{
    return __atomic_load_n(&initialized, __ATOMIC_ACQUIRE);
}

cuda_error_t fake_enter(int *device)
{
    if (!fake_is_initialized()) {
        return CUDA_NOT_INITIALIZED;
    }
    if (top == 0 || !stack[top - 1]) {
        return CUDA_INVALID_CONTEXT;
    }
    *device = stack[top - 1]->device;
    return __atomic_load_n(&stack[top - 1]->held, __ATOMIC_ACQUIRE) ? CUDA_DONE : CUDA_CONTEXT_DESTROYED;
}

/* ---- versions and devices ---- */

cuda_error_t cuInit(unsigned flags)
{
    const char *mode = getenv("DMA_FAKE_CUDA"), *connections = getenv("DMA_FAKE_CUDA_CONNECTIONS"),
               *wanted = getenv("DMA_FAKE_CUDA_SEED");

    if (flags) {
        return FAKE_INVALID;
    }
    pthread_mutex_lock(&contexts_lock);
    if (!initialized) {
        fake_state.unordered = mode && !strcmp(mode, "unordered");
        fake_state.connections = connections ? atoi(connections) : 0;
        seed = (unsigned)(wanted ? strtoul(wanted, NULL, 0) : fake_nanoseconds()) + (unsigned)getpid() * 7919u;
        for (int i = 0; i < FAKE_DEVICES; i++) {
            contexts[i].device = i;
        }
        __atomic_store_n(&initialized, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_DONE;
}

cuda_error_t cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_DONE;
}

cuda_error_t cuGetErrorString(cuda_error_t error, const char **text)
{
    *text = error == FAKE_INVALID           ? "invalid argument"
            : error == CUDA_OUT_OF_MEMORY   ? "out of memory"
            : error == CUDA_NOT_INITIALIZED ? "initialization error"
            : error == CUDA_INVALID_CONTEXT ? "invalid device context"
            : error == FAKE_BAD_HANDLE      ? "invalid resource handle"
            : error == FAKE_FAULT           ? "an illegal memory access was encountered"
                                            : "an error of the fake CUDA";
    return CUDA_DONE;
}

static cuda_error_t check_device(cuda_device_t device)
{
    return !fake_is_initialized()                 ? CUDA_NOT_INITIALIZED
           : device < 0 || device >= FAKE_DEVICES ? 101 /* invalid device */
                                                  : CUDA_DONE;
}

cuda_error_t cuDeviceGetCount(int *count)
{
    *count = FAKE_DEVICES;
    return check_device(0);
}

cuda_error_t cuDeviceGet(cuda_device_t *device, int ordinal)
{
    *device = ordinal;
    return check_device(ordinal);
}

cuda_error_t cuDeviceGetName(char *name, int bytes, cuda_device_t device)
{
    snprintf(name, (size_t)bytes, "fake CUDA device %d", device);
    return check_device(device);
}

cuda_error_t cuDeviceGetPCIBusId(char *text, int bytes, cuda_device_t device)
{
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", DEVICE_IDS + device);
    return check_device(device);
}

cuda_error_t cuDeviceGetAttribute(int *value, cuda_enum_t attribute, cuda_device_t device)
{
    enum { PCI_BUS = 33, PCI_DEVICE = 34, UNIFIED_ADDRESSES = 41, COPY_ENGINES = 40, MAPS_HOST = 19 };

    *value = attribute == PCI_BUS                                       ? DEVICE_IDS + device
             : attribute == UNIFIED_ADDRESSES || attribute == MAPS_HOST ? 1
             : attribute == COPY_ENGINES                                ? 3
             : attribute == CUDA_DEVICE_MPS                             ? 1
                                                                        : 0;
    return check_device(device);
}

cuda_error_t cuDeviceCanAccessPeer(int *can, cuda_device_t device, cuda_device_t peer)
{
    *can = device != peer;
    return check_device(device) ? check_device(device) : check_device(peer);
}

/* ---- contexts: the primary ones ---- */

cuda_error_t cuDevicePrimaryCtxRetain(struct CUctx_st **context, cuda_device_t device)
{
    cuda_error_t error = check_device(device);

    if (!error) {
        __atomic_add_fetch(&contexts[device].held, 1, __ATOMIC_ACQ_REL);
        *context = &contexts[device];
    }
    return error;
}

cuda_error_t cuDevicePrimaryCtxRelease_v2(cuda_device_t device)
{
    cuda_error_t error = check_device(device);

    if (!error && !contexts[device].held) {
        return fake_complain(CUDA_INVALID_CONTEXT, "cuDevicePrimaryCtxRelease", "more often than retained",
                             (uint64_t)device);
    }
    if (!error) {
        __atomic_sub_fetch(&contexts[device].held, 1, __ATOMIC_ACQ_REL);
    }
    return error;
}

cuda_error_t cuDevicePrimaryCtxGetState(cuda_device_t device, unsigned *flags, int *active)
{
    cuda_error_t error = check_device(device);

    *flags = 0;
    *active = !error && __atomic_load_n(&contexts[device].held, __ATOMIC_ACQUIRE) > 0;
    return error;
}

/* For programs that use the device again at once. Streams and events stay: nobody may have work in them. */
cuda_error_t cuDevicePrimaryCtxReset_v2(cuda_device_t device)
{
    cuda_error_t error = check_device(device);

    if (!error) {
        fake_lock_driver();
        fake_wait_until_idle(device);
        fake_free_all(device);
        fake_unlock_driver();
    }
    return error;
}

static bool is_context(const struct CUctx_st *context)
{
    return context >= contexts && context < contexts + FAKE_DEVICES;
}

cuda_error_t cuCtxSetCurrent(struct CUctx_st *context)
{
    if (!fake_is_initialized()) {
        return CUDA_NOT_INITIALIZED;
    }
    if (context && !is_context(context)) {
        return CUDA_INVALID_CONTEXT;
    }
    top += top == 0;
    stack[top - 1] = context;
    return CUDA_DONE;
}

cuda_error_t cuCtxGetCurrent(struct CUctx_st **context)
{
    *context = top ? stack[top - 1] : NULL;
    return fake_is_initialized() ? CUDA_DONE : CUDA_NOT_INITIALIZED;
}

cuda_error_t cuCtxGetDevice(cuda_device_t *device)
{
    return fake_enter(device);
}

cuda_error_t cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    if (!is_context(context) || top == MOST_CONTEXTS) {
        return CUDA_INVALID_CONTEXT;
    }
    stack[top++] = context;
    return CUDA_DONE;
}

cuda_error_t cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    if (top == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    *context = stack[--top];
    return CUDA_DONE;
}

cuda_error_t cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned flags)
{
    return flags || !is_context(peer) ? FAKE_INVALID : CUDA_DONE;
}

/* Streams are not captured here. */
cuda_error_t cuThreadExchangeStreamCaptureMode(cuda_enum_t *mode)
{
    static _Thread_local cuda_enum_t current;
    cuda_enum_t was = current;

    current = *mode;
    *mode = was;
    return CUDA_DONE;
}
