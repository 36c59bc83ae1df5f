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

/* The elements of a side at `addr`. */
static inline void coll_dma_set_elements(dma_side_t *side, const void *addr, struct ompi_datatype_t *type)
{
    const opal_datatype_t *opal = &type->super;

    side->dense = COLL_DMA_DENSE == (opal->flags & COLL_DMA_DENSE);
    side->addr = (char *)addr + (OPAL_LIKELY(side->dense) ? opal->true_lb : 0);
    side->size = opal->size;
    side->extent = opal->ub - opal->lb;
    side->lb = OPAL_LIKELY(side->dense) ? 0 : opal->true_lb;
    side->ub = OPAL_LIKELY(side->dense) ? (ptrdiff_t)opal->size : opal->true_ub;
    side->type = type;
}

/* A side with `count` elements in every block. */
static inline void coll_dma_set_side(dma_side_t *side, const void *addr, size_t count, struct ompi_datatype_t *type)
{
    coll_dma_set_elements(side, addr, type);
    side->width = sizeof(int);
    side->count = count;
    side->counts = NULL;
    side->displs = NULL;
    side->in_bytes = false;
    side->types = NULL;
}

static inline int64_t coll_dma_count(const dma_side_t *side, int r)
{
    return sizeof(int) == side->width ? ((const int *)side->counts)[r] : ((const int64_t *)side->counts)[r];
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

/* A side with a datatype for each block, too. If all that are not empty have the same, it is a side of that datatype. */
static inline void coll_dma_set_side_w(dma_side_t *side, const void *addr, dma_counts_t counts, dma_displs_t displs,
                                       struct ompi_datatype_t *const *types, int nranks)
{
    struct ompi_datatype_t *first = NULL;
    bool same = true, dense = true;

    coll_dma_set_side_v(side, addr, counts, displs, types[0]);
    side->in_bytes = true;
    for (int r = 0; r < nranks; r++) {
        if (coll_dma_count(side, r)) {
            first = first ? first : types[r];
            same = same && types[r] == first;
            dense = dense && (!types[r]->super.size || COLL_DMA_DENSE == (types[r]->super.flags & COLL_DMA_DENSE));
        }
    }
    if (first) {
        coll_dma_set_elements(side, addr, first);
    }
    if (!same) {
        side->addr = (char *)addr;
        side->dense = dense;
        side->types = (void *const *)types;
    }
}

/* Open MPI checks counts itself, except those of MPI_Allgatherv and its variants, which every rank knows. */
static inline bool coll_dma_has_negative_count(const dma_call_t *call, int nranks)
{
    const dma_side_t *side = &call->recv;

    if (DMA_SIZES_SHARED != dma_coll_sizes(call->coll)) {
        return false;
    }
    for (int r = 0; r < nranks; r++) {
        if (coll_dma_count(side, r) < 0) {
            return true;
        }
    }
    return false;
}

/*
 * The arguments of a side, as the columns `from` and `to` of DMA_COLLS name them. `x` is s for the send side and r for the receive
 * side. PARAMS declares them behind the buffer; ARGS passes them on; SET fills a side.
 */
#define COLL_DMA_PARAMS_N(x)          dma_count_t x##count, struct ompi_datatype_t *x##type
#define COLL_DMA_ARGS_N(x)            x##count, x##type
#define COLL_DMA_SET_N(x, side, comm) coll_dma_set_side(side, x##buf, x##count, x##type)

#define COLL_DMA_PARAMS_V(x)          dma_counts_t x##counts, dma_displs_t x##displs, struct ompi_datatype_t *x##type
#define COLL_DMA_ARGS_V(x)            x##counts, x##displs, x##type
#define COLL_DMA_SET_V(x, side, comm) coll_dma_set_side_v(side, x##buf, x##counts, x##displs, x##type)

#define COLL_DMA_PARAMS_W(x) dma_counts_t x##counts, dma_displs_t x##displs, struct ompi_datatype_t *const *x##types
#define COLL_DMA_ARGS_W(x)   x##counts, x##displs, x##types
#define COLL_DMA_SET_W(x, side, comm)                                                                                  \
    coll_dma_set_side_w(side, x##buf, x##counts, x##displs, x##types, ompi_comm_size(comm))

/* The same for both sides of a call. */
#define COLL_DMA_PARAMS(from, to)                                                                                      \
    const void *sbuf, COLL_DMA_PARAMS_##from(s), void *rbuf, COLL_DMA_PARAMS_##to(r), struct ompi_communicator_t *comm
#define COLL_DMA_ARGS(send, from, recv, to) send, COLL_DMA_ARGS_##from(s), recv, COLL_DMA_ARGS_##to(r), comm
#define COLL_DMA_SET(call, id, from, to)                                                                               \
    do {                                                                                                               \
        (call)->coll = DMA_##id;                                                                                       \
        (call)->in_place = MPI_IN_PLACE == sbuf;                                                                       \
        (call)->note = 0;                                                                                              \
        COLL_DMA_SET_##to(r, &(call)->recv, comm);                                                                     \
        if (!(call)->in_place) {                                                                                       \
            COLL_DMA_SET_##from(s, &(call)->send, comm);                                                               \
        }                                                                                                              \
    } while (0)

#endif
