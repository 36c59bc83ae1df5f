/*
 * CUDA: the kernel of eager starts (gpu/eager.h).
 *
 * The driver compiles the kernel for a device when it is prepared there for the first time, and keeps it until the table is released.
 * While a stream waits for another rank, this would not return. A launch with nothing to do shows at once whether the device runs the
 * kernel; later launches do not load anything.
 */
#include <pthread.h>

#include "gpu/cuda/cuda.h"
#include "gpu/cuda/eager_ptx.h"
#include "gpu/eager.h"

static struct kernel {
    struct CUmod_st *module;
    struct CUfunc_st *function;
    dma_gpu_origin_t origin;
    unsigned blocks; /* of threads that the device runs at once */
} kernels[DMA_GPU_MAX_DEVICES];
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

static dma_status_t launch(const struct kernel *kernel, struct CUstream_st *stream, const dma_eager_args_t *args,
                           dma_eager_grid_t grid)
{
    void *values[] = {(void *)args};

    return DMA_CUDA_WITH(kernel, launch, kernel->function, grid.blocks, grid.rows, 1, grid.threads, 1, 1, 0, stream,
                         values, NULL);
}

/* Blocks of threads of the largest size that the device runs at once. */
static dma_status_t count_blocks(int device, unsigned *blocks)
{
    int units = 0, threads = 0;
    dma_status_t status = DMA_CUDA_TRY(device_attribute, &units, CUDA_DEVICE_UNITS, device);

    status = status == DMA_OK ? DMA_CUDA_TRY(device_attribute, &threads, CUDA_DEVICE_UNIT_THREADS, device) : status;
    *blocks = (unsigned)units * ((unsigned)threads / DMA_EAGER_THREADS);
    return status;
}

/* In a stream of ours. */
static dma_status_t try_launch(const struct kernel *kernel)
{
    const dma_eager_args_t nothing = {.rows = {{.src = 0}}}; /* an own block that is in its place */
    struct CUstream_st *stream = NULL;
    dma_status_t status = DMA_CUDA_TRY(stream_create, &stream, CUDA_STREAM_NON_BLOCKING);

    if (status == DMA_OK) {
        status = launch(kernel, stream, &nothing, (dma_eager_grid_t){.blocks = 1, .rows = 1, .threads = 32});
        status = status == DMA_OK ? DMA_CUDA_TRY(stream_sync, stream) : status;
        (void)DMA_CUDA_TRY(stream_destroy, stream);
    }
    return status;
}

static dma_status_t load(struct kernel *kernel, dma_gpu_origin_t origin)
{
    struct kernel made = {.origin = origin};
    dma_status_t status = count_blocks(origin.device, &made.blocks);

    status = status == DMA_OK ? DMA_CUDA_TRY(module_load, &made.module, DMA_EAGER_PTX) : status;
    if (status != DMA_OK) {
        return status;
    }
    status = DMA_CUDA_TRY(module_get_function, &made.function, made.module, "dma_eager");
    status = status == DMA_OK ? try_launch(&made) : status;
    if (status != DMA_OK) {
        (void)DMA_CUDA_TRY(module_unload, made.module);
        return DMA_UNSUPPORTED;
    }
    *kernel = made;
    return DMA_OK;
}

static dma_status_t eager_prepare(unsigned *blocks)
{
    dma_gpu_origin_t here = {0};
    struct kernel *kernel;
    dma_status_t status;

    if ((status = dma_cuda_origin(&here)) != DMA_OK) {
        return status;
    }
    pthread_mutex_lock(&kernels_lock);
    kernel = &kernels[here.device];
    if (!kernel->function || dma_gpu_guard_has_lost(&dma_cuda_guard, kernel->origin)) {
        kernel->function = NULL;
        if (dma_gpu_begin_blocking()) {
            status = load(kernel, here);
            dma_gpu_end_blocking();
        } else {
            status = DMA_AGAIN;
        }
    }
    *blocks = kernel->blocks;
    pthread_mutex_unlock(&kernels_lock);
    return status;
}

/* Memory of another context than the current one may be copied, but a kernel faults there. Without a context: mapped memory, to which
 * devices have access. */
static bool eager_reaches(uint64_t addr)
{
    struct CUctx_st *its = NULL, *current = NULL;
    cuda_enum_t name = CUDA_ATTRIBUTE_CONTEXT;
    void *data = &its;

    return DMA_CUDA_TRY(ctx_get_current, &current) == DMA_OK &&
           (dma_cuda_get_attributes(1, &name, &data, addr) != CUDA_DONE || !its || its == current);
}

static dma_status_t eager_launch(dma_gpu_stream_t *handle, const dma_eager_args_t *args, dma_eager_grid_t grid)
{
    const dma_cuda_stream_t *stream = dma_cuda_stream(handle);
    struct kernel kernel;

    if (dma_gpu_guard_has_lost(&dma_cuda_guard, stream->origin)) {
        return dma_gpu_guard_error(stream->origin);
    }
    pthread_mutex_lock(&kernels_lock);
    kernel = kernels[stream->origin.device];
    pthread_mutex_unlock(&kernels_lock);
    return kernel.function ? launch(&kernel, stream->cuda, args, grid) : DMA_UNSUPPORTED;
}

void dma_cuda_unload_kernel(int device)
{
    struct kernel was;

    pthread_mutex_lock(&kernels_lock);
    was = kernels[device];
    kernels[device] = (struct kernel){0};
    pthread_mutex_unlock(&kernels_lock);
    if (was.function && !dma_gpu_guard_has_lost(&dma_cuda_guard, was.origin)) {
        (void)DMA_CUDA(module_unload, was.module);
    }
}

void dma_cuda_fill_eager(dma_gpu_runtime_t *table)
{
    if (dma_cuda.device_attribute && dma_cuda.module_load && dma_cuda.module_unload && dma_cuda.module_get_function &&
        dma_cuda.launch) {
        table->eager_prepare = eager_prepare;
        table->eager_reaches = eager_reaches;
        table->eager_launch = eager_launch;
    }
}
