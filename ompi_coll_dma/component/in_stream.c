/* What libmpix_dma finds of the component: starts in a stream of the application (dma/in_stream.h). */
#include <sched.h>

#include "request.h"

/* The channel of a request; NULL: it is not one of this component, or moves no data. */
static dma_channel_t *channel_of(ompi_request_t *request)
{
    return mca_coll_dma_request_is_ours(request) ? ((mca_coll_dma_request_t *)request)->channel : NULL;
}

static dma_in_stream_result_t result_of(dma_status_t status)
{
    return DMA_OK == status            ? DMA_IN_STREAM_DONE
           : DMA_UNSUPPORTED == status ? DMA_IN_STREAM_UNSERVED
                                       : DMA_IN_STREAM_FAILED;
}

/* The request is active before its start, because that may fail in another thread's progress. */
static dma_in_stream_result_t start_first(dma_app_stream_t *stream, mca_coll_dma_request_t *request,
                                          dma_in_stream_started_t *started)
{
    ompi_request_t *super = &request->super.super;
    dma_in_stream_result_t result;

    if (OMPI_REQUEST_INACTIVE != super->req_state) {
        return DMA_IN_STREAM_ACTIVE;
    }
    super->req_status = ompi_status_empty;
    super->req_complete = REQUEST_PENDING;
    super->req_state = OMPI_REQUEST_ACTIVE;
    result = result_of(dma_channel_start_in_stream(request->channel, stream, started));
    if (DMA_IN_STREAM_DONE == result) {
        request->in_stream = stream;
        mca_coll_dma_progress_update(true);
    } else {
        super->req_complete = REQUEST_COMPLETED;
        super->req_state = OMPI_REQUEST_INACTIVE;
    }
    return result;
}

static dma_in_stream_result_t start(dma_app_stream_t *stream, ompi_request_t *handle, dma_in_stream_started_t *started)
{
    mca_coll_dma_request_t *request = (mca_coll_dma_request_t *)handle;
    dma_channel_t *channel = channel_of(handle);

    started->first = !channel || !request->in_stream;
    if (!channel) {
        return DMA_IN_STREAM_UNSERVED;
    }
    if (request->in_stream && request->in_stream != stream) {
        return DMA_IN_STREAM_ACTIVE; /* nobody would know when both have done everything */
    }
    return started->first ? start_first(stream, request, started)
                          : result_of(dma_channel_start_in_stream(channel, stream, started));
}

static bool has_failed(ompi_request_t *request)
{
    return dma_channel_has_failed_in_stream(channel_of(request));
}

static bool has_begun(ompi_request_t *request, uint32_t number)
{
    return dma_channel_has_begun_in_stream(channel_of(request), number);
}

static dma_in_stream_result_t look(ompi_request_t *request)
{
    dma_status_t status =
        dma_channel_look_in_stream(channel_of(request), ((mca_coll_dma_request_t *)request)->in_stream);

    return DMA_AGAIN == status ? DMA_IN_STREAM_ACTIVE : DMA_OK == status ? DMA_IN_STREAM_DONE : DMA_IN_STREAM_FAILED;
}

/* Nobody waits for the request in MPI. Another thread may be about to complete it, because it has failed; on a communicator of
 * one rank nobody does. */
static dma_in_stream_result_t end(ompi_request_t *request, bool broken)
{
    dma_status_t status = dma_channel_end_in_stream(channel_of(request), broken);

    if (1 == ompi_comm_size(request->req_mpi_object.comm)) {
        request->req_complete = REQUEST_COMPLETED;
    }
    while (!REQUEST_COMPLETE(request)) {
        sched_yield();
    }
    ((mca_coll_dma_request_t *)request)->in_stream = NULL;
    request->req_state = OMPI_REQUEST_INACTIVE;
    mca_coll_dma_progress_update(true);
    return result_of(status);
}

static void forget(dma_app_stream_t *stream)
{
    dma_proc_forget_stream(mca_coll_dma_component.proc, stream);
}

OMPI_DECLSPEC const dma_in_stream_t mca_coll_dma_in_stream = {
    .magic = DMA_IN_STREAM_MAGIC,
    .start = start,
    .has_begun = has_begun,
    .has_failed = has_failed,
    .look = look,
    .end = end,
    .push_on = dma_starts_push_on,
    .forget = forget,
};
