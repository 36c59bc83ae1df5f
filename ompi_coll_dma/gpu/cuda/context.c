/*
 * CUDA: contexts.
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

typedef struct CUctx_st *context_t;

static struct {
    pthread_mutex_t lock;                            /* guards retaining and releasing */
    _Atomic(context_t) primary[DMA_GPU_MAX_DEVICES]; /* NULL: not retained */
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

bool dma_cuda_context_is_active(int device)
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
    if (context && !dma_cuda_context_is_active(device)) {
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

/* All resets have been detected. Without a context of ours nothing becomes current. */
static dma_status_t enter_if_active(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status = dma_gpu_guard_check(&dma_cuda_guard, device);

    if (status != DMA_OK) {
        return status;
    }
    dma_cuda_capture_relax(scope);
    if (held_context(device) && (status = push_context(device, scope)) != DMA_OK) {
        dma_cuda_capture_restore(scope);
    }
    return status;
}

dma_status_t dma_cuda_enter_to_release(int device, dma_gpu_scope_t *scope)
{
    dma_gpu_guard_detect(&dma_cuda_guard);
    return enter_if_active(device, scope);
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

/* A reset of a context does not count as a release. But it is not certain for all drivers that what was retained before it still
 * counts. So that is not released: a context that stays retained does no harm, and one that is released for the application does. */
static void release_context(int device)
{
    cuda_device_t dev;

    pthread_mutex_lock(&contexts.lock);
    if (held_context(device) && !dma_cuda_is_lost(device) && DMA_CUDA(device_get, &dev, device) == DMA_OK) {
        (void)DMA_CUDA(primary_release, dev);
    }
    atomic_store_explicit(&contexts.primary[device], NULL, memory_order_release);
    pthread_mutex_unlock(&contexts.lock);
}

/* After the driver has shut down no context is active, and nothing is left to release. */
void dma_cuda_release(void)
{
    dma_gpu_scope_t scope, outer;

    dma_cuda_capture_relax(&outer);
    dma_gpu_guard_detect(&dma_cuda_guard);
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        bool entered = enter_if_active(i, &scope) == DMA_OK;

        dma_cuda_destroy_private_stream(i);
        if (entered) {
            dma_gpu_guard_unwatch(&dma_cuda_guard, i);
            dma_cuda_leave(&scope);
        }
        release_context(i);
    }
    dma_cuda_capture_restore(&outer);
}
