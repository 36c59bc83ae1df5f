/*
 * The arguments of an MPI call in the core's terms. Inline: this is most of what a small collective pays to us, and only
 * what the core looks at is written.
 */
#ifndef COLL_DMA_BUFFER_H
#define COLL_DMA_BUFFER_H

#include "coll_dma.h"

/* Open MPI keeps both flags right through every constructor and through MPI_Type_create_resized: the elements' data
 * follow each other without a hole, whatever the bounds are, and start true_lb behind the address. */
#define COLL_DMA_DENSE (OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS)

/* `count` elements for every block. */
static inline void coll_dma_side(dma_side_t *side, const void *addr, size_t count, struct ompi_datatype_t *type)
{
    const opal_datatype_t *layout = &type->super;

    side->dense = COLL_DMA_DENSE == (layout->flags & COLL_DMA_DENSE);
    side->addr = (char *)addr + (OPAL_LIKELY(side->dense) ? layout->true_lb : 0);
    side->width = sizeof(int);
    side->size = layout->size;
    side->extent = layout->ub - layout->lb;
    side->lb = OPAL_LIKELY(side->dense) ? 0 : layout->true_lb;
    side->ub = OPAL_LIKELY(side->dense) ? (ptrdiff_t)layout->size : layout->true_ub;
    side->type = type;
    side->count = count;
    side->counts = NULL;
    side->displs = NULL;
}

/* A count and a displacement for each block. */
static inline void coll_dma_sidev(dma_side_t *side, const void *addr, dma_counts_t counts, dma_displs_t displs,
                                  struct ompi_datatype_t *type)
{
    coll_dma_side(side, addr, 0, type);
    side->width = DMA_COUNTS_WIDTH(counts);
    side->counts = DMA_COUNTS_ARRAY(counts);
    side->displs = DMA_DISPLS_ARRAY(displs);
}

/* All-gather and all-to-all. */
static inline void coll_dma_call(dma_call_t *call, dma_coll_t coll, const void *sbuf, size_t scount,
                                 struct ompi_datatype_t *stype, void *rbuf, size_t rcount,
                                 struct ompi_datatype_t *rtype)
{
    call->coll = coll;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_side(&call->recv, rbuf, rcount, rtype);
    if (!call->in_place) {
        coll_dma_side(&call->send, sbuf, scount, stype);
    }
}

static inline void coll_dma_call_allgatherv(dma_call_t *call, const void *sbuf, size_t scount,
                                            struct ompi_datatype_t *stype, void *rbuf, dma_counts_t rcounts,
                                            dma_displs_t displs, struct ompi_datatype_t *rtype)
{
    call->coll = DMA_ALLGATHERV;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_sidev(&call->recv, rbuf, rcounts, displs, rtype);
    if (!call->in_place) {
        coll_dma_side(&call->send, sbuf, scount, stype);
    }
}

/* A count that no MPI call may have. Open MPI looks itself, except into the counts of all-gather-v. */
static inline bool coll_dma_negative(const dma_side_t *side, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        if ((sizeof(int) == side->width ? ((const int *)side->counts)[r] : ((const int64_t *)side->counts)[r]) < 0) {
            return true;
        }
    }
    return false;
}

static inline void coll_dma_call_alltoallv(dma_call_t *call, const void *sbuf, dma_counts_t scounts,
                                           dma_displs_t sdispls, struct ompi_datatype_t *stype, void *rbuf,
                                           dma_counts_t rcounts, dma_displs_t rdispls, struct ompi_datatype_t *rtype)
{
    call->coll = DMA_ALLTOALLV;
    call->in_place = MPI_IN_PLACE == sbuf;
    call->note = 0;
    coll_dma_sidev(&call->recv, rbuf, rcounts, rdispls, rtype);
    if (!call->in_place) {
        coll_dma_sidev(&call->send, sbuf, scounts, sdispls, stype);
    }
}

#endif
