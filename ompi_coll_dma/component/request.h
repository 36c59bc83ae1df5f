/*
 * Requests of non-blocking and persistent calls.
 *
 * A call that ends while it is posted needs no request: the user gets Open MPI's empty request, and the request that was
 * allocated is kept for the next call (mca_coll_dma_module_t.spare_request).
 *
 * A request holds references to its communicator and its module from the call until it is freed. A non-blocking request
 * is freed when the user has seen its completion. So the user may free the communicator before that, and the
 * communicator is never destroyed inside a progress callback.
 *
 * For a non-blocking call Open MPI holds references to the datatypes, in the base class ompi_coll_base_nbc_request_t.
 * For a persistent call Open MPI (4.1, 5.0 and 6.0) holds none, so our request holds them, for the datatypes in
 * its channel. It cannot keep them in the base class, because Open MPI 6.0 releases the references there at the first completion.
 */
#ifndef COLL_DMA_REQUEST_H
#define COLL_DMA_REQUEST_H

#include "coll_dma.h"

typedef struct mca_coll_dma_request {
    ompi_coll_base_nbc_request_t super;

    mca_coll_dma_module_t *module;
    dma_channel_t *channel;                             /* of a persistent call; NULL if no data is to be moved */
    const struct dma_app_stream *in_stream;             /* of a persistent call: which has its starts; or NULL */
    _Alignas(DMA_TASK_ALIGN) char task[DMA_TASK_BYTES]; /* of a non-blocking call */
} mca_coll_dma_request_t;

OBJ_CLASS_DECLARATION(mca_coll_dma_request_t);

bool mca_coll_dma_request_is_ours(const ompi_request_t *request);
/* Holds no references yet: the caller's MPI call keeps communicator and module alive. NULL: no memory. */
mca_coll_dma_request_t *mca_coll_dma_request_alloc(mca_coll_dma_module_t *module, ompi_communicator_t *comm,
                                                   bool persistent);
/* Adds references to communicator and module, before the user gets the request. */
void mca_coll_dma_request_retain_comm(mca_coll_dma_request_t *request);
/* Frees a request that holds no references. */
void mca_coll_dma_request_discard(mca_coll_dma_request_t *request);
/* Adds references to the datatypes of a persistent call, which has its channel. */
void mca_coll_dma_request_retain_types(mca_coll_dma_request_t *request);
/* A dma_done_t: completes the request `arg`. */
void mca_coll_dma_request_complete(void *arg, dma_status_t status);

#endif
