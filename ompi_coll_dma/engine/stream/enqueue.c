/*
 * Runs in a stream of the application. All of a run is submitted at once, in stream order:
 *
 *     store the epoch to the ready word of this rank, and wait for those of the peers
 *     copy to the peers                                                                  beside it: copy the own block
 *     store the epoch to the lines of these programs, and wait for the lines of the peers
 *     wait for the copy of the own block
 *
 * So what is behind it in the stream runs when the call is complete. A store takes a device 3 us, as long as a small copy, and a wait 2.
 * Several at once take half of that each. Nobody needs the line of the own block. It is copied in a stream of ours beside that of the
 * application, behind what was in front of the call there. Exchanges use the memory of the communicator, because
 * streams that do not wait for each other must not share any.
 */
#include "engine/stream/binding.h"

/* Submitted behind the store of the ready word: if the store is refused, the host makes this start, and a copy of the stream must not
 * come later. */
static dma_status_t copy_own(const dma_stream_binding_t *b, const dma_gpu_app_stream_t *app)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;
    const dma_own_block_t *own = &b->work.own;
    dma_status_t status = rt->stream_wait_event(app->side, app->begun);

    status = status == DMA_OK ? rt->copy_async(app->side, own->dst, own->src, own->bytes) : status;
    return status == DMA_OK ? rt->event_record(app->copied, app->side) : status;
}

static dma_status_t copy_to_peers(dma_stream_binding_t *b, const dma_gpu_app_stream_t *app,
                                  const dma_gpu_in_stream_t *in_stream)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_status_t status = dma_work_push(&b->work, rt, app->stream);

    return status == DMA_OK
               ? dma_work_exchange(&b->work, rt, app->stream, in_stream->temp, in_stream->temp_bytes, false)
               : status;
}

static dma_status_t end(dma_stream_binding_t *b, const dma_gpu_app_stream_t *app, const dma_gpu_in_stream_t *in_stream)
{
    size_t n = 0;

    for (uint32_t i = 1; i < b->progs; i++) {
        if (i != b->own_prog) {
            b->words[n++] = b->lines + (i - 1) * sizeof(dma_engine_line_t);
        }
    }
    return b->unit->rt->write_and_wait32(app->stream, b->words, n, in_stream->lines, in_stream->nlines, b->epoch);
}

/* The stream waits for the own block in any case: whoever waits for the stream must not find later that it is copied. */
static dma_status_t submit(dma_stream_binding_t *b, const dma_gpu_app_stream_t *app,
                           const dma_gpu_in_stream_t *in_stream)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_status_t own = b->work.own.bytes ? copy_own(b, app) : DMA_OK, status = own, waited;

    status = status == DMA_OK ? copy_to_peers(b, app, in_stream) : status;
    status = status == DMA_OK ? end(b, app, in_stream) : status;
    if (own == DMA_OK && b->work.own.bytes) {
        waited = rt->stream_wait_event(app->stream, app->copied);
        status = status == DMA_OK ? waited : status;
    }
    return status;
}

static void note_run(dma_stream_binding_t *b, const dma_run_t *run)
{
    b->epoch = run->epoch;
    b->progs = run->plan->nprogs;
    b->own_prog = b->work.own.prog;
    b->echoed = 0;
    b->by_links = false;
    b->window = run->window;
    b->enqueued = true;
}

/* DMA_UNSUPPORTED: nothing has been submitted that anyone would notice. */
static dma_status_t begin(dma_stream_binding_t *b, const dma_run_t *run, const dma_gpu_app_stream_t *app,
                          const dma_gpu_in_stream_t *in_stream)
{
    const dma_gpu_runtime_t *rt = b->unit->rt;

    if (!b->unit->writes || dma_stream_collect(b, run) != DMA_OK ||
        (b->work.own.bytes && rt->event_record(app->begun, app->stream) != DMA_OK)) {
        return DMA_UNSUPPORTED;
    }
    return rt->write_and_wait32(app->stream, &in_stream->own, 1, in_stream->peers, in_stream->npeers, run->epoch);
}

dma_status_t dma_stream_enqueue(const dma_run_t *run, const dma_gpu_app_stream_t *app,
                                const dma_gpu_in_stream_t *in_stream)
{
    dma_stream_binding_t *b = dma_stream_binding_of(run->binding);
    const dma_gpu_runtime_t *rt = b->unit->rt;
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(b->unit->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    status = begin(b, run, app, in_stream);
    if (status != DMA_UNSUPPORTED) {
        note_run(b, run);
        status = status == DMA_OK ? submit(b, app, in_stream) : status;
        b->failed = status != DMA_OK;
        dma_stream_count_run(b);
        status = status == DMA_OK ? DMA_OK : DMA_ERR_ENGINE;
    }
    rt->leave(&scope);
    return status;
}
