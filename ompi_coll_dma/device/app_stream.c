/* Streams of the application, in which persistent calls are started (in_stream.c): how they are known to the runtime, and what
 * belongs to them. */
#include <stdlib.h>

#include "device/in_stream.h"

static void destroy_side(const dma_gpu_runtime_t *rt, const dma_gpu_app_stream_t *app)
{
    if (app->side) {
        (void)rt->stream_destroy(app->side);
    }
    if (app->begun) {
        (void)rt->event_destroy(app->begun);
    }
    if (app->copied) {
        (void)rt->event_destroy(app->copied);
    }
}

static dma_reason_t adopt_in_scope(const dma_gpu_runtime_t *rt, const dma_app_stream_t *stream,
                                   dma_gpu_app_stream_t *app)
{
    if (rt->stream_adopt(stream->stream, &app->stream) != DMA_OK) {
        return DMA_REASON_in_stream_device;
    }
    if (rt->stream_create(&app->side) == DMA_OK && rt->event_create(&app->begun) == DMA_OK &&
        rt->event_create(&app->copied) == DMA_OK) {
        return DMA_REASON_NONE;
    }
    destroy_side(rt, app);
    rt->stream_forget(app->stream);
    return DMA_REASON_in_stream_refused;
}

dma_reason_t dma_device_adopt_stream(const dma_gpu_runtime_t *rt, int device, dma_app_stream_t *stream)
{
    dma_gpu_app_stream_t *app;
    dma_gpu_scope_t scope;
    dma_reason_t why;

    if (stream->handle) {
        return stream->device == device ? DMA_REASON_NONE : DMA_REASON_in_stream_device;
    }
    app = calloc(1, sizeof(*app));
    if (!app) {
        return DMA_REASON_in_stream_refused;
    }
    why = DMA_REASON_in_stream_device;
    if (rt->enter(device, &scope) == DMA_OK) {
        why = adopt_in_scope(rt, stream, app);
        rt->leave(&scope);
    }
    if (why) {
        free(app);
        return why;
    }
    stream->handle = app;
    stream->device = device;
    return DMA_REASON_NONE;
}

void dma_proc_forget_stream(dma_proc_t *proc, dma_app_stream_t *stream)
{
    const dma_gpu_runtime_t *rt = proc ? dma_proc_runtime(proc) : NULL;
    dma_gpu_app_stream_t *app = stream->handle;
    dma_gpu_scope_t scope;

    if (app && rt && rt->stream_forget) {
        rt->stream_forget(app->stream);
        if (rt->enter_to_release(stream->device, &scope) == DMA_OK) {
            destroy_side(rt, app);
            rt->leave(&scope);
        }
    }
    free(app);
    stream->handle = NULL;
}
