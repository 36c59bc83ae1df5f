/* A communicator that is bound to a unit of the stream engine. */
#ifndef DMA_STREAM_BINDING_H
#define DMA_STREAM_BINDING_H

#include "engine/stream/unit.h"
#include "node/window.h"

typedef struct dma_stream_binding {
    dma_stream_unit_t *unit;
    int rank, nranks;
    uint64_t lines;
    uint64_t *words; /* room for an address of each program */
    dma_work_t work;
    dma_self_copy_t self_copy;
    dma_gpu_event_t *events[DMA_STREAMS]; /* created if the stream cannot write words */
    dma_stream_stamps_t stamps;
    bool recorded[DMA_STREAMS]; /* the event is recorded, and the CPU writes this stream's lines */
    uint32_t epoch;             /* of the last run */
    uint32_t progs;             /* of the last run: its queue programs are 1 to progs - 1 */
    uint32_t own_prog;          /* the program on the stream DMA_STREAM_OWN; 0: none */
    uint32_t echoed;            /* the program whose own block went by echo and whose line is not written; or 0 */
    dma_own_block_t early;      /* launched for the next run; 0 bytes: none */
    const struct dma_window *window;
    bool collected; /* `work` contains the operations of the last run */
    bool failed;    /* a run was submitted only in part */
    bool by_links;  /* the last exchange used the links alone */
    bool enqueued;  /* the last run went into a stream of the application */
    uint64_t probe; /* with which the last run has begun; 0: none, or its end has been looked for */
    double checked;
} dma_stream_binding_t;

static inline dma_stream_binding_t *dma_stream_binding_of(dma_gpu_binding_t *handle)
{
    return (dma_stream_binding_t *)handle;
}

/* Collects the copies of a run, unless they are those of the last one. */
dma_status_t dma_stream_collect(dma_stream_binding_t *b, const dma_run_t *run);
/* Counts what has been submitted. */
void dma_stream_count_run(const dma_stream_binding_t *b);

/* enqueue.c: a member of the engine's table. */
dma_status_t dma_stream_enqueue(const dma_run_t *run, const dma_gpu_app_stream_t *app,
                                const dma_gpu_in_stream_t *in_stream);

#endif
