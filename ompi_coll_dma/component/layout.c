/*
 * Regular layouts of datatypes, out of Open MPI's descriptions of them.
 *
 * A description is a list: blocks (`count` times `blocklen` basic elements, `extent` apart, from `disp` on), and loops
 * around such lists. MPI_Type_vector and what is made of it in turn are blocks within loops. Whatever does not read like
 * that has no layout for us, and what has been read must have the size and the bounds that Open MPI says.
 */
#include "coll_dma.h"

/* A new level around what has been read. */
static bool wrap(dma_rows_t *l, uint64_t n, ptrdiff_t stride)
{
    if (n == 1) {
        return true;
    }
    if (!n || l->levels == DMA_ROWS_LEVELS) {
        return false;
    }
    l->level[l->levels++] = (dma_level_t){.n = n, .stride = stride};
    return true;
}

/* What comes behind something may continue it: the bytes of a single row, or the next rows. */
static bool join(dma_rows_t *l, const dma_rows_t *next)
{
    ptrdiff_t ahead = next->first - l->first;
    dma_level_t *rows = &l->level[0];

    if (!l->levels && !next->levels && ahead == (ptrdiff_t)l->row) {
        l->row += next->row;
        return true;
    }
    if (l->row != next->row || l->levels > 1 || next->levels > 1) {
        return false;
    }
    if (!l->levels) {
        *rows = (dma_level_t){.n = 1, .stride = ahead};
        l->levels = 1;
    }
    if (ahead != (ptrdiff_t)rows->n * rows->stride || (next->levels && next->level[0].stride != rows->stride)) {
        return false;
    }
    rows->n += next->levels ? next->level[0].n : 1;
    return true;
}

static bool read_list(const dt_elem_desc_t *list, size_t n, dma_rows_t *l);

/* One block or one loop; *used: entries of the list. */
static bool read_one(const dt_elem_desc_t *at, size_t left, dma_rows_t *l, size_t *used)
{
    const ddt_elem_desc_t *e = &at->elem;

    if (OPAL_DATATYPE_LOOP == e->common.type) {
        *used = (size_t)at->loop.items + 1;
        return *used <= left && read_list(at + 1, at->loop.items - 1, l) && wrap(l, at->loop.loops, at->loop.extent);
    }
    *used = 1;
    if (!(e->common.flags & OPAL_DATATYPE_FLAG_DATA) || e->common.type >= OPAL_DATATYPE_MAX_PREDEFINED) {
        return false;
    }
    *l = (dma_rows_t){.first = e->disp,
                      .row = (uint64_t)e->blocklen * opal_datatype_basicDatatypes[e->common.type]->size};
    return wrap(l, e->count, e->extent);
}

static bool read_list(const dt_elem_desc_t *list, size_t n, dma_rows_t *l)
{
    size_t used;

    if (!n || !read_one(list, n, l, &used)) {
        return false;
    }
    for (size_t i = used; i < n; i += used) {
        dma_rows_t next;

        if (!read_one(list + i, n - i, &next, &used) || !join(l, &next)) {
            return false;
        }
    }
    return true;
}

/* Does what has been read cover what Open MPI says the type does? */
static bool is_whole(const dma_rows_t *l, const opal_datatype_t *type)
{
    ptrdiff_t low = l->first, high = l->first + (ptrdiff_t)l->row;
    uint64_t size = l->row;

    for (unsigned i = 0; i < l->levels; i++) {
        ptrdiff_t far = (ptrdiff_t)(l->level[i].n - 1) * l->level[i].stride;

        size *= l->level[i].n;
        low += far < 0 ? far : 0;
        high += far > 0 ? far : 0;
    }
    return size == type->size && low == type->true_lb && high == type->true_ub;
}

dma_status_t mca_coll_dma_layout(const void *type, dma_rows_t *layout)
{
    const opal_datatype_t *t = &((const ompi_datatype_t *)type)->super;
    const dt_type_desc_t *desc = t->opt_desc.desc && t->opt_desc.used ? &t->opt_desc : &t->desc;

    return desc->desc && read_list(desc->desc, desc->used, layout) && is_whole(layout, t) ? DMA_OK : DMA_UNSUPPORTED;
}
