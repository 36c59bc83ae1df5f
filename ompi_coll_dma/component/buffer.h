/*
 * The buffers of an MPI call in the core's terms. Inline: this is most of what a small collective pays to us.
 */
#ifndef COLL_DMA_BUFFER_H
#define COLL_DMA_BUFFER_H

#include "coll_dma.h"

/* Open MPI keeps both flags right through every constructor and through MPI_Type_create_resized: the elements' data
 * follow each other without a hole, whatever the bounds are, and start true_lb behind the address. */
#define COLL_DMA_DENSE (OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS)

static inline size_t coll_dma_bytes(size_t count, const struct ompi_datatype_t *type)
{
    return count * type->super.size;
}

static inline void coll_dma_buffer(dma_buffer_t *buffer, const void *addr, size_t count, struct ompi_datatype_t *type)
{
    const opal_datatype_t *layout = &type->super;

    buffer->contiguous = COLL_DMA_DENSE == (layout->flags & COLL_DMA_DENSE);
    buffer->addr = (char *)addr + (OPAL_LIKELY(buffer->contiguous) ? layout->true_lb : 0);
    buffer->bytes = coll_dma_bytes(count, type);
    buffer->count = count;
    buffer->type = type;
    buffer->extent = (ptrdiff_t)count * (layout->ub - layout->lb);
}

#endif
