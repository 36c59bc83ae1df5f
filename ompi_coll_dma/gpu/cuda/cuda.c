/*
 * CUDA: the driver library, its devices, contexts and errors.
 *
 * Driver calls act in the context that is current on the calling thread, and a thread that runs MPI progress may have
 * none. All calls made here act in the primary context of the device, which the CUDA runtime uses as well. `enter`
 * pushes it on the thread's context stack, `leave` pops it. The application's current context is not changed.
 *
 * A primary context is retained once per process. cudaDeviceReset destroys its contents nevertheless. The context keeps
 * its handle and can be pushed, but it is not active, and calls in it fail until it is retained again. Objects that
 * were created in it are forgotten then. If the context is already current on a thread, nothing shows the reset: the
 * first call fails there, and the next `enter` retains the context.
 */
#include "gpu/cuda/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

cuda_calls_t dma_cuda;

#define CUDA_SYMBOL(name, symbol, required, ...) {#symbol, required},
static const dma_gpu_symbol_t symbols[] = {CUDA_CALLS(CUDA_SYMBOL) CUDA_OLD_CALLS(CUDA_SYMBOL)};

_Static_assert(sizeof(symbols) / sizeof(symbols[0]) * sizeof(void *) == sizeof(cuda_calls_t), "one per call");

typedef struct CUctx_st *context_t;

static struct {
    pthread_mutex_t lock; /* guards retaining and releasing */
    _Atomic(context_t) primary[DMA_GPU_MAX_DEVICES];
    atomic_bool suspect; /* a call has failed with the error of a destroyed context */
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
    if (error == CUDA_CONTEXT_DESTROYED) {
        atomic_store_explicit(&contexts.suspect, true, memory_order_relaxed);
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

static dma_status_t device_count(int *count)
{
    cuda_error_t error = dma_cuda.device_get_count(count);

    if (error == CUDA_NO_DEVICE) {
        *count = 0;
        return DMA_OK;
    }
    return error == CUDA_NOT_INITIALIZED ? dma_gpu_fail(DMA_UNSUPPORTED, "CUDA is not initialised")
                                         : dma_cuda_status(error, "device_get_count");
}

static dma_status_t device_pci(int device, dma_gpu_pci_t *pci)
{
    char text[32] = "";
    dma_status_t status;
    cuda_device_t dev;

    status = DMA_CUDA(device_get, &dev, device);
    if (status == DMA_OK) {
        status = DMA_CUDA(device_get_pci_bus_id, text, sizeof(text), dev);
    }
    if (status != DMA_OK) {
        return status;
    }
    *pci = (dma_gpu_pci_t){0};
    if (sscanf(text, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) {
        return dma_gpu_fail(DMA_ERR_ENGINE, "cuDeviceGetPCIBusId: \"%.31s\" is no PCI address", text);
    }
    return DMA_OK;
}

/* Retains the primary context. `stale` is the context that turned out to be destroyed, or NULL. */
static dma_status_t retain_context(int device, context_t stale, context_t *context)
{
    dma_status_t status = DMA_OK;
    cuda_device_t dev;

    pthread_mutex_lock(&contexts.lock);
    *context = atomic_load_explicit(&contexts.primary[device], memory_order_relaxed);
    if (!*context || *context == stale) {
        status = DMA_CUDA(device_get, &dev, device);
        if (status == DMA_OK) {
            status = DMA_CUDA(primary_retain, context, dev);
        }
        if (status == DMA_OK) {
            dma_cuda_forget_private_stream(device);
            atomic_store_explicit(&contexts.primary[device], *context, memory_order_release);
        }
    }
    pthread_mutex_unlock(&contexts.lock);
    return status;
}

static bool is_active(int device)
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
    context_t current = NULL, context;
    dma_status_t status;
    cuda_error_t error;

    if (device < 0 || device >= DMA_GPU_MAX_DEVICES) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "device %d: only %d are supported", device, DMA_GPU_MAX_DEVICES);
    }
    context = atomic_load_explicit(&contexts.primary[device], memory_order_acquire);
    if (context && dma_cuda.ctx_get_current(&current) == CUDA_DONE && current == context &&
        !atomic_load_explicit(&contexts.suspect, memory_order_relaxed)) {
        return DMA_OK;
    }
    atomic_store_explicit(&contexts.suspect, false, memory_order_relaxed);
    if (!context || !is_active(device)) {
        status = retain_context(device, context, &context);
        if (status != DMA_OK) {
            return status;
        }
    }
    if (current == context) {
        return DMA_OK;
    }
    error = dma_cuda.ctx_push(context);
    if (error == CUDA_INVALID_CONTEXT || error == CUDA_CONTEXT_DESTROYED) {
        status = retain_context(device, context, &context);
        if (status != DMA_OK) {
            return status;
        }
        error = dma_cuda.ctx_push(context);
    }
    status = dma_cuda_status(error, "ctx_push");
    if (status == DMA_OK) {
        scope->pushed = context;
    }
    return status;
}

dma_status_t dma_cuda_enter(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status;

    dma_cuda_capture_relax(scope);
    status = push_context(device, scope);
    if (status != DMA_OK) {
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

/* After the driver has shut down all these calls fail, and nothing is left to release. */
static void release(void)
{
    dma_gpu_scope_t scope, outer;
    cuda_device_t dev;

    dma_cuda_capture_relax(&outer);
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        if (!atomic_load_explicit(&contexts.primary[i], memory_order_acquire)) {
            continue;
        }
        if (dma_cuda_enter(i, &scope) == DMA_OK) {
            dma_cuda_destroy_private_stream(i);
            dma_cuda_leave(&scope);
        }
        pthread_mutex_lock(&contexts.lock);
        atomic_store_explicit(&contexts.primary[i], NULL, memory_order_release);
        if (DMA_CUDA(device_get, &dev, i) == DMA_OK) {
            (void)DMA_CUDA(primary_release, dev);
        }
        pthread_mutex_unlock(&contexts.lock);
    }
    dma_cuda_capture_restore(&outer);
}

static dma_gpu_runtime_t table = {
    .name = "cuda",
    .device_count = device_count,
    .device_pci = device_pci,
    .enter = dma_cuda_enter,
    .leave = dma_cuda_leave,
    .release = release,
};

const dma_gpu_runtime_t *dma_gpu_cuda_open(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    void *library = dma_gpu_find_library(names);
    int version = 0;

    if (!library) {
        return NULL;
    }
    if (!dma_gpu_find_symbols(library, symbols, sizeof(symbols) / sizeof(symbols[0]), &dma_cuda)) {
        goto close;
    }
    /* works whether or not the driver is initialized */
    if (dma_cuda.driver_get_version(&version) != CUDA_DONE || version < CUDA_OLDEST_DRIVER) {
        dma_gpu_fail(DMA_UNSUPPORTED, "CUDA driver %d is older than %d", version, CUDA_OLDEST_DRIVER);
        goto close;
    }
    table.version = (uint32_t)version;
    dma_cuda_fill_queries(&table);
    dma_cuda_fill_memory(&table);
    dma_cuda_fill_streams(&table);
    return &table;

close:
    dlclose(library);
    return NULL;
}
