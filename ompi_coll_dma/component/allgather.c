/*
 * MPI_Allgather.
 */
#include "buffer.h"

int mca_coll_dma_allgather(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                           dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                           mca_coll_base_module_t *base)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    dma_buffer_t send, recv;
    dma_status_t status;

    if (OPAL_UNLIKELY(COLL_DMA_READY != module->state)) {
        if (COLL_DMA_ASIDE == module->state) {
            goto below;
        }
        /* Types without data: equal on all ranks, and no reason to set anything up. */
        if (0 == coll_dma_bytes(rcount, rtype)) {
            return MPI_SUCCESS;
        }
        status = mca_coll_dma_prepare(module, comm);
        if (DMA_UNSUPPORTED == status) {
            goto below;
        }
        if (DMA_OK != status) {
            return mca_coll_dma_error_class(status);
        }
    }

    coll_dma_buffer(&recv, rbuf, rcount, rtype);
    if (OPAL_UNLIKELY(0 == recv.bytes)) {
        return MPI_SUCCESS;
    }
    if (MPI_IN_PLACE == sbuf) {
        status = dma_comm_allgather(module->comm, NULL, &recv);
    } else {
        coll_dma_buffer(&send, sbuf, scount, stype);
        status = dma_comm_allgather(module->comm, &send, &recv);
    }
    return OPAL_LIKELY(DMA_OK == status) ? MPI_SUCCESS : mca_coll_dma_error_class(status);

below:
    return module->below_allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm, module->below_allgather_module);
}
