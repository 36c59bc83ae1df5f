/* CUDA: IPC, registration, allocation. Queries of addresses are in query.c. */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/cuda/cuda.h"

typedef struct freed_later {
    uint64_t addr;
    int device;
} freed_later_t;

/* Device memory that is freed when no stream waits any more. */
static struct {
    pthread_mutex_t lock;
    freed_later_t *memory;
    size_t n, room;
} put_off = {.lock = PTHREAD_MUTEX_INITIALIZER};

static dma_status_t ipc_export(uint64_t base, dma_gpu_handle_t *handle)
{
    return DMA_CUDA_TRY(ipc_get, (cuda_ipc_handle_t *)handle, base);
}

static dma_status_t ipc_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    cuda_addr_t addr = 0;
    dma_status_t status = DMA_CUDA_TRY(ipc_open, &addr, *(const cuda_ipc_handle_t *)handle, CUDA_IPC_LAZY_PEER_ACCESS);

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
    status = DMA_CUDA(ipc_close, base);
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
    if (status != DMA_OK) {
        dma_cuda.host_unregister(addr);
        return status;
    }
    *device_addr = at;
    return DMA_OK;
}

/* While a stream waits, the driver's call would not return. */
static dma_status_t host_unregister(void *addr)
{
    dma_status_t status;

    if (!dma_gpu_begin_blocking()) {
        return DMA_AGAIN;
    }
    status = DMA_CUDA(host_unregister, addr);
    dma_gpu_end_blocking();
    return status;
}

static dma_status_t alloc(uint64_t bytes, uint64_t *addr)
{
    cuda_addr_t at = 0;
    dma_status_t status = DMA_CUDA(mem_alloc, &at, bytes);

    if (status == DMA_OK) {
        *addr = at;
    }
    return status;
}

/* Without room for the address the memory stays allocated. A call that may never return would be worse. */
static dma_status_t put_off_free(uint64_t addr)
{
    dma_status_t status;
    int device;

    if ((status = DMA_CUDA(ctx_get_device, &device)) != DMA_OK) {
        return status;
    }
    pthread_mutex_lock(&put_off.lock);
    if (put_off.n == put_off.room) {
        size_t room = 2 * put_off.room + 16;
        freed_later_t *grown = realloc(put_off.memory, room * sizeof(*grown));

        put_off.memory = grown ? grown : put_off.memory;
        put_off.room = grown ? room : put_off.room;
        status = grown ? DMA_OK : DMA_ERR_NOMEM;
    }
    if (status == DMA_OK) {
        put_off.memory[put_off.n++] = (freed_later_t){.addr = addr, .device = device};
    }
    pthread_mutex_unlock(&put_off.lock);
    return status;
}

/* Takes what is in the list, which is empty then. The caller frees the array. */
static freed_later_t *take_put_off(size_t *n)
{
    freed_later_t *due;

    pthread_mutex_lock(&put_off.lock);
    due = put_off.memory;
    *n = put_off.n;
    put_off.memory = NULL;
    put_off.n = put_off.room = 0;
    pthread_mutex_unlock(&put_off.lock);
    return due;
}

/* While a stream waits, the runtime's call would not return. */
static dma_status_t free_device(uint64_t addr)
{
    dma_status_t status;
    freed_later_t *due;
    size_t n;

    if (!dma_gpu_begin_blocking()) {
        return put_off_free(addr);
    }
    due = take_put_off(&n);
    for (size_t i = 0; i < n; i++) {
        if (!dma_cuda_is_lost(due[i].device)) {
            (void)DMA_CUDA(mem_free, due[i].addr);
        }
    }
    free(due);
    status = DMA_CUDA(mem_free, addr);
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
