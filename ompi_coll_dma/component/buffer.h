/*
 * Translates the arguments of an MPI call into a dma_call_t. The functions are inline and write only the members that the core
 * reads, because they are most of the time that a small collective spends in the component.
 */
#ifndef COLL_DMA_BUFFER_H
#define COLL_DMA_BUFFER_H

#include "coll_dma.h"

/* With both flags, the data of consecutive elements has no gaps, whatever the bounds of the type are. It begins true_lb
 * after the address. Open MPI keeps both flags correct in all type constructors and in MPI_Type_create_resized. */
#define COLL_DMA_DENSE (OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS)

/* A side with `count` elements in every block. */
static inline void coll_dma_set_side(dma_side_t *side, const void *addr, size_t count, struct ompi_datatype_t *type)
{
    const opal_datatype_t *opal = &type->super;

    side->dense = COLL_DMA_DENSE == (opal->flags & COLL_DMA_DENSE);
    side->addr = (char *)addr + (OPAL_LIKELY(side->dense) ? opal->true_lb : 0);
    side->width = sizeof(int);
    side->size = opal->size;
    side->extent = opal->ub - opal->lb;
    side->lb = OPAL_LIKELY(side->dense) ? 0 : opal->true_lb;
    side->ub = OPAL_LIKELY(side->dense) ? (ptrdiff_t)opal->size : opal->true_ub;
    side->type = type;
    side->count = count;
    side->counts = NULL;
    side->displs = NULL;
}

/* A side with a count and a displacement for each block. */
static inline void coll_dma_set_side_v(dma_side_t *side, const void *addr, dma_counts_t counts, dma_displs_t displs,
                                       struct ompi_datatype_t *type)
{
    coll_dma_set_side(side, addr, 0, type);
    side->width = DMA_COUNTS_WIDTH(counts);
    side->counts = DMA_COUNTS_ARRAY(counts);
    side->displs = DMA_DISPLS_ARRAY(displs);
}

/* An all-gather or all-to-all. */
static inline void coll_dma_set_call(dma_call_t *call, dma_coll_t coll, const void *sbuf, size_t scount,
                                     struct ompi_datatype_t *stype, void *rbuf, size_t rcount,
                                     struct ompi_datatype_t *rtype)
{
    call->coll = coll;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_set_side(&call->recv, rbuf, rcount, rtype);
    if (!call->in_place) {
        coll_dma_set_side(&call->send, sbuf, scount, stype);
    }
}

static inline void coll_dma_set_call_allgatherv(dma_call_t *call, const void *sbuf, size_t scount,
                                                struct ompi_datatype_t *stype, void *rbuf, dma_counts_t rcounts,
                                                dma_displs_t displs, struct ompi_datatype_t *rtype)
{
    call->coll = DMA_ALLGATHERV;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_set_side_v(&call->recv, rbuf, rcounts, displs, rtype);
    if (!call->in_place) {
        coll_dma_set_side(&call->send, sbuf, scount, stype);
    }
}

/* Open MPI checks counts itself, except those of MPI_Allgatherv and its variants. */
static inline bool coll_dma_has_negative_count(const dma_side_t *side, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        if ((sizeof(int) == side->width ? ((const int *)side->counts)[r] : ((const int64_t *)side->counts)[r]) < 0) {
            return true;
        }
    }
    return false;
}

static inline void coll_dma_set_call_alltoallv(dma_call_t *call, const void *sbuf, dma_counts_t scounts,
                                               dma_displs_t sdispls, struct ompi_datatype_t *stype, void *rbuf,
                                               dma_counts_t rcounts, dma_displs_t rdispls,
                                               struct ompi_datatype_t *rtype)
{
    call->coll = DMA_ALLTOALLV;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_set_side_v(&call->recv, rbuf, rcounts, rdispls, rtype);
    if (!call->in_place) {
        coll_dma_set_side_v(&call->send, sbuf, scounts, sdispls, stype);
    }
}

#endif
