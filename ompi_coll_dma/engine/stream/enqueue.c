/*
 * Runs in a stream of the application. All of a run is submitted at once, in stream order:
 *
 *     store the epoch to the ready word of this rank
 *     copy the own block, which concerns nobody else
 *     wait for the ready words of the peers
 *     copy to the peers
 *     store the epoch to the lines of these programs
 *
 * The own block is complete when later work of the stream runs, so nobody needs its line. It is never copied by echo: the kernels
 * that could delay it in this stream have ended. Exchanges use the memory of the communicator, because
 * streams that do not wait for each other must not share any.
 */
#include "engine/stream/binding.h"

static dma_status_t copy_own(const dma_stream_binding_t *b, dma_gpu_stream_t *stream)
{
    const dma_own_block_t *own = &b->work.own;

    return own->bytes ? b->unit->rt->copy_async(stream, own->dst, own->src, own->bytes) : DMA_OK;
}

static dma_status_t copy_to_peers(dma_stream_binding_t *b, dma_gpu_stream_t *stream,
                                  const dma_gpu_in_stream_t *in_stream)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_status_t status = dma_work_push(&b->work, rt, stream);

    return status == DMA_OK ? dma_work_exchange(&b->work, rt, stream, in_stream->temp, in_stream->temp_bytes, false)
                            : status;
}

static dma_status_t write_lines(const dma_stream_binding_t *b, dma_gpu_stream_t *stream)
{
    dma_status_t status = DMA_OK;

    for (uint32_t i = 1; i < b->progs && status == DMA_OK; i++) {
        if (i != b->own_prog) {
            status = b->unit->rt->write32(stream, b->lines + (i - 1) * sizeof(dma_engine_line_t), b->epoch);
        }
    }
    return status;
}

static dma_status_t submit(dma_stream_binding_t *b, dma_gpu_stream_t *stream, const dma_gpu_in_stream_t *in_stream)
{
    dma_status_t status = copy_own(b, stream);

    if (status == DMA_OK) {
        status = b->unit->rt->wait32(stream, in_stream->peers, in_stream->npeers, b->epoch);
    }
    if (status == DMA_OK) {
        status = copy_to_peers(b, stream, in_stream);
    }
    return status == DMA_OK ? write_lines(b, stream) : status;
}

dma_status_t dma_stream_enqueue(const dma_run_t *run, dma_gpu_stream_t *stream, const dma_gpu_in_stream_t *in_stream)
{
    dma_stream_binding_t *b = dma_stream_binding_of(run->binding);
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(b->unit->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    /* If this fails, nothing has been submitted: the write comes last. */
    if (!b->unit->writes || dma_stream_collect(b, run) != DMA_OK ||
        rt->write32(stream, in_stream->own, run->epoch) != DMA_OK) {
        status = DMA_UNSUPPORTED;
    } else {
        b->epoch = run->epoch;
        b->progs = run->plan->nprogs;
        b->own_prog = b->work.own.prog;
        b->echoed = 0;
        b->by_links = false;
        b->window = run->window;
        b->enqueued = true;
        status = submit(b, stream, in_stream);
        b->failed = status != DMA_OK;
        dma_stream_count_run(b);
        status = status == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
    }
    rt->leave(&scope);
    return status;
}
