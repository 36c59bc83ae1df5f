/*
 * Calls that go to the module below: it must not see device memory, which it would touch as if it were the host's.
 */
#ifndef COLL_DMA_BOUNCE_H
#define COLL_DMA_BOUNCE_H

#include "coll_dma.h"

/* Before: takes the place of sbuf and rbuf if they are device memory. *bounce NULL: they are not. */
static inline dma_status_t coll_dma_bounce(mca_coll_dma_module_t *module, const dma_call_t *call, const void **sbuf,
                                           void **rbuf, dma_bounce_t **bounce)
{
    dma_status_t status = dma_bounce_make(module->comm, call, bounce);

    if (OPAL_LIKELY(DMA_OK != status || !*bounce)) {
        return status;
    }
    status = dma_bounce_in(*bounce);
    if (DMA_OK != status) {
        dma_bounce_free(*bounce);
        *bounce = NULL;
        return status;
    }
    if (!call->in_place) {
        *sbuf = dma_bounce_send(*bounce, *sbuf);
    }
    *rbuf = dma_bounce_recv(*bounce, *rbuf);
    return DMA_OK;
}

/* After a blocking call that has returned `rc`. */
static inline int coll_dma_bounced(int rc, dma_bounce_t *bounce)
{
    dma_status_t status;

    if (OPAL_LIKELY(!bounce)) {
        return rc;
    }
    status = dma_bounce_out(bounce);
    dma_bounce_free(bounce);
    return MPI_SUCCESS != rc ? rc : mca_coll_dma_error_class(status);
}

#endif
