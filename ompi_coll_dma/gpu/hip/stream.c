/* HIP: copies, streams, events, graphs. */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/hip/hip.h"

/* What a dma_gpu_graph_t of this runtime is. */
typedef struct hip_graph {
    struct ihipGraph *graph;
    struct hipGraphNode *node;
    struct hipGraphExec *exec;
} hip_graph_t;

static hip_graph_t *native_graph(dma_gpu_graph_t *graph)
{
    return (hip_graph_t *)graph;
}

/* For copies that are complete when the call returns. Created on first use, one per device, shared by all threads. */
static struct {
    pthread_mutex_t lock;
    dma_gpu_stream_t *stream[DMA_GPU_MAX_DEVICES];
} private_streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Records that the stream has a command that holds memory. */
static dma_status_t submitted(dma_gpu_stream_t *stream, dma_status_t status)
{
    /* release: the command is on the stream before the flag says so (dma_hip_quiesce) */
    atomic_store_explicit(&stream->used, true, memory_order_release);
    return status;
}

/* For calls that submit a command. */
#define SUBMIT(stream, call, ...) submitted(stream, DMA_HIP(call, __VA_ARGS__))

static struct ihipEvent_t *native_event(dma_gpu_event_t *event)
{
    return (struct ihipEvent_t *)event;
}

static void *ptr(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

static dma_status_t stream_create(dma_gpu_stream_t **stream)
{
    struct ihipStream_t *made = NULL;
    dma_status_t status;
    int device;

    status = DMA_HIP(hipGetDevice, &device);
    if (status != DMA_OK) {
        return status;
    }
    status = DMA_HIP(hipStreamCreateWithFlags, &made, HIP_STREAM_NON_BLOCKING);
    if (status != DMA_OK) {
        return status;
    }
    if (!(*stream = dma_hip_stream_add(made, device))) {
        (void)DMA_HIP(hipStreamDestroy, made);
        return DMA_ERR_NOMEM;
    }
    return DMA_OK;
}

static dma_status_t stream_destroy(dma_gpu_stream_t *stream)
{
    return DMA_HIP(hipStreamDestroy, dma_hip_stream_remove(stream));
}

static dma_status_t stream_query(dma_gpu_stream_t *stream)
{
    return DMA_HIP(hipStreamQuery, stream->hip);
}

static dma_status_t stream_sync(dma_gpu_stream_t *stream)
{
    return DMA_HIP(hipStreamSynchronize, stream->hip);
}

static dma_status_t default_sync(void)
{
    return DMA_HIP(hipStreamSynchronize, NULL);
}

static dma_status_t private_stream(dma_gpu_stream_t **stream)
{
    dma_gpu_stream_t **slot;
    dma_status_t status;
    int device;

    status = DMA_HIP(hipGetDevice, &device);
    if (status != DMA_OK) {
        return status;
    }
    slot = &private_streams.stream[device];
    pthread_mutex_lock(&private_streams.lock);
    if (!*slot) {
        status = stream_create(slot);
    }
    *stream = *slot;
    pthread_mutex_unlock(&private_streams.lock);
    return status;
}

static dma_status_t copy_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
    return SUBMIT(stream, hipMemcpyAsync, ptr(dst), ptr(src), bytes, HIP_MEMCPY_DEFAULT, stream->hip);
}

static dma_status_t copy(uint64_t dst, uint64_t src, uint64_t bytes)
{
    dma_gpu_stream_t *stream = NULL;
    dma_status_t status = private_stream(&stream);

    if (status == DMA_OK) {
        status = copy_async(stream, dst, src, bytes);
    }
    return status == DMA_OK ? stream_sync(stream) : status;
}

static dma_gpu_kind_t kind_of(uint64_t addr)
{
    dma_gpu_memory_t memory;

    return dma_hip_query(addr, &memory) == DMA_OK ? memory.kind : DMA_GPU_UNKNOWN;
}

static bool is_on_host(dma_gpu_kind_t kind)
{
    return kind == DMA_GPU_HOST || kind == DMA_GPU_HOST_PINNED || kind == DMA_GPU_HOST_REGISTERED;
}

/* Where HIP 5.7.1 has to find out the direction itself, it takes an address inside of pinned or managed memory for the beginning
 * of that memory. Then it copies other bytes, or refuses. */
static hip_enum_t direction(uint64_t dst, uint64_t src)
{
    dma_gpu_kind_t to = kind_of(dst), from = kind_of(src);

    if (is_on_host(from)) {
        return is_on_host(to) ? HIP_MEMCPY_HOST_TO_HOST : HIP_MEMCPY_HOST_TO_DEVICE;
    }
    if (is_on_host(to)) {
        return HIP_MEMCPY_DEVICE_TO_HOST;
    }
    return to == DMA_GPU_MANAGED || from == DMA_GPU_MANAGED ? HIP_MEMCPY_DEVICE_TO_DEVICE : HIP_MEMCPY_DEFAULT;
}

static dma_status_t copy2d_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t dst_pitch, uint64_t src,
                                 uint64_t src_pitch, uint64_t width, uint64_t height)
{
    return SUBMIT(stream, hipMemcpy2DAsync, ptr(dst), dst_pitch, ptr(src), src_pitch, width, height,
                  direction(dst, src), stream->hip);
}

static dma_status_t copy_loop(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src, const uint64_t *bytes,
                              size_t n)
{
    dma_status_t status = DMA_OK;

    for (size_t i = 0; i < n && status == DMA_OK; i++) {
        status = copy_async(stream, dst[i], src[i], bytes[i]);
    }
    return status;
}

static dma_status_t copy_batch(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src,
                               const uint64_t *bytes, size_t n)
{
    size_t failed = 0;

    return n == 0 ? DMA_OK
                  : SUBMIT(stream, hipMemcpyBatchAsync, (void **)dst, (void **)src, (size_t *)bytes, n, NULL, NULL, 0,
                           &failed, stream->hip);
}

static dma_status_t write32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value)
{
    return SUBMIT(stream, hipStreamWriteValue32, stream->hip, ptr(addr), value, 0);
}

static dma_status_t create_event(dma_gpu_event_t **event, unsigned flags)
{
    struct ihipEvent_t *made = NULL;
    dma_status_t status = DMA_HIP(hipEventCreateWithFlags, &made, flags);

    if (status == DMA_OK) {
        *event = (dma_gpu_event_t *)made;
    }
    return status;
}

static dma_status_t event_create(dma_gpu_event_t **event)
{
    return create_event(event, HIP_EVENT_DISABLE_TIMING);
}

static dma_status_t event_create_timed(dma_gpu_event_t **event)
{
    return create_event(event, 0);
}

static dma_status_t event_destroy(dma_gpu_event_t *event)
{
    return DMA_HIP(hipEventDestroy, native_event(event));
}

static dma_status_t event_record(dma_gpu_event_t *event, dma_gpu_stream_t *stream)
{
    return DMA_HIP(hipEventRecord, native_event(event), stream->hip);
}

static dma_status_t event_query(dma_gpu_event_t *event)
{
    return DMA_HIP(hipEventQuery, native_event(event));
}

static dma_status_t event_elapsed(dma_gpu_event_t *from, dma_gpu_event_t *to, double *ns)
{
    float ms = 0;
    dma_status_t status = DMA_HIP(hipEventElapsedTime, &ms, native_event(from), native_event(to));

    *ns = 1e6 * (double)ms;
    return status;
}

static void graph_destroy(dma_gpu_graph_t *handle)
{
    hip_graph_t *graph = native_graph(handle);

    if (graph->exec) {
        (void)DMA_HIP(hipGraphExecDestroy, graph->exec);
    }
    (void)DMA_HIP(hipGraphDestroy, graph->graph);
    free(graph);
}

static dma_status_t graph_create(uint64_t dst, uint64_t src, uint64_t bytes, dma_gpu_graph_t **graph)
{
    hip_graph_t *made = calloc(1, sizeof(*made));
    dma_status_t status;

    if (!made) {
        return DMA_ERR_NOMEM;
    }
    status = DMA_HIP_TRY(hipGraphCreate, &made->graph, 0);
    if (status != DMA_OK) {
        free(made);
        return status;
    }
    status = DMA_HIP_TRY(hipGraphAddMemcpyNode1D, &made->node, made->graph, NULL, 0, ptr(dst), ptr(src), bytes,
                         HIP_MEMCPY_DEVICE_TO_DEVICE);
    if (status == DMA_OK) {
        status = DMA_HIP_TRY(hipGraphInstantiate, &made->exec, made->graph, NULL, NULL, 0);
    }
    if (status != DMA_OK) {
        graph_destroy((dma_gpu_graph_t *)made);
        return status;
    }
    *graph = (dma_gpu_graph_t *)made;
    return DMA_OK;
}

static dma_status_t graph_update(dma_gpu_graph_t *handle, uint64_t dst, uint64_t src, uint64_t bytes)
{
    const hip_graph_t *graph = native_graph(handle);

    return DMA_HIP_TRY(hipGraphExecMemcpyNodeSetParams1D, graph->exec, graph->node, ptr(dst), ptr(src), bytes,
                       HIP_MEMCPY_DEVICE_TO_DEVICE);
}

static dma_status_t graph_launch(dma_gpu_graph_t *handle, dma_gpu_stream_t *stream)
{
    const hip_graph_t *graph = native_graph(handle);

    return SUBMIT(stream, hipGraphLaunch, graph->exec, stream->hip);
}

static void fill_graphs(dma_gpu_runtime_t *table)
{
    if (table->version >= HIP_5_4 && dma_hip.hipGraphCreate && dma_hip.hipGraphDestroy &&
        dma_hip.hipGraphAddMemcpyNode1D && dma_hip.hipGraphInstantiate && dma_hip.hipGraphExecMemcpyNodeSetParams1D &&
        dma_hip.hipGraphLaunch && dma_hip.hipGraphExecDestroy) {
        table->graph_create = graph_create;
        table->graph_update = graph_update;
        table->graph_launch = graph_launch;
        table->graph_destroy = graph_destroy;
    }
}

void dma_hip_fill_streams(dma_gpu_runtime_t *table)
{
    table->copy = copy;
    table->copy_async = copy_async;
    table->copy2d_async = copy2d_async;
    table->copy_batch = dma_hip.hipMemcpyBatchAsync ? copy_batch : copy_loop;
    table->stream_create = stream_create;
    table->stream_destroy = stream_destroy;
    table->stream_query = stream_query;
    table->stream_sync = stream_sync;
    table->default_sync = default_sync;
    table->write32 = dma_hip.hipStreamWriteValue32 ? write32 : NULL;
    table->event_create = event_create;
    table->event_destroy = event_destroy;
    table->event_record = event_record;
    table->event_query = event_query;
    table->event_create_timed = dma_hip.hipEventElapsedTime ? event_create_timed : NULL;
    table->event_elapsed = dma_hip.hipEventElapsedTime ? event_elapsed : NULL;
    fill_graphs(table);
}
