/* CUDA: IPC, registration, allocation. Queries of addresses are in query.c. */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/cuda/cuda.h"

/* Device memory that is freed when no stream waits any more. */
static struct {
    pthread_mutex_t lock;
    uint64_t *addr;
    size_t n, room;
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

/* Without room for the address the memory stays allocated. A call that may never return would be worse. */
static dma_status_t put_off_free(uint64_t addr)
{
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&put_off.lock);
    if (put_off.n == put_off.room) {
        size_t room = 2 * put_off.room + 16;
        uint64_t *grown = realloc(put_off.addr, room * sizeof(*grown));

        put_off.addr = grown ? grown : put_off.addr;
        put_off.room = grown ? room : put_off.room;
        status = grown ? DMA_OK : DMA_ERR_NOMEM;
    }
    if (status == DMA_OK) {
        put_off.addr[put_off.n++] = addr;
    }
    pthread_mutex_unlock(&put_off.lock);
    return status;
}

/* Takes the addresses of the list, which is empty then. The caller frees the array. */
static uint64_t *take_put_off(size_t *n)
{
    uint64_t *due;

    pthread_mutex_lock(&put_off.lock);
    due = put_off.addr;
    *n = put_off.n;
    put_off.addr = NULL;
    put_off.n = put_off.room = 0;
    pthread_mutex_unlock(&put_off.lock);
    return due;
}

/* While a stream waits, the runtime's call would not return. */
static dma_status_t free_device(uint64_t addr)
{
    dma_status_t status;
    uint64_t *due;
    size_t n;

    if (!dma_gpu_begin_blocking()) {
        return put_off_free(addr);
    }
    due = take_put_off(&n);
    for (size_t i = 0; i < n; i++) {
        (void)free_now(due[i]);
    }
    free(due);
    status = free_now(addr);
    dma_gpu_end_blocking();
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
