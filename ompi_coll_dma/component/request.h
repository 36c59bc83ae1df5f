/*
 * Requests of non-blocking and persistent calls.
 *
 * A call that ends while it is posted needs no request: the user gets Open MPI's empty one, and ours is the next call's.
 *
 * A request keeps its communicator and its module from the call until it is freed, which for a non-blocking call is when
 * the user has seen its completion: a communicator may be freed meanwhile, and nobody takes it apart inside a progress
 * callback. Datatypes are kept by Open MPI for a non-blocking call, in the part of a request that all collective components
 * inherit; by us for a persistent one, since Open MPI (all of 4.1, 5.0, 6.0) does not, and not there, where 6.0 releases what
 * it finds at the first completion.
 */
#ifndef COLL_DMA_REQUEST_H
#define COLL_DMA_REQUEST_H

#include "coll_dma.h"

typedef struct mca_coll_dma_request {
    ompi_coll_base_nbc_request_t super;

    mca_coll_dma_module_t *module;
    dma_channel_t *channel;                             /* of a persistent call; NULL if it has nothing to move */
    opal_object_t *types[2];                            /* that it keeps; NULL: none */
    _Alignas(DMA_TASK_ALIGN) char task[DMA_TASK_BYTES]; /* of a non-blocking call */
} mca_coll_dma_request_t;

OBJ_CLASS_DECLARATION(mca_coll_dma_request_t);

/* One that keeps nothing yet, which will do as long as the user's call lasts. NULL: no memory. */
mca_coll_dma_request_t *mca_coll_dma_request_get(mca_coll_dma_module_t *module, ompi_communicator_t *comm,
                                                 bool persistent);
/* Before the user gets it: keeps communicator and module. */
void mca_coll_dma_request_hold(mca_coll_dma_request_t *request);
/* Gives a request back that keeps nothing. */
void mca_coll_dma_request_drop(mca_coll_dma_request_t *request);
/* Gives a request back that is not under way, and lets go of all it keeps. */
void mca_coll_dma_request_return(mca_coll_dma_request_t *request);
/* Keeps the datatypes of a persistent call. */
void mca_coll_dma_request_keep(mca_coll_dma_request_t *request, const dma_call_t *call);
/* A dma_done_t: completes request `arg`. */
void mca_coll_dma_request_done(void *arg, dma_status_t status);

#endif
