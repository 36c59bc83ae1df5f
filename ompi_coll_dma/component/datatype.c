/*
 * Reads Open MPI's descriptions of datatypes: as regular rows (dma_rows_t), or for all other types as a list of strips
 * (dma_strip_t).
 *
 * A description is a list of blocks and loops. A block is `count` times `blocklen` basic elements, `extent` bytes apart, from
 * `disp` on. A loop contains such a list. MPI_Type_vector, and types made of vectors, are blocks in loops. A type is regular if
 * its description can be read as rows whose size and bounds are those that Open MPI gives for the type.
 */
#include "coll_dma.h"

/* Repeats the rows `n` times, `stride` bytes apart: a new outermost level. False: there are too many levels. */
static bool add_level(dma_rows_t *l, uint64_t n, ptrdiff_t stride)
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

/* Appends `next` if it continues the rows: the bytes behind a single row, or further rows at the same stride. */
static bool append_rows(dma_rows_t *l, const dma_rows_t *next)
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

/* Reads one block or one loop; *used gets its number of list entries. */
static bool read_one(const dt_elem_desc_t *at, size_t left, dma_rows_t *l, size_t *used)
{
    const ddt_elem_desc_t *e = &at->elem;

    if (OPAL_DATATYPE_LOOP == e->common.type) {
        *used = (size_t)at->loop.items + 1;
        return *used <= left && read_list(at + 1, at->loop.items - 1, l) &&
               add_level(l, at->loop.loops, at->loop.extent);
    }
    *used = 1;
    if (!(e->common.flags & OPAL_DATATYPE_FLAG_DATA) || e->common.type >= OPAL_DATATYPE_MAX_PREDEFINED) {
        return false;
    }
    *l = (dma_rows_t){.first = e->disp,
                      .row = (uint64_t)e->blocklen * opal_datatype_basicDatatypes[e->common.type]->size};
    return add_level(l, e->count, e->extent);
}

static bool read_list(const dt_elem_desc_t *list, size_t n, dma_rows_t *l)
{
    size_t used;

    if (!n || !read_one(list, n, l, &used)) {
        return false;
    }
    for (size_t i = used; i < n; i += used) {
        dma_rows_t next;

        if (!read_one(list + i, n - i, &next, &used) || !append_rows(l, &next)) {
            return false;
        }
    }
    return true;
}

/* Whether the rows have the size and the bounds of the type. */
static bool matches_type(const dma_rows_t *l, const opal_datatype_t *type)
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

static const dt_type_desc_t *description(const opal_datatype_t *type)
{
    return type->opt_desc.desc && type->opt_desc.used ? &type->opt_desc : &type->desc;
}

dma_status_t mca_coll_dma_type_rows(const void *type, dma_rows_t *rows)
{
    const opal_datatype_t *t = &((const ompi_datatype_t *)type)->super;
    const dt_type_desc_t *desc = description(t);

    return desc->desc && read_list(desc->desc, desc->used, rows) && matches_type(rows, t) ? DMA_OK : DMA_UNSUPPORTED;
}

/* ---- irregular types ---- */

/* Bytes of the packed data of a list; UINT64_MAX: the list has an unknown entry. Ends of loops and bounds have no data. */
static uint64_t list_bytes(const dt_elem_desc_t *list, size_t n)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const ddt_elem_desc_t *e = &list[i].elem;

        if (OPAL_DATATYPE_LOOP == e->common.type) {
            const ddt_loop_desc_t *loop = &list[i].loop;
            uint64_t body = loop->items && loop->items < n - i ? list_bytes(&list[i + 1], loop->items - 1) : UINT64_MAX;

            if (UINT64_MAX == body) {
                return body;
            }
            bytes += loop->loops * body;
            i += loop->items;
        } else if (e->common.flags & OPAL_DATATYPE_FLAG_DATA) {
            if (e->common.type >= OPAL_DATATYPE_MAX_PREDEFINED) {
                return UINT64_MAX;
            }
            bytes += (uint64_t)e->count * e->blocklen * opal_datatype_basicDatatypes[e->common.type]->size;
        }
    }
    return bytes;
}

static bool has_loop(const dt_elem_desc_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (OPAL_DATATYPE_LOOP == list[i].elem.common.type) {
            return true;
        }
    }
    return false;
}

typedef struct walk {
    dma_visit_t visit;
    void *arg;
} walk_t;

/* Where a list is, and the loop around it. */
typedef struct position {
    ptrdiff_t at;     /* offset in the element */
    uint64_t packed;  /* offset in the packed element */
    uint64_t n;       /* iterations of the loop */
    ptrdiff_t stride; /* bytes from one iteration to the next */
    uint64_t pitch;   /* packed bytes of an iteration */
} position_t;

/* A block is a grid: its rows times the iterations of the loop around it. The longer side becomes the rows of a strip, so that
 * there are few strips. */
static dma_status_t walk_block(const walk_t *w, const ddt_elem_desc_t *e, const position_t *a)
{
    dma_strip_t strip = {.at = a->at + e->disp, .packed = a->packed};
    uint64_t strips = a->n < e->count ? a->n : e->count;
    bool by_turns = a->n < e->count;
    dma_status_t status = DMA_OK;

    strip.bytes = (uint64_t)e->blocklen * opal_datatype_basicDatatypes[e->common.type]->size;
    strip.n = by_turns ? e->count : a->n;
    strip.stride = by_turns ? e->extent : a->stride;
    strip.pitch = by_turns ? strip.bytes : a->pitch;
    for (uint64_t i = 0; strip.bytes && DMA_OK == status && i < strips; i++) {
        status = w->visit(w->arg, &strip);
        strip.at += by_turns ? a->stride : e->extent;
        strip.packed += by_turns ? a->pitch : strip.bytes;
    }
    return status;
}

static dma_status_t walk_list(const walk_t *w, const dt_elem_desc_t *list, size_t n, position_t a);

static dma_status_t walk_loop(const walk_t *w, const dt_elem_desc_t *list, position_t a)
{
    const ddt_loop_desc_t *loop = &list->loop;
    size_t n = loop->items - 1;
    position_t inside = {.at = a.at, .packed = a.packed, .n = 1};
    dma_status_t status = DMA_OK;

    inside.pitch = list_bytes(list + 1, n);
    if (!has_loop(list + 1, n)) {
        inside.n = loop->loops;
        inside.stride = loop->extent;
        return walk_list(w, list + 1, n, inside);
    }
    for (uint32_t i = 0; DMA_OK == status && i < loop->loops; i++) {
        status = walk_list(w, list + 1, n, inside);
        inside.at += loop->extent;
        inside.packed += inside.pitch;
    }
    return status;
}

/* If the list contains loops, the loop around it has been unrolled: a.n is 1. */
static dma_status_t walk_list(const walk_t *w, const dt_elem_desc_t *list, size_t n, position_t a)
{
    dma_status_t status = DMA_OK;

    for (size_t i = 0; DMA_OK == status && i < n; i++) {
        size_t used = 1;

        if (OPAL_DATATYPE_LOOP == list[i].elem.common.type) {
            used += list[i].loop.items;
            status = walk_loop(w, &list[i], a);
        } else if (list[i].elem.common.flags & OPAL_DATATYPE_FLAG_DATA) {
            status = walk_block(w, &list[i].elem, &a);
        }
        a.packed += list_bytes(&list[i], used);
        i += used - 1;
    }
    return status;
}

dma_status_t mca_coll_dma_type_strips(const void *type, dma_visit_t visit, void *arg)
{
    const opal_datatype_t *t = &((const ompi_datatype_t *)type)->super;
    const dt_type_desc_t *desc = description(t);
    walk_t w = {.visit = visit, .arg = arg};

    if (!desc->desc || list_bytes(desc->desc, desc->used) != t->size) {
        return DMA_ERR_ARG;
    }
    return walk_list(&w, desc->desc, desc->used, (position_t){.n = 1});
}
