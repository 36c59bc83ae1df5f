/*
 * Non-blocking calls. They never wait, not even for the set-up, and do not go to the module below after a set-up: when a rank
 * learns that its communicator is not served, other ranks may have posted further calls. On such a communicator the core does the
 * calls by messages. They go to the module below if a rank has not loaded coll/dma, which is found out before the first one.
 */
#include "buffer.h"
#include "request.h"

/* `empty`: the user may get Open MPI's empty request for a call that has already ended. This is false for calls with arrays of
 * counts, because Open MPI, from 5.0 on, may attach arrays to the request. */
static int post(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call, bool empty,
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
    if (DMA_OK == outcome && empty) {
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

int mca_coll_dma_iallgather(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                            dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                            ompi_request_t **request, mca_coll_base_module_t *base)
{
    dma_call_t call;

    coll_dma_set_call(&call, DMA_ALLGATHER, sbuf, scount, stype, rbuf, rcount, rtype);
    if (goes_below(base, comm, &call)) {
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;

        return below->iallgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, request, below->iallgather_module);
    }
    return post(base, comm, &call, true, request);
}

int mca_coll_dma_iallgatherv(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                             dma_counts_t rcounts, dma_displs_t displs, struct ompi_datatype_t *rtype,
                             struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *base)
{
    dma_call_t call;

    coll_dma_set_call_allgatherv(&call, sbuf, scount, stype, rbuf, rcounts, displs, rtype);
    if (OPAL_UNLIKELY(coll_dma_has_negative_count(&call.recv, ompi_comm_size(comm)))) {
        return MPI_ERR_COUNT;
    }
    if (goes_below(base, comm, &call)) {
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;

        return below->iallgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm, request,
                                  below->iallgatherv_module);
    }
    return post(base, comm, &call, false, request);
}

int mca_coll_dma_ialltoall(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                           dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                           ompi_request_t **request, mca_coll_base_module_t *base)
{
    dma_call_t call;

    coll_dma_set_call(&call, DMA_ALLTOALL, sbuf, scount, stype, rbuf, rcount, rtype);
    if (goes_below(base, comm, &call)) {
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;

        return below->ialltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm, request, below->ialltoall_module);
    }
    return post(base, comm, &call, true, request);
}

int mca_coll_dma_ialltoallv(const void *sbuf, dma_counts_t scounts, dma_displs_t sdispls, struct ompi_datatype_t *stype,
                            void *rbuf, dma_counts_t rcounts, dma_displs_t rdispls, struct ompi_datatype_t *rtype,
                            struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *base)
{
    dma_call_t call;

    coll_dma_set_call_alltoallv(&call, sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype);
    if (goes_below(base, comm, &call)) {
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;

        return below->ialltoallv(sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype, comm, request,
                                 below->ialltoallv_module);
    }
    return post(base, comm, &call, false, request);
}
