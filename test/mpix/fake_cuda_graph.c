/* The fake CUDA: graphs of copies of one row. A graph that was destroyed is noticed, because it is never freed. */
#include <stdlib.h>

#include "fake_cuda.h"

typedef enum { ALIVE = 1, DESTROYED } graph_life_t;

/* A node is its graph. */
typedef struct CUgraph_st {
    fake_piece_t piece;
    graph_life_t life;
} fake_graph_t;

typedef struct CUgraphExec_st {
    fake_piece_t piece;
    graph_life_t life;
} fake_exec_t;

static cuda_error_t check(graph_life_t life, const char *call)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    return life == ALIVE ? CUDA_DONE : fake_complain(FAKE_BAD_HANDLE, call, "the graph has been destroyed", 0);
}

cuda_error_t cuGraphCreate(fake_graph_t **graph, unsigned flags)
{
    cuda_error_t error = check(ALIVE, "cuGraphCreate");

    *graph = error || flags ? NULL : calloc(1, sizeof(**graph));
    if (*graph) {
        (*graph)->life = ALIVE;
    }
    return error ? error : *graph ? CUDA_DONE : FAKE_INVALID;
}

cuda_error_t cuGraphDestroy(fake_graph_t *graph)
{
    cuda_error_t error = check(graph->life, "cuGraphDestroy");

    graph->life = DESTROYED;
    return error;
}

static cuda_error_t set_piece(fake_piece_t *piece, const cuda_copy3d_t *w)
{
    if (w->height != 1 || w->depth != 1 || w->src_type != CUDA_TYPE_DEVICE || w->dst_type != CUDA_TYPE_DEVICE ||
        !fake_may_copy(w->src, w->width) || !fake_may_copy(w->dst, w->width)) {
        return FAKE_INVALID;
    }
    *piece = (fake_piece_t){w->dst, w->src, w->width};
    return CUDA_DONE;
}

cuda_error_t cuGraphAddMemcpyNode(struct CUgraphNode_st **node, fake_graph_t *graph,
                                  struct CUgraphNode_st *const *after, size_t n, const cuda_copy3d_t *what,
                                  struct CUctx_st *context)
{
    cuda_error_t error = check(graph->life, "cuGraphAddMemcpyNode");

    (void)after;
    *node = (struct CUgraphNode_st *)graph;
    return error ? error : n || !context ? FAKE_INVALID : set_piece(&graph->piece, what);
}

cuda_error_t cuGraphInstantiateWithFlags(fake_exec_t **exec, fake_graph_t *graph, unsigned long long flags)
{
    cuda_error_t error = check(graph->life, "cuGraphInstantiate");

    *exec = error || flags ? NULL : calloc(1, sizeof(**exec));
    if (*exec) {
        **exec = (fake_exec_t){graph->piece, ALIVE};
    }
    return error ? error : *exec ? CUDA_DONE : FAKE_INVALID;
}

/* Launches that are in streams already keep their bytes. */
cuda_error_t cuGraphExecMemcpyNodeSetParams(fake_exec_t *exec, struct CUgraphNode_st *node, const cuda_copy3d_t *what,
                                            struct CUctx_st *context)
{
    cuda_error_t error = check(exec->life, "cuGraphExecMemcpyNodeSetParams");

    return error ? error : !node || !context ? FAKE_INVALID : set_piece(&exec->piece, what);
}

cuda_error_t cuGraphLaunch(fake_exec_t *exec, fake_stream_t *stream)
{
    cuda_error_t error = check(exec->life, "cuGraphLaunch");

    return error ? error : cuMemcpyAsync(exec->piece.to, exec->piece.from, exec->piece.bytes, stream);
}

cuda_error_t cuGraphExecDestroy(fake_exec_t *exec)
{
    cuda_error_t error = check(exec->life, "cuGraphExecDestroy");

    exec->life = DESTROYED;
    return error;
}
