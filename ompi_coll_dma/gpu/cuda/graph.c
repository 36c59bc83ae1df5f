/* CUDA: a copy as an instantiated graph. */
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

/* In the driver, and our own memory. */
static void destroy(cuda_graph_t *graph)
{
    if (graph->exec) {
        (void)DMA_CUDA(graph_exec_destroy, graph->exec);
    }
    if (graph->graph) {
        (void)DMA_CUDA(graph_destroy, graph->graph);
    }
    free(graph);
}

static void graph_destroy(dma_gpu_graph_t *handle)
{
    destroy(native_graph(handle));
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
    if (status == DMA_OK) {
        status = DMA_CUDA_TRY(ctx_get_current, &context);
    }
    if (status == DMA_OK) {
        status = DMA_CUDA_TRY(graph_add_copy, &made->node, made->graph, NULL, 0, &params, context);
    }
    if (status == DMA_OK) {
        status = DMA_CUDA_TRY(graph_instantiate, &made->exec, made->graph, 0);
    }
    if (status != DMA_OK) {
        destroy(made);
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

static dma_status_t graph_launch(dma_gpu_graph_t *handle, dma_gpu_stream_t *on)
{
    return DMA_CUDA_TRY(graph_launch, native_graph(handle)->exec, (struct CUstream_st *)on);
}

void dma_cuda_fill_graphs(dma_gpu_runtime_t *table)
{
    if (dma_cuda.graph_create && dma_cuda.graph_destroy && dma_cuda.graph_add_copy && dma_cuda.graph_instantiate &&
        dma_cuda.graph_set_copy && dma_cuda.graph_launch && dma_cuda.graph_exec_destroy) {
        table->graph_create = graph_create;
        table->graph_update = graph_update;
        table->graph_launch = graph_launch;
        table->graph_destroy = graph_destroy;
    }
}
