/*
 * Persistent calls: *_init is collective and may wait, starting is local. Each has a channel of its own, so that requests
 * are started in any order, which may differ from rank to rank.
 */
#include "buffer.h"
#include "request.h"

static dma_status_t make(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call,
                         mca_coll_dma_request_t *request)
{
    dma_status_t status = mca_coll_dma_prepare(module, comm);

    if (DMA_OK == status) {
        status = dma_channel_create(module->comm, call, mca_coll_dma_request_done, request, &request->channel);
        if (DMA_UNSUPPORTED == status && 0 == ompi_comm_rank(comm)) {
            mca_coll_dma_host.report(DMA_REPORT_WARN, "channel",
                                     "no shared memory is left for another persistent collective: the next collective "
                                     "component serves it");
        }
    }
    return status;
}

/* DMA_UNSUPPORTED: for the module below. */
static dma_status_t init(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call,
                         ompi_request_t **result)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    mca_coll_dma_request_t *request = mca_coll_dma_request_get(module, comm, true);
    dma_status_t status = DMA_OK;

    if (!request) {
        return DMA_ERR_NOMEM;
    }
    if (!dma_call_empty(call, ompi_comm_size(comm))) {
        status = make(module, comm, call, request);
    }
    if (DMA_OK != status) {
        mca_coll_dma_request_return(request);
        *result = MPI_REQUEST_NULL;
        return status;
    }
    mca_coll_dma_request_keep(request, call);
    *result = &request->super.super;
    return DMA_OK;
}

/* The addresses that the module below gets: those of host memory where the user's are device memory. */
static int bounce(ompi_communicator_t *comm, const dma_call_t *call, const void **sbuf, void **rbuf,
                  dma_bounce_t **result)
{
    dma_status_t status = dma_bounce_make(NULL, call, ompi_comm_size(comm), result);

    if (*result) {
        *sbuf = call->in_place ? *sbuf : dma_bounce_send(*result, *sbuf);
        *rbuf = dma_bounce_recv(*result, *rbuf);
    }
    return mca_coll_dma_error_class(status);
}

/* What the module below's *_init has returned. */
static int taken(int rc, mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call,
                 dma_bounce_t *b, ompi_request_t **request)
{
    if (OPAL_LIKELY(!b)) {
        return mca_coll_dma_request_adopt(rc, request, call);
    }
    if (MPI_SUCCESS != rc) {
        dma_bounce_free(b);
        return rc;
    }
    return mca_coll_dma_request_wrap((mca_coll_dma_module_t *)base, comm, call, b, request);
}

int mca_coll_dma_allgather_init(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                                dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                                struct ompi_info_t *info, ompi_request_t **request, mca_coll_base_module_t *base)
{
    mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;
    dma_call_t call = {.in_place = false};
    dma_status_t status;

    coll_dma_call(&call, DMA_ALLGATHER, sbuf, scount, stype, rbuf, rcount, rtype);
    status = init(base, comm, &call, request);
    if (DMA_UNSUPPORTED == status) {
        dma_bounce_t *b = NULL;
        int rc = bounce(comm, &call, &sbuf, &rbuf, &b);

        return MPI_SUCCESS == rc ? taken(below->allgather_init(sbuf, scount, stype, rbuf, rcount, rtype, comm, info,
                                                               request, below->allgather_init_module),
                                         base, comm, &call, b, request)
                                 : rc;
    }
    return mca_coll_dma_error_class(status);
}

int mca_coll_dma_allgatherv_init(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                                 dma_counts_t rcounts, dma_displs_t displs, struct ompi_datatype_t *rtype,
                                 struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request,
                                 mca_coll_base_module_t *base)
{
    mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;
    dma_call_t call = {.in_place = false};
    dma_status_t status;

    coll_dma_call_allgatherv(&call, sbuf, scount, stype, rbuf, rcounts, displs, rtype);
    if (OPAL_UNLIKELY(coll_dma_negative(&call.recv, ompi_comm_size(comm)))) {
        return MPI_ERR_COUNT;
    }
    status = init(base, comm, &call, request);
    if (DMA_UNSUPPORTED == status) {
        dma_bounce_t *b = NULL;
        int rc = bounce(comm, &call, &sbuf, &rbuf, &b);

        return MPI_SUCCESS == rc ? taken(below->allgatherv_init(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm,
                                                                info, request, below->allgatherv_init_module),
                                         base, comm, &call, b, request)
                                 : rc;
    }
    return mca_coll_dma_error_class(status);
}

int mca_coll_dma_alltoall_init(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                               dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                               struct ompi_info_t *info, ompi_request_t **request, mca_coll_base_module_t *base)
{
    mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;
    dma_call_t call = {.in_place = false};
    dma_status_t status;

    coll_dma_call(&call, DMA_ALLTOALL, sbuf, scount, stype, rbuf, rcount, rtype);
    status = init(base, comm, &call, request);
    if (DMA_UNSUPPORTED == status) {
        dma_bounce_t *b = NULL;
        int rc = bounce(comm, &call, &sbuf, &rbuf, &b);

        return MPI_SUCCESS == rc ? taken(below->alltoall_init(sbuf, scount, stype, rbuf, rcount, rtype, comm, info,
                                                              request, below->alltoall_init_module),
                                         base, comm, &call, b, request)
                                 : rc;
    }
    return mca_coll_dma_error_class(status);
}

int mca_coll_dma_alltoallv_init(const void *sbuf, dma_counts_t scounts, dma_displs_t sdispls,
                                struct ompi_datatype_t *stype, void *rbuf, dma_counts_t rcounts, dma_displs_t rdispls,
                                struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                                struct ompi_info_t *info, ompi_request_t **request, mca_coll_base_module_t *base)
{
    mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;
    dma_call_t call = {.in_place = false};
    dma_status_t status;

    coll_dma_call_alltoallv(&call, sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype);
    status = init(base, comm, &call, request);
    if (DMA_UNSUPPORTED == status) {
        dma_bounce_t *b = NULL;
        int rc = bounce(comm, &call, &sbuf, &rbuf, &b);

        return MPI_SUCCESS == rc
                   ? taken(below->alltoallv_init(sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype, comm,
                                                 info, request, below->alltoallv_init_module),
                           base, comm, &call, b, request)
                   : rc;
    }
    return mca_coll_dma_error_class(status);
}
