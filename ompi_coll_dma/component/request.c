/*
 * Requests: see request.h.
 */
#include "request.h"

static int request_start(size_t count, ompi_request_t **requests);
static int request_free(ompi_request_t **handle);
static int request_cancel(ompi_request_t *request, int flag);

static void construct(mca_coll_dma_request_t *request)
{
    ompi_request_t *super = &request->super.super;

    super->req_type = OMPI_REQUEST_COLL;
    super->req_start = request_start;
    super->req_free = request_free;
    super->req_cancel = request_cancel;
}

OBJ_CLASS_INSTANCE(mca_coll_dma_request_t, ompi_coll_base_nbc_request_t, construct, NULL);

mca_coll_dma_request_t *mca_coll_dma_request_alloc(mca_coll_dma_module_t *module, ompi_communicator_t *comm,
                                                   bool persistent)
{
    mca_coll_dma_request_t *request = OBJ_NEW(mca_coll_dma_request_t);
    ompi_request_t *super;

    if (!request) {
        return NULL;
    }
    super = &request->super.super;
    OMPI_REQUEST_INIT(super, persistent);
    super->req_status = ompi_status_empty;
    super->req_mpi_object.comm = comm;
    if (!persistent) {
        super->req_state = OMPI_REQUEST_ACTIVE;
    }
    request->module = module;
    request->channel = NULL;
    request->in_stream = NULL;
    return request;
}

void mca_coll_dma_request_retain_comm(mca_coll_dma_request_t *request)
{
    OBJ_RETAIN(request->super.super.req_mpi_object.comm);
    OBJ_RETAIN(request->module);
}

void mca_coll_dma_request_discard(mca_coll_dma_request_t *request)
{
    OMPI_REQUEST_FINI(&request->super.super);
    OBJ_RELEASE(request);
}

/* Predefined datatypes are never freed and need no reference. */
static void retain_type(struct ompi_datatype_t *type)
{
    if (!ompi_datatype_is_predefined(type)) {
        OBJ_RETAIN(type);
    }
}

static void release_type(struct ompi_datatype_t *type)
{
    if (!ompi_datatype_is_predefined(type)) {
        OBJ_RELEASE(type);
    }
}

static void for_all_types(const mca_coll_dma_request_t *request, void (*act)(struct ompi_datatype_t *type))
{
    const dma_call_t *call = dma_channel_call(request->channel);
    const dma_side_t *sides[2] = {&call->recv, call->in_place ? NULL : &call->send};

    for (int i = 0; i < 2 && sides[i]; i++) {
        int n = sides[i]->types ? ompi_comm_size(request->super.super.req_mpi_object.comm) : 1;

        for (int r = 0; r < n; r++) {
            act(sides[i]->types ? sides[i]->types[r] : sides[i]->type);
        }
    }
}

void mca_coll_dma_request_retain_types(mca_coll_dma_request_t *request)
{
    if (request->channel) {
        for_all_types(request, retain_type);
    }
}

/* Frees a request that is not in progress, with all its references. */
static void request_release(mca_coll_dma_request_t *request)
{
    ompi_request_t *super = &request->super.super;
    ompi_communicator_t *comm = super->req_mpi_object.comm;
    mca_coll_dma_module_t *module = request->module;

    if (super->req_complete_cb) {
        /* Open MPI adds references to datatypes after the call has returned, and this function, which releases them at the completion.
         * Another thread has completed the request in between, which has cleared the function that it had. */
        (void)super->req_complete_cb(super);
    }
    mca_coll_dma_request_discard(request);
    OBJ_RELEASE(module);
    /* Destroys the communicator if the user has freed it. */
    OBJ_RELEASE(comm);
}

/* Called from the progress of any thread, perhaps before the MPI call has returned. */
void mca_coll_dma_request_complete(void *arg, dma_status_t status)
{
    mca_coll_dma_request_t *request = arg;
    ompi_request_t *super = &request->super.super;

    if (OPAL_UNLIKELY(!request->module->reported)) {
        mca_coll_dma_report_state(request->module, super->req_mpi_object.comm);
    }
    super->req_status.MPI_ERROR = mca_coll_dma_error_class(status);
    if (OPAL_UNLIKELY(DMA_OK != status)) {
        /* MPI_Testall and MPI_Testany of Open MPI 4.1 ignore the error of a persistent request. The channel of this one has
         * failed and cannot start again, so the request need not be persistent any more. */
        super->req_persistent = false;
    }
    /* Write barrier: the received data before the completion flag, which another thread may be reading. Open MPI 4.1 and 5.0
     * have no barrier there. From the completion on, the request may be freed or started again. */
    opal_atomic_wmb();
    ompi_request_complete(super, true);
}

/* An error of a start is stored in the request, because MPI_Startall ignores what this returns. */
static int request_start(size_t count, ompi_request_t **requests)
{
    int rc = MPI_SUCCESS;
    size_t started = 0;

    for (size_t i = 0; i < count; i++, started++) {
        mca_coll_dma_request_t *request = (mca_coll_dma_request_t *)requests[i];
        ompi_request_t *super = requests[i];
        dma_status_t status = DMA_OK, outcome = DMA_OK;

        if (OMPI_REQUEST_INACTIVE != super->req_state) {
            rc = MPI_ERR_REQUEST;
            break;
        }
        super->req_status = ompi_status_empty;
        super->req_complete = REQUEST_PENDING;
        super->req_state = OMPI_REQUEST_ACTIVE;
        if (request->channel) {
            status = dma_channel_start(request->channel, &outcome);
        }
        if (DMA_AGAIN != outcome || DMA_OK != status) {
            mca_coll_dma_request_complete(request, DMA_OK != status ? status : outcome);
        }
    }
    /* Behind all starts: what their engines have to do does not wait for it. */
    for (size_t i = 0; i < started; i++) {
        mca_coll_dma_request_t *request = (mca_coll_dma_request_t *)requests[i];

        if (request->channel) {
            dma_channel_prepare_next(request->channel);
        }
    }
    mca_coll_dma_progress_update(true);
    return rc;
}

static int request_free(ompi_request_t **handle)
{
    mca_coll_dma_request_t *request = (mca_coll_dma_request_t *)*handle;

    if (!REQUEST_COMPLETE(*handle) || request->in_stream) {
        return MPI_ERR_REQUEST;
    }
    if (request->channel) {
        for_all_types(request, release_type);
        dma_channel_destroy(request->channel);
    }
    request_release(request);
    *handle = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

bool mca_coll_dma_request_is_ours(const ompi_request_t *request)
{
    return OMPI_REQUEST_COLL == request->req_type && request_free == request->req_free;
}

/* MPI does not allow the cancellation of collectives. */
static int request_cancel(ompi_request_t *request, int flag)
{
    (void)request;
    (void)flag;
    return MPI_ERR_REQUEST;
}
