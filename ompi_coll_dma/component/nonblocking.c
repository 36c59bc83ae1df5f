/*
 * Non-blocking calls. They never wait, not even for the set-up, and do not go to the module below after a set-up: when a rank
 * learns that its communicator is not served, other ranks may have posted further calls. On such a communicator the core does the
 * calls by messages. They go to the module below if a rank has not loaded coll/dma, which is found out before the first one.
 */
#include "buffer.h"
#include "request.h"

/* The user may get Open MPI's empty request for a call that has already ended; not for calls with arrays of counts, because Open
 * MPI, from 5.0 on, may attach arrays to the request. */
static int post(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call,
                ompi_request_t **result)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    mca_coll_dma_request_t *request = module->spare_request;
    dma_status_t status = mca_coll_dma_comm_open(module, comm), outcome;

    *result = MPI_REQUEST_NULL;
    if (OPAL_UNLIKELY(DMA_OK != status)) {
        return mca_coll_dma_error_class(status);
    }
    if (!request && !(request = mca_coll_dma_request_alloc(module, comm, false))) {
        if (!dma_call_empty(call, ompi_comm_size(comm))) { /* this rank's sequence numbers would not match any more */
            dma_comm_fail_call(module->comm, DMA_ERR_NOMEM);
            mca_coll_dma_progress_update(true);
        }
        return MPI_ERR_NO_MEM;
    }
    module->spare_request = NULL;
    status = dma_comm_post_in(module->comm, call, mca_coll_dma_request_complete, request, request->task, &outcome);
    if (OPAL_UNLIKELY(DMA_OK != status)) {
        module->spare_request = request;
        mca_coll_dma_progress_update(true); /* the set-up goes on, and then the peers get the error */
        return mca_coll_dma_error_class(status);
    }
    if (DMA_OK == outcome && DMA_SIZES_EQUAL == dma_coll_sizes(call->coll)) {
        module->spare_request = request;
        *result = &ompi_request_empty;
        return MPI_SUCCESS;
    }
    mca_coll_dma_request_retain_comm(request);
    *result = &request->super.super;
    if (DMA_AGAIN == outcome) {
        mca_coll_dma_progress_update(true);
    } else {
        mca_coll_dma_request_complete(request, outcome);
    }
    return MPI_SUCCESS;
}

/* Does the module below do the call? */
static inline bool goes_below(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    if (OPAL_UNLIKELY(!module->looked)) {
        mca_coll_dma_look(module, comm);
    }
    if (OPAL_LIKELY(!module->left)) {
        return false;
    }
    dma_comm_count_below(module->comm, DMA_FORM_NONBLOCKING, call->coll);
    return true;
}

/* The function of each operation. */
#define NONBLOCKING(id, text, function, name, sends, sizes, from, to)                                                  \
    int mca_coll_dma_i##function(COLL_DMA_PARAMS(from, to), ompi_request_t **request, mca_coll_base_module_t *base)    \
    {                                                                                                                  \
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;                                   \
        dma_call_t call;                                                                                               \
                                                                                                                       \
        COLL_DMA_SET(&call, id, from, to);                                                                             \
        if (OPAL_UNLIKELY(coll_dma_has_negative_count(&call, ompi_comm_size(comm)))) {                                 \
            return MPI_ERR_COUNT;                                                                                      \
        }                                                                                                              \
        if (goes_below(base, comm, &call)) {                                                                           \
            return below->i##function(COLL_DMA_ARGS(sbuf, from, rbuf, to), request, below->i##function##_module);      \
        }                                                                                                              \
        return post(base, comm, &call, request);                                                                       \
    }
DMA_COLLS(NONBLOCKING)
