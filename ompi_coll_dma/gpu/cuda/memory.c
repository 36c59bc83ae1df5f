/* CUDA: IPC, registration, allocation. Queries of addresses are in query.c. */
#include <pthread.h>

#include "gpu/cuda/cuda.h"

#define MOST_PUT_OFF 64

/* Device memory that is freed when no stream waits any more. */
static struct {
    pthread_mutex_t lock;
    uint64_t addr[MOST_PUT_OFF];
    unsigned n;
} put_off = {.lock = PTHREAD_MUTEX_INITIALIZER};

dma_status_t dma_cuda_add_memory(uint64_t addr)
{
    int device;

    if (DMA_CUDA(ctx_get_device, &device) != DMA_OK) {
        device = -1;
    }
    return dma_gpu_guard_add(&dma_cuda_guard, device, addr);
}

static dma_status_t ipc_export(uint64_t base, dma_gpu_handle_t *handle)
{
    return DMA_CUDA_TRY(ipc_get, (cuda_ipc_handle_t *)handle, base);
}

static dma_status_t ipc_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    cuda_addr_t addr = 0;
    dma_status_t status = DMA_CUDA_TRY(ipc_open, &addr, *(const cuda_ipc_handle_t *)handle, CUDA_IPC_LAZY_PEER_ACCESS);

    if (status == DMA_OK && (status = dma_cuda_add_memory(addr)) != DMA_OK) {
        (void)DMA_CUDA(ipc_close, addr);
    }
    if (status == DMA_OK) {
        *base = addr;
    }
    return status;
}

/* While a stream waits, this would not return. */
static dma_status_t ipc_close(uint64_t base)
{
    dma_status_t status;

    if (!dma_gpu_begin_blocking()) {
        return DMA_AGAIN;
    }
    status = dma_gpu_guard_take(&dma_cuda_guard, base) ? DMA_CUDA(ipc_close, base) : DMA_OK;
    dma_gpu_end_blocking();
    return status;
}

static dma_status_t host_register(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    dma_status_t status =
        DMA_CUDA_TRY(host_register, addr, bytes, CUDA_HOST_REGISTER_PORTABLE | CUDA_HOST_REGISTER_MAPPED);
    cuda_addr_t at = 0;

    if (status != DMA_OK) {
        return status;
    }
    status = DMA_CUDA_TRY(host_device_pointer, &at, addr, 0);
    if (status != DMA_OK || (status = dma_cuda_add_memory((uintptr_t)addr)) != DMA_OK) {
        goto unregister;
    }
    *device_addr = at;
    return DMA_OK;

unregister:
    dma_cuda.host_unregister(addr);
    return status;
}

/* While a stream waits, the driver's call would not return. What a reset has destroyed needs no call. */
static dma_status_t host_unregister(void *addr)
{
    bool may = dma_gpu_begin_blocking();
    dma_status_t status = DMA_OK;

    if (!may && dma_gpu_guard_holds(&dma_cuda_guard, (uintptr_t)addr)) {
        return DMA_AGAIN;
    }
    if (dma_gpu_guard_take(&dma_cuda_guard, (uintptr_t)addr)) {
        status = DMA_CUDA(host_unregister, addr);
    }
    if (may) {
        dma_gpu_end_blocking();
    }
    return status;
}

static dma_status_t alloc(uint64_t bytes, uint64_t *addr)
{
    cuda_addr_t at = 0;
    dma_status_t status = DMA_CUDA(mem_alloc, &at, bytes);

    if (status == DMA_OK && (status = dma_cuda_add_memory(at)) != DMA_OK) {
        (void)DMA_CUDA(mem_free, at);
    }
    if (status == DMA_OK) {
        *addr = at;
    }
    return status;
}

static dma_status_t free_now(uint64_t addr)
{
    return dma_gpu_guard_take(&dma_cuda_guard, addr) ? DMA_CUDA(mem_free, addr) : DMA_OK;
}

/* While a stream waits, the runtime's call would not return. If there is no room to put it off, it is made all the same. */
static dma_status_t free_device(uint64_t addr)
{
    uint64_t due[MOST_PUT_OFF];
    unsigned ndue = 0;
    bool wait = !dma_gpu_begin_blocking();
    dma_status_t status;

    pthread_mutex_lock(&put_off.lock);
    if (wait && put_off.n < MOST_PUT_OFF) {
        put_off.addr[put_off.n++] = addr;
        addr = 0;
    }
    for (; !wait && put_off.n > 0; ndue++) {
        due[ndue] = put_off.addr[--put_off.n];
    }
    pthread_mutex_unlock(&put_off.lock);
    for (unsigned i = 0; i < ndue; i++) {
        (void)free_now(due[i]);
    }
    status = addr ? free_now(addr) : DMA_OK;
    if (!wait) {
        dma_gpu_end_blocking();
    }
    return status;
}

_Static_assert(sizeof(cuda_ipc_handle_t) == sizeof(dma_gpu_handle_t), "a handle is passed on as it is");

void dma_cuda_fill_memory(dma_gpu_runtime_t *table)
{
    table->ipc_export = ipc_export;
    table->ipc_open = ipc_open;
    table->ipc_close = ipc_close;
    table->host_register = host_register;
    table->host_unregister = host_unregister;
    table->alloc = alloc;
    table->free = free_device;
}
