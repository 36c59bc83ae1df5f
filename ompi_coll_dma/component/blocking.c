/*
 * Blocking calls.
 *
 * Where the ranks have agreed that coll/dma does not serve the communicator, the module below does the call. It also does the
 * first calls of a communicator over several nodes (core/first.c). That module must not see device memory, which it would access
 * like host memory. So it gets host memory in place of buffers in device memory (dma_bounce_t).
 */
#include "buffer.h"

/* A call that the module below does. */
typedef struct fallback {
    const void *sbuf; /* what the module gets as buffers */
    void *rbuf;
    dma_bounce_t *bounce; /* NULL: no buffer is in device memory */
} fallback_t;

/* A call of a communicator that is not set up, or not served. */
static dma_status_t run_unready(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call)
{
    dma_status_t status;

    if (COLL_DMA_DECLINED == module->state) {
        return DMA_UNSUPPORTED;
    }
    if (dma_call_empty(call, ompi_comm_size(comm))) {
        return DMA_OK;
    }
    status = mca_coll_dma_comm_open(module, comm);
    if (DMA_OK == status && dma_comm_begin_first(module->comm, call)) {
        return DMA_UNSUPPORTED;
    }
    status = mca_coll_dma_comm_setup(module, comm);
    return DMA_OK == status ? dma_comm_run(module->comm, call) : status;
}

/* The send buffer is not replaced if the call is in place. */
static dma_status_t begin_fallback(mca_coll_dma_module_t *module, const dma_call_t *call, fallback_t *fallback)
{
    dma_status_t status = dma_bounce_make(module->comm, call, &fallback->bounce);

    if (DMA_OK != status || !fallback->bounce) {
        return status;
    }
    status = dma_bounce_in(fallback->bounce);
    if (DMA_OK != status) {
        dma_bounce_free(fallback->bounce);
        return status;
    }
    if (!call->in_place) {
        fallback->sbuf = dma_bounce_send(fallback->bounce, fallback->sbuf);
    }
    fallback->rbuf = dma_bounce_recv(fallback->bounce, fallback->rbuf);
    return DMA_OK;
}

/* After the module below has returned `rc`. */
static int end_fallback(const mca_coll_dma_module_t *module, fallback_t *fallback, int rc)
{
    dma_status_t status;

    dma_comm_end_first(module->comm);
    if (OPAL_LIKELY(!fallback->bounce)) {
        return rc;
    }
    status = dma_bounce_out(fallback->bounce);
    dma_bounce_free(fallback->bounce);
    return MPI_SUCCESS != rc ? rc : mca_coll_dma_error_class(status);
}

/* True: the call has ended with *rc. False: the module below has to do it, with the buffers in *fallback, and then
 * end_fallback has to be called. */
static inline bool run(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call,
                       fallback_t *fallback, int *rc)
{
    dma_status_t status = OPAL_LIKELY(COLL_DMA_READY == module->state) ? dma_comm_run(module->comm, call)
                                                                       : run_unready(module, comm, call);

    if (OPAL_LIKELY(DMA_OK == status)) {
        *rc = MPI_SUCCESS;
        return true;
    }
    if (DMA_UNSUPPORTED == status && DMA_OK == (status = begin_fallback(module, call, fallback))) {
        dma_comm_count_below(module->comm, DMA_FORM_BLOCKING, call->coll);
        if (OPAL_UNLIKELY(fallback->bounce || mca_coll_dma_component.params.verbose > 0)) {
            mca_coll_dma_report_first(module, comm, fallback->bounce);
        }
        return false;
    }
    *rc = mca_coll_dma_error_class(status);
    return true;
}

/* The function of each operation. */
#define BLOCKING(id, text, function, name, sends, sizes, from, to)                                                     \
    int mca_coll_dma_##function(COLL_DMA_PARAMS(from, to), mca_coll_base_module_t *base)                               \
    {                                                                                                                  \
        mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;                                                 \
        fallback_t fallback = {.sbuf = sbuf, .rbuf = rbuf};                                                            \
        dma_call_t call;                                                                                               \
        int rc;                                                                                                        \
                                                                                                                       \
        COLL_DMA_SET(&call, id, from, to);                                                                             \
        if (OPAL_UNLIKELY(coll_dma_has_negative_count(&call, ompi_comm_size(comm)))) {                                 \
            return MPI_ERR_COUNT;                                                                                      \
        }                                                                                                              \
        if (OPAL_LIKELY(run(module, comm, &call, &fallback, &rc))) {                                                   \
            return rc;                                                                                                 \
        }                                                                                                              \
        rc = module->below.function(COLL_DMA_ARGS(fallback.sbuf, from, fallback.rbuf, to),                             \
                                    module->below.function##_module);                                                  \
        return end_fallback(module, &fallback, rc);                                                                    \
    }
DMA_COLLS(BLOCKING)
