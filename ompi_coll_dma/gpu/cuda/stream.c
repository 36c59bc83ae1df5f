/* CUDA: copies, streams, events, graphs. */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/cuda/cuda.h"

/* What a dma_gpu_graph_t of this runtime is. */
typedef struct cuda_graph {
    struct CUgraph_st *graph;
    struct CUgraphNode_st *node;
    struct CUgraphExec_st *exec;
} cuda_graph_t;

static cuda_graph_t *native_graph(dma_gpu_graph_t *graph)
{
    return (cuda_graph_t *)graph;
}

/* For copies that are complete when the call returns. Created on first use, one per device, shared by all threads. */
static struct {
    pthread_mutex_t lock;
    struct CUstream_st *stream[DMA_GPU_MAX_DEVICES];
} private_streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct CUstream_st *native_stream(dma_gpu_stream_t *stream)
{
    return (struct CUstream_st *)stream;
}

static struct CUevent_st *native_event(dma_gpu_event_t *event)
{
    return (struct CUevent_st *)event;
}

static dma_status_t stream_create(dma_gpu_stream_t **stream)
{
    struct CUstream_st *made = NULL;
    dma_status_t status = DMA_CUDA(stream_create, &made, CUDA_STREAM_NON_BLOCKING);

    if (status == DMA_OK) {
        *stream = (dma_gpu_stream_t *)made;
    }
    return status;
}

static dma_status_t stream_destroy(dma_gpu_stream_t *stream)
{
    return DMA_CUDA(stream_destroy, native_stream(stream));
}

static dma_status_t stream_query(dma_gpu_stream_t *stream)
{
    return DMA_CUDA(stream_query, native_stream(stream));
}

static dma_status_t stream_sync(dma_gpu_stream_t *stream)
{
    return DMA_CUDA(stream_sync, native_stream(stream));
}

static dma_status_t default_sync(void)
{
    return DMA_CUDA(stream_sync, NULL);
}

/* A reset of the device destroys its streams. */
static bool is_lost(struct CUstream_st *stream)
{
    cuda_error_t error = dma_cuda.stream_query(stream);

    return error != CUDA_DONE && error != CUDA_NOT_READY;
}

static dma_status_t private_stream(dma_gpu_stream_t **stream)
{
    dma_status_t status;
    int device;

    status = DMA_CUDA(ctx_get_device, &device);
    if (status != DMA_OK) {
        return status;
    }
    if (device >= DMA_GPU_MAX_DEVICES) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "device %d: only %d are supported", device, DMA_GPU_MAX_DEVICES);
    }
    pthread_mutex_lock(&private_streams.lock);
    if (private_streams.stream[device] && is_lost(private_streams.stream[device])) {
        private_streams.stream[device] = NULL;
    }
    if (!private_streams.stream[device]) {
        status = DMA_CUDA(stream_create, &private_streams.stream[device], CUDA_STREAM_NON_BLOCKING);
    }
    *stream = (dma_gpu_stream_t *)private_streams.stream[device];
    pthread_mutex_unlock(&private_streams.lock);
    return status;
}

void dma_cuda_forget_private_stream(int device)
{
    pthread_mutex_lock(&private_streams.lock);
    private_streams.stream[device] = NULL;
    pthread_mutex_unlock(&private_streams.lock);
}

void dma_cuda_destroy_private_stream(int device)
{
    struct CUstream_st *stream;

    pthread_mutex_lock(&private_streams.lock);
    stream = private_streams.stream[device];
    private_streams.stream[device] = NULL;
    pthread_mutex_unlock(&private_streams.lock);
    if (stream) {
        (void)DMA_CUDA(stream_destroy, stream);
    }
}

static dma_status_t copy_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
    return DMA_CUDA(copy, dst, src, bytes, native_stream(stream));
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

static dma_status_t copy2d_async(dma_gpu_stream_t *stream, uint64_t dst, uint64_t dst_pitch, uint64_t src,
                                 uint64_t src_pitch, uint64_t width, uint64_t height)
{
    cuda_copy2d_t params = {
        .src_type = CUDA_TYPE_UNIFIED,
        .src = src,
        .src_pitch = src_pitch,
        .dst_type = CUDA_TYPE_UNIFIED,
        .dst = dst,
        .dst_pitch = dst_pitch,
        .width = width,
        .height = height,
    };

    return DMA_CUDA(copy2d, &params, native_stream(stream));
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

/* All copies of a batch use the same attributes. The flag asks for copy engines, which leave the SMs to the
 * application. */
static dma_status_t copy_batch(dma_gpu_stream_t *stream, const uint64_t *dst, const uint64_t *src,
                               const uint64_t *bytes, size_t n)
{
    cuda_batch_attributes_t attributes = {.source_order = CUDA_BATCH_IN_STREAM_ORDER,
                                          .flags = CUDA_BATCH_OVERLAP_COMPUTE};
    cuda_addr_t *to = (cuda_addr_t *)dst, *from = (cuda_addr_t *)src;
    size_t first = 0, failed = 0, *sizes = (size_t *)bytes;

    if (n == 0) {
        return DMA_OK;
    }
    return dma_cuda.batch13
               ? DMA_CUDA(batch13, to, from, sizes, n, &attributes, &first, 1, native_stream(stream))
               : DMA_CUDA(batch12, to, from, sizes, n, &attributes, &first, 1, &failed, native_stream(stream));
}

static dma_status_t write32(dma_gpu_stream_t *stream, uint64_t addr, uint32_t value)
{
    return DMA_CUDA(write32, native_stream(stream), addr, value, 0);
}

static dma_status_t event_create(dma_gpu_event_t **event)
{
    struct CUevent_st *made = NULL;
    dma_status_t status = DMA_CUDA(event_create, &made, CUDA_EVENT_DISABLE_TIMING);

    if (status == DMA_OK) {
        *event = (dma_gpu_event_t *)made;
    }
    return status;
}

static dma_status_t event_destroy(dma_gpu_event_t *event)
{
    return DMA_CUDA(event_destroy, native_event(event));
}

static dma_status_t event_record(dma_gpu_event_t *event, dma_gpu_stream_t *stream)
{
    return DMA_CUDA(event_record, native_event(event), native_stream(stream));
}

static dma_status_t event_query(dma_gpu_event_t *event)
{
    return DMA_CUDA(event_query, native_event(event));
}

static void graph_destroy(dma_gpu_graph_t *handle)
{
    cuda_graph_t *graph = native_graph(handle);
    if (graph->exec) {
        (void)DMA_CUDA(graph_exec_destroy, graph->exec);
    }
    (void)DMA_CUDA(graph_destroy, graph->graph);
    free(graph);
}

static cuda_copy3d_t row_params(uint64_t dst, uint64_t src, uint64_t bytes)
{
    return (cuda_copy3d_t){
        .src_type = CUDA_TYPE_DEVICE,
        .src = src,
        .src_pitch = bytes,
        .src_height = 1,
        .dst_type = CUDA_TYPE_DEVICE,
        .dst = dst,
        .dst_pitch = bytes,
        .dst_height = 1,
        .width = bytes,
        .height = 1,
        .depth = 1,
    };
}

static dma_status_t graph_create(uint64_t dst, uint64_t src, uint64_t bytes, dma_gpu_graph_t **graph)
{
    cuda_graph_t *made = calloc(1, sizeof(*made));
    cuda_copy3d_t params = row_params(dst, src, bytes);
    struct CUctx_st *context = NULL;
    dma_status_t status;

    if (!made) {
        return DMA_ERR_NOMEM;
    }
    status = DMA_CUDA_TRY(graph_create, &made->graph, 0);
    if (status != DMA_OK) {
        free(made);
        return status;
    }
    status = DMA_CUDA_TRY(ctx_get_current, &context);
    if (status == DMA_OK) {
        status = DMA_CUDA_TRY(graph_add_copy, &made->node, made->graph, NULL, 0, &params, context);
    }
    if (status == DMA_OK) {
        status = DMA_CUDA_TRY(graph_instantiate, &made->exec, made->graph, 0);
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
    cuda_graph_t *graph = native_graph(handle);
    cuda_copy3d_t params = row_params(dst, src, bytes);
    struct CUctx_st *context = NULL;
    dma_status_t status = DMA_CUDA_TRY(ctx_get_current, &context);

    return status == DMA_OK ? DMA_CUDA_TRY(graph_set_copy, graph->exec, graph->node, &params, context) : status;
}

static dma_status_t graph_launch(dma_gpu_graph_t *handle, dma_gpu_stream_t *stream)
{
    cuda_graph_t *graph = native_graph(handle);
    return DMA_CUDA(graph_launch, graph->exec, native_stream(stream));
}

static void fill_graphs(dma_gpu_runtime_t *table)
{
    if (dma_cuda.graph_create && dma_cuda.graph_destroy && dma_cuda.graph_add_copy && dma_cuda.graph_instantiate &&
        dma_cuda.graph_set_copy && dma_cuda.graph_launch && dma_cuda.graph_exec_destroy) {
        table->graph_create = graph_create;
        table->graph_update = graph_update;
        table->graph_launch = graph_launch;
        table->graph_destroy = graph_destroy;
    }
}

void dma_cuda_fill_streams(dma_gpu_runtime_t *table)
{
    table->copy = copy;
    table->copy_async = copy_async;
    table->copy2d_async = copy2d_async;
    table->copy_batch = dma_cuda.batch13 || dma_cuda.batch12 ? copy_batch : copy_loop;
    table->stream_create = stream_create;
    table->stream_destroy = stream_destroy;
    table->stream_query = stream_query;
    table->stream_sync = stream_sync;
    table->default_sync = default_sync;
    table->write32 = dma_cuda.write32 ? write32 : NULL;
    table->event_create = event_create;
    table->event_destroy = event_destroy;
    table->event_record = event_record;
    table->event_query = event_query;
    fill_graphs(table);
}
