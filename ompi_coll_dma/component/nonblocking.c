/*
 * Non-blocking calls. They never wait, not even for the set-up, and never go to the module below: by the time a rank
 * knows that its communicator is not served, others may have posted further calls. The core does such calls by messages.
 */
#include "buffer.h"
#include "request.h"

/* `empty`: the user may get Open MPI's empty request for a call that has ended already. Not where Open MPI, from 5.0 on,
 * may hang arrays of its own on the request. */
static int post(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call, bool empty,
                ompi_request_t **result)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    mca_coll_dma_request_t *request = module->spare;
    dma_status_t status = mca_coll_dma_open(module, comm), outcome;

    *result = MPI_REQUEST_NULL;
    if (OPAL_UNLIKELY(DMA_OK != status)) {
        return mca_coll_dma_error_class(status);
    }
    if (!request && !(request = mca_coll_dma_request_get(module, comm, false))) {
        if (!dma_call_empty(call, ompi_comm_size(comm))) { /* the others' calls have a number more */
            dma_comm_lose(module->comm, DMA_ERR_NOMEM);
            mca_coll_dma_poll(true);
        }
        return MPI_ERR_NO_MEM;
    }
    module->spare = NULL;
    status = dma_comm_post_in(module->comm, call, mca_coll_dma_request_done, request, request->task, &outcome);
    if (OPAL_UNLIKELY(DMA_OK != status)) {
        module->spare = request;
        mca_coll_dma_poll(true); /* the peers learn of it when the set-up has ended */
        return mca_coll_dma_error_class(status);
    }
    if (DMA_OK == outcome && empty) {
        module->spare = request;
        *result = &ompi_request_empty;
        return MPI_SUCCESS;
    }
    mca_coll_dma_request_hold(request);
    *result = &request->super.super;
    if (DMA_AGAIN == outcome) {
        mca_coll_dma_poll(true);
    } else {
        mca_coll_dma_request_done(request, outcome);
    }
    return MPI_SUCCESS;
}

int mca_coll_dma_iallgather(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                            dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                            ompi_request_t **request, mca_coll_base_module_t *module)
{
    dma_call_t call;

    coll_dma_call(&call, DMA_ALLGATHER, sbuf, scount, stype, rbuf, rcount, rtype);
    return post(module, comm, &call, true, request);
}

int mca_coll_dma_iallgatherv(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                             dma_counts_t rcounts, dma_displs_t displs, struct ompi_datatype_t *rtype,
                             struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
    dma_call_t call;

    coll_dma_call_allgatherv(&call, sbuf, scount, stype, rbuf, rcounts, displs, rtype);
    if (OPAL_UNLIKELY(coll_dma_negative(&call.recv, ompi_comm_size(comm)))) {
        return MPI_ERR_COUNT;
    }
    return post(module, comm, &call, false, request);
}

int mca_coll_dma_ialltoall(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                           dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                           ompi_request_t **request, mca_coll_base_module_t *module)
{
    dma_call_t call;

    coll_dma_call(&call, DMA_ALLTOALL, sbuf, scount, stype, rbuf, rcount, rtype);
    return post(module, comm, &call, true, request);
}

int mca_coll_dma_ialltoallv(const void *sbuf, dma_counts_t scounts, dma_displs_t sdispls, struct ompi_datatype_t *stype,
                            void *rbuf, dma_counts_t rcounts, dma_displs_t rdispls, struct ompi_datatype_t *rtype,
                            struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
    dma_call_t call;

    coll_dma_call_alltoallv(&call, sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype);
    return post(module, comm, &call, false, request);
}
