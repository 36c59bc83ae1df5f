/*
 * Blocking calls.
 */
#include "bounce.h"
#include "buffer.h"

/* A call that finds the communicator not READY: the first one, or one of a communicator that is not served. */
static dma_status_t first_run(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call)
{
    dma_status_t status;

    if (COLL_DMA_ASIDE == module->state) {
        return DMA_UNSUPPORTED;
    }
    if (dma_call_empty(call, ompi_comm_size(comm))) {
        return DMA_OK;
    }
    status = mca_coll_dma_prepare(module, comm);
    return DMA_OK == status ? dma_comm_run(module->comm, call) : status;
}

/* DMA_UNSUPPORTED: for the module below. */
static inline dma_status_t run(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call)
{
    return OPAL_LIKELY(COLL_DMA_READY == module->state) ? dma_comm_run(module->comm, call)
                                                        : first_run(module, comm, call);
}

static inline int outcome(dma_status_t status)
{
    return OPAL_LIKELY(DMA_OK == status) ? MPI_SUCCESS : mca_coll_dma_error_class(status);
}

int mca_coll_dma_allgather(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                           dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                           mca_coll_base_module_t *base)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    dma_bounce_t *bounce = NULL;
    dma_status_t status;
    dma_call_t call;

    coll_dma_call(&call, DMA_ALLGATHER, sbuf, scount, stype, rbuf, rcount, rtype);
    status = run(module, comm, &call);
    if (OPAL_UNLIKELY(DMA_UNSUPPORTED == status)) {
        status = coll_dma_bounce(module, &call, &sbuf, &rbuf, &bounce);
        if (OPAL_UNLIKELY(DMA_OK != status)) {
            return mca_coll_dma_error_class(status);
        }
        return coll_dma_bounced(
            module->below.allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, module->below.allgather_module),
            bounce);
    }
    return outcome(status);
}

int mca_coll_dma_allgatherv(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                            dma_counts_t rcounts, dma_displs_t displs, struct ompi_datatype_t *rtype,
                            struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    dma_bounce_t *bounce = NULL;
    dma_status_t status;
    dma_call_t call;

    coll_dma_call_allgatherv(&call, sbuf, scount, stype, rbuf, rcounts, displs, rtype);
    if (OPAL_UNLIKELY(coll_dma_negative(&call.recv, ompi_comm_size(comm)))) {
        return MPI_ERR_COUNT;
    }
    status = run(module, comm, &call);
    if (OPAL_UNLIKELY(DMA_UNSUPPORTED == status)) {
        status = coll_dma_bounce(module, &call, &sbuf, &rbuf, &bounce);
        if (OPAL_UNLIKELY(DMA_OK != status)) {
            return mca_coll_dma_error_class(status);
        }
        return coll_dma_bounced(module->below.allgatherv(sbuf, scount, stype, rbuf, rcounts, displs, rtype, comm,
                                                         module->below.allgatherv_module),
                                bounce);
    }
    return outcome(status);
}

int mca_coll_dma_alltoall(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                          dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    dma_bounce_t *bounce = NULL;
    dma_status_t status;
    dma_call_t call;

    coll_dma_call(&call, DMA_ALLTOALL, sbuf, scount, stype, rbuf, rcount, rtype);
    status = run(module, comm, &call);
    if (OPAL_UNLIKELY(DMA_UNSUPPORTED == status)) {
        status = coll_dma_bounce(module, &call, &sbuf, &rbuf, &bounce);
        if (OPAL_UNLIKELY(DMA_OK != status)) {
            return mca_coll_dma_error_class(status);
        }
        return coll_dma_bounced(
            module->below.alltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm, module->below.alltoall_module),
            bounce);
    }
    return outcome(status);
}

int mca_coll_dma_alltoallv(const void *sbuf, dma_counts_t scounts, dma_displs_t sdispls, struct ompi_datatype_t *stype,
                           void *rbuf, dma_counts_t rcounts, dma_displs_t rdispls, struct ompi_datatype_t *rtype,
                           struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    dma_bounce_t *bounce = NULL;
    dma_status_t status;
    dma_call_t call;

    coll_dma_call_alltoallv(&call, sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype);
    status = run(module, comm, &call);
    if (OPAL_UNLIKELY(DMA_UNSUPPORTED == status)) {
        status = coll_dma_bounce(module, &call, &sbuf, &rbuf, &bounce);
        if (OPAL_UNLIKELY(DMA_OK != status)) {
            return mca_coll_dma_error_class(status);
        }
        return coll_dma_bounced(module->below.alltoallv(sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype,
                                                        comm, module->below.alltoallv_module),
                                bounce);
    }
    return outcome(status);
}
