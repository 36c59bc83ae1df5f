/*
 * CUDA: errors, contexts, and resets of devices.
 *
 * Driver calls act in the context that is current on the calling thread, and a thread that runs MPI progress may have
 * none. All calls made here act in the primary context of the device, which the CUDA runtime uses as well. `enter`
 * pushes it on the thread's context stack, `leave` pops it. The application's current context is not changed.
 *
 * A primary context is retained once per process. cudaDeviceReset destroys its contents nevertheless. The context keeps
 * its handle and can be pushed, but it is not active, and calls in it fail until it is retained again. gpu/reset.h says how
 * a reset is detected, and that the device is lost then.
 *
 * Objects are released in a scope that never activates a context, because an application that has reset a device may
 * be about to end. A device whose context is not active has nothing left.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "gpu/cuda/cuda.h"

cuda_calls_t dma_cuda;

typedef struct CUctx_st *context_t;

static struct {
    pthread_mutex_t lock;                            /* guards retaining */
    _Atomic(context_t) primary[DMA_GPU_MAX_DEVICES]; /* NULL: not retained */
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

dma_status_t dma_cuda_status(cuda_error_t error, const char *call)
{
    const char *text = NULL;
    dma_status_t status;

    if (error == CUDA_DONE) {
        return DMA_OK;
    }
    if (error == CUDA_NOT_READY) {
        return DMA_AGAIN;
    }
    if (dma_cuda.get_error_string(error, &text) != CUDA_DONE || !text) {
        text = "unknown error";
    }
    status = error == CUDA_OUT_OF_MEMORY   ? DMA_ERR_NOMEM
             : error == CUDA_NOT_SUPPORTED ? DMA_UNSUPPORTED
                                           : DMA_ERR_ENGINE;
    return dma_gpu_fail(status, "CUDA %s: %s (%u)", call, text, error);
}

dma_status_t dma_cuda_try_status(cuda_error_t error, const char *call)
{
    dma_status_t status = dma_cuda_status(error, call);

    return status == DMA_ERR_ENGINE ? DMA_UNSUPPORTED : status;
}

static context_t held_context(int device)
{
    return atomic_load_explicit(&contexts.primary[device], memory_order_acquire);
}

static dma_status_t retain_context(int device, context_t *context)
{
    dma_status_t status = DMA_OK;
    cuda_device_t dev;

    pthread_mutex_lock(&contexts.lock);
    *context = held_context(device);
    if (!*context) {
        status = DMA_CUDA(device_get, &dev, device);
        if (status == DMA_OK) {
            status = DMA_CUDA(primary_retain, context, dev);
        }
        if (status == DMA_OK) {
            atomic_store_explicit(&contexts.primary[device], *context, memory_order_release);
        }
    }
    pthread_mutex_unlock(&contexts.lock);
    return status;
}

static bool context_is_active(int device)
{
    cuda_device_t dev;
    unsigned flags;
    int active = 0;

    return dma_cuda.device_get(&dev, device) == CUDA_DONE &&
           dma_cuda.primary_get_state(dev, &flags, &active) == CUDA_DONE && active;
}

void dma_cuda_capture_relax(dma_gpu_scope_t *scope)
{
    cuda_enum_t mode = CUDA_CAPTURE_RELAXED;

    *scope = (dma_gpu_scope_t){.previous = -1, .capture = -1};
    if (dma_cuda.exchange_capture_mode && dma_cuda.exchange_capture_mode(&mode) == CUDA_DONE) {
        scope->capture = (int)mode;
    }
}

void dma_cuda_capture_restore(dma_gpu_scope_t *scope)
{
    cuda_enum_t mode = (cuda_enum_t)scope->capture;

    if (scope->capture >= 0) {
        (void)DMA_CUDA(exchange_capture_mode, &mode);
        scope->capture = -1;
    }
}

/* Makes the primary context of the device current. */
static dma_status_t push_context(int device, dma_gpu_scope_t *scope)
{
    context_t current = NULL, context = held_context(device);
    dma_status_t status;
    cuda_error_t error;

    if (context && dma_cuda.ctx_get_current(&current) == CUDA_DONE && current == context) {
        return DMA_OK;
    }
    if (context && !context_is_active(device)) {
        return dma_gpu_guard_lose(&dma_cuda_guard, device);
    }
    if ((status = retain_context(device, &context)) != DMA_OK || current == context) {
        return status;
    }
    error = dma_cuda.ctx_push(context);
    if (error == CUDA_INVALID_CONTEXT || error == CUDA_CONTEXT_DESTROYED) {
        return dma_gpu_guard_lose(&dma_cuda_guard, device);
    }
    status = dma_cuda_status(error, "ctx_push");
    if (status == DMA_OK) {
        scope->pushed = context;
    }
    return status;
}

dma_status_t dma_cuda_enter(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status = dma_gpu_guard_check(&dma_cuda_guard, device);

    if (status != DMA_OK) {
        return status;
    }
    dma_cuda_capture_relax(scope);
    if ((status = push_context(device, scope)) == DMA_OK) {
        dma_gpu_guard_watch(&dma_cuda_guard, device);
    } else {
        dma_cuda_capture_restore(scope);
    }
    return status;
}

/* Without a context of ours nothing becomes current. */
dma_status_t dma_cuda_enter_to_release(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status;

    dma_gpu_guard_detect(&dma_cuda_guard);
    if ((status = dma_gpu_guard_check(&dma_cuda_guard, device)) != DMA_OK) {
        return status;
    }
    dma_cuda_capture_relax(scope);
    if (held_context(device) && (status = push_context(device, scope)) != DMA_OK) {
        dma_cuda_capture_restore(scope);
    }
    return status;
}

void dma_cuda_leave(dma_gpu_scope_t *scope)
{
    context_t popped;

    if (scope->pushed) {
        (void)DMA_CUDA(ctx_pop, &popped);
        scope->pushed = NULL;
    }
    dma_cuda_capture_restore(scope);
}

/* ---- attributes of addresses ---- */

/* For a thread without a context, or with one that has been destroyed. The context of the device is active: retaining it does not
 * create it. */
static cuda_error_t attributes_in_context(int device, unsigned n, cuda_enum_t *names, void **data, uint64_t addr)
{
    struct CUctx_st *context;
    dma_gpu_scope_t scope;
    cuda_device_t dev;
    cuda_error_t error;

    dma_cuda_capture_relax(&scope);
    error = dma_cuda.device_get(&dev, device);
    if (error == CUDA_DONE && (error = dma_cuda.primary_retain(&context, dev)) == CUDA_DONE) {
        if ((error = dma_cuda.ctx_push(context)) == CUDA_DONE) {
            error = dma_cuda.pointer_get_attributes(n, names, data, addr);
            dma_cuda.ctx_pop(&context);
        }
        dma_cuda.primary_release(dev);
    }
    dma_cuda_capture_restore(&scope);
    return error;
}

/* A device with an active primary context, or -1. */
static int active_device(void)
{
    int count = 0;

    if (dma_cuda.device_get_count(&count) != CUDA_DONE) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (context_is_active(i)) {
            return i;
        }
    }
    return -1;
}

/* In a thread without a context any context is good enough, because addresses are unique in a process. */
cuda_error_t dma_cuda_get_attributes(unsigned n, cuda_enum_t *names, void **data, uint64_t addr)
{
    cuda_error_t error = dma_cuda.pointer_get_attributes(n, names, data, addr);
    int device;

    if ((error == CUDA_INVALID_CONTEXT || error == CUDA_CONTEXT_DESTROYED) && (device = active_device()) >= 0) {
        error = attributes_in_context(device, n, names, data, addr);
    }
    return error;
}

/* ---- the markers by which resets are detected (gpu/reset.h) ---- */

static dma_status_t make_marker(uint64_t *addr)
{
    cuda_addr_t made = 0;
    dma_status_t status = DMA_CUDA_TRY(mem_alloc, &made, DMA_GPU_MARKER_BYTES);

    *addr = made;
    return status;
}

/* One call in general. An error in an active context says nothing about a reset: a kernel may have faulted. */
static void get_id(int device, uint64_t addr, uint64_t *id)
{
    cuda_enum_t name = CUDA_ATTRIBUTE_BUFFER_ID;
    uint64_t seen = 0;
    void *data = &seen;
    cuda_error_t error = dma_cuda.pointer_get_attributes(1, &name, &data, addr);

    if (error != CUDA_DONE && context_is_active(device)) {
        error = attributes_in_context(device, 1, &name, &data, addr);
        seen = error == CUDA_DONE ? seen : *id;
    }
    *id = seen;
}

static void free_marker(uint64_t addr)
{
    (void)DMA_CUDA_TRY(mem_free, addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .get_id = get_id, .free = free_marker};

dma_gpu_guard_t dma_cuda_guard = DMA_GPU_GUARD(&ops);

bool dma_cuda_is_lost(int device)
{
    return dma_gpu_guard_is_lost(&dma_cuda_guard, device);
}
