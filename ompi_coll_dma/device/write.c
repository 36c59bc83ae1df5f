/*
 * Writing from host memory to device memory: only the data of a datatype.
 *
 * The bytes between the data belong to the application: a kernel, a copy or another communicator's collective may be
 * writing them during the call. So gaps are never written, although one large copy would be cheaper. Regular data is
 * written as rectangles (gpu/shape.h). For other datatypes the host services list the strips of an element: rows of
 * equal length at a regular distance. A strip becomes rectangles in one of two ways, whichever makes fewer of them: one
 * for each element, with the strip's rows; or one for each row of the strip, with that row of all elements:
 *
 *      element 0             element 1             element 2
 *     |##...#....#....##....|##...#....#....##....|##...#....#....##....|
 *      a    b    b    c      a    b    b    c      a    b    b    c            strips a and c: one rectangle of three
 *                                                                              rows each; strip b: two of three rows
 *
 *     host memory  --cores-->  slot (pinned)  --one copy-->  device slot  --strided copies-->  the user's memory
 *
 * The cores gather rows in a slot of pinned host memory. One copy brings the slot to device memory, and strided copies
 * inside the device, which runtimes do well, bring the rows to their places. Strided copies straight from the slot are
 * slow: HIP copies rows from pinned memory one by one unless their distances are multiples of 4. From pageable memory
 * HIP has been seen to fault. Rows of LONG_ROW bytes or more are copied without the slot. All copies are started on a
 * stream, which is synchronized when the slot is full and at the end.
 *
 * Functions with the note "in scope" need the runtime's scope of the device (enter, leave).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device.h"
#include "device/write.h"

#define SLOT     ((uint64_t)1 << 20)
#define LONG_ROW (SLOT / 4)
#define ALIGN    64  /* alignment of rectangles in the slot */
#define RECTS    128 /* most rectangles in the slot whose copies have not been started */

/* Used by one call at a time. The process keeps a list of them. */
struct dma_writer {
    dma_writer_t *next;
    const dma_gpu_runtime_t *rt;
    int device;
    bool busy; /* guarded by the process's device lock, as is the list */
    dma_gpu_stream_t *stream;
    dma_gpu_scope_t scope;
    char *slot;
    bool pinned;          /* false: the slot could not be registered; then there is a device slot */
    uint64_t device_slot; /* 0: no memory for it; then writing many rows is slow */
    uint64_t used, sent;  /* bytes of the slot with rows in it; bytes whose copies have been started */
    unsigned rects;
    dma_rect_t rect[RECTS]; /* copies that have not been started; `src` is an offset in the slot */
};

/* An idle writer of the device, or NULL; with the device lock, in scope. A reset of the device destroys streams: a writer
 * without a stream stays busy and is never used again. */
static dma_writer_t *find_idle_writer(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    for (dma_writer_t *w = proc->writers; w; w = w->next) {
        if (!w->busy && w->rt == rt && w->device == device) {
            w->busy = true;
            if (rt->stream_query(w->stream) == DMA_OK) {
                return w;
            }
        }
    }
    return NULL;
}

/* In scope. */
static dma_status_t pin_slot(dma_writer_t *w, const dma_gpu_runtime_t *rt, dma_budget_t *budget)
{
    dma_status_t status = DMA_ERR_NOMEM;
    uint64_t at;

    if (dma_budget_take(budget, DMA_BUDGET_PINNED, SLOT) &&
        (status = rt->host_register(w->slot, SLOT, &at)) != DMA_OK) {
        dma_budget_give(budget, DMA_BUDGET_PINNED, SLOT);
    }
    w->pinned = status == DMA_OK;
    return status;
}

/* Without a pinned slot the device slot is taken in any case: HIP can fault on rows in pageable memory. In scope. */
static dma_status_t allocate_device_slot(dma_writer_t *w, const dma_gpu_runtime_t *rt, dma_budget_t *budget)
{
    if (!w->pinned) {
        dma_budget_force(budget, DMA_BUDGET_DEVICE, SLOT);
    } else if (!dma_budget_take(budget, DMA_BUDGET_DEVICE, SLOT)) {
        return DMA_ERR_NOMEM;
    }
    if (rt->alloc(SLOT, &w->device_slot) == DMA_OK) {
        return DMA_OK;
    }
    w->device_slot = 0;
    dma_budget_give(budget, DMA_BUDGET_DEVICE, SLOT);
    return DMA_ERR_NOMEM;
}

/* Makes the stream, registers the slot and allocates the device slot; in scope. */
static dma_status_t create_buffers(dma_writer_t *w, const dma_gpu_runtime_t *rt, dma_budget_t *budget)
{
    dma_status_t status = rt->stream_create(&w->stream), pinned;

    if (status != DMA_OK) {
        return status;
    }
    pinned = pin_slot(w, rt, budget);
    if (allocate_device_slot(w, rt, budget) != DMA_OK && !w->pinned) {
        (void)rt->stream_destroy(w->stream);
        return pinned;
    }
    return DMA_OK;
}

/* With the device lock; in scope. */
static dma_status_t create_writer(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, dma_writer_t **result)
{
    dma_writer_t *w = calloc(1, sizeof(*w));
    dma_status_t status;

    if (!w) {
        return DMA_ERR_NOMEM;
    }
    w->slot = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->slot == MAP_FAILED) {
        free(w);
        return DMA_ERR_NOMEM;
    }
    if ((status = create_buffers(w, rt, &proc->budget)) != DMA_OK) {
        munmap(w->slot, SLOT);
        free(w);
        return status;
    }
    w->rt = rt;
    w->device = device;
    w->busy = true;
    w->next = proc->writers;
    *result = proc->writers = w;
    return DMA_OK;
}

dma_status_t dma_writer_begin(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, dma_writer_t **writer)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);
    dma_writer_t *w;

    if (status != DMA_OK) {
        return status;
    }
    pthread_mutex_lock(&proc->device_lock);
    if (!(w = find_idle_writer(proc, rt, device))) {
        status = create_writer(proc, rt, device, &w);
    }
    pthread_mutex_unlock(&proc->device_lock);
    if (status != DMA_OK) {
        rt->leave(&scope);
        return status;
    }
    w->scope = scope;
    w->used = w->sent = 0;
    w->rects = 0;
    *writer = w;
    return DMA_OK;
}

void dma_writers_destroy(dma_proc_t *proc)
{
    dma_writer_t *next;

    for (dma_writer_t *w = proc->writers; w; w = next) {
        dma_status_t status = DMA_OK;
        dma_gpu_scope_t scope;

        next = w->next;
        /* If the scope cannot be entered, the runtime has been shut down, and has freed what it made. */
        if (w->rt->enter_to_release(w->device, &scope) == DMA_OK) {
            status = w->rt->stream_query(w->stream);
            if (status != DMA_AGAIN) {
                (void)w->rt->stream_destroy(w->stream);
                if (w->pinned) {
                    status = w->rt->host_unregister(w->slot);
                }
                if (w->device_slot) {
                    (void)w->rt->free(w->device_slot);
                }
            }
            w->rt->leave(&scope);
        }
        dma_budget_give(&proc->budget, DMA_BUDGET_PINNED, w->pinned ? SLOT : 0);
        dma_budget_give(&proc->budget, DMA_BUDGET_DEVICE, w->device_slot ? SLOT : 0);
        if (status != DMA_AGAIN) { /* else it is still registered, or a copy that has not ended may read it */
            munmap(w->slot, SLOT);
        }
        free(w);
    }
    proc->writers = NULL;
}

/* ---- rectangles ---- */

static char *row_of(const dma_rect_t *r, uint64_t row)
{
    return (char *)(uintptr_t)(r->src + row * r->src_pitch);
}

/* Starts the copies of all rows in the slot. */
static dma_status_t flush(dma_writer_t *w)
{
    bool through = w->device_slot && (w->rects > 1 || w->rect[0].rows > 1);
    dma_status_t status = DMA_OK;

    if (w->rects && through) {
        status = w->rt->copy_async(w->stream, w->device_slot + w->sent, (uint64_t)(uintptr_t)w->slot + w->sent,
                                   w->used - w->sent);
    }
    for (unsigned i = 0; status == DMA_OK && i < w->rects; i++) {
        w->rect[i].src += through ? w->device_slot : (uint64_t)(uintptr_t)w->slot;
        status = dma_gpu_copy_rect(w->rt, w->stream, &w->rect[i]);
    }
    w->rects = 0;
    w->sent = w->used;
    return status;
}

/* Gathers as many rows as the slot has room for, from row `first` on; *n: their number. If there is room for none,
 * empties the slot. */
static dma_status_t put_by_slot(dma_writer_t *w, const dma_rect_t *r, uint64_t first, uint64_t *n)
{
    uint64_t fit = (SLOT - w->used) / r->row_bytes;
    char *at = w->slot + w->used;
    dma_status_t status;

    *n = fit < r->rows - first ? fit : r->rows - first;
    if (!*n) {
        status = flush(w);
        w->used = w->sent = 0;
        return status == DMA_OK ? w->rt->stream_sync(w->stream) : status;
    }
    for (uint64_t row = 0; row < *n; row++) {
        memcpy(at + row * r->row_bytes, row_of(r, first + row), r->row_bytes);
    }
    w->rect[w->rects++] = (dma_rect_t){.dst = r->dst + first * r->dst_pitch,
                                       .src = w->used,
                                       .dst_pitch = r->dst_pitch,
                                       .src_pitch = r->row_bytes,
                                       .row_bytes = r->row_bytes,
                                       .rows = *n};
    w->used += (*n * r->row_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return w->rects == RECTS ? flush(w) : DMA_OK;
}

/* The rectangle, if its pitch is negative with its rows in reverse order: runtimes need positive pitches. */
static dma_rect_t ascending_rect(const dma_rect_t *r)
{
    dma_rect_t ascending = *r;

    if (r->dst_pitch > INT64_MAX) {
        ascending.dst += (r->rows - 1) * r->dst_pitch;
        ascending.src += (r->rows - 1) * r->src_pitch;
        ascending.dst_pitch = -r->dst_pitch;
        ascending.src_pitch = -r->src_pitch;
    }
    return ascending;
}

static dma_status_t put_rect(dma_writer_t *w, const dma_rect_t *rect)
{
    const dma_rect_t ascending = ascending_rect(rect), *r = &ascending;
    dma_status_t status = DMA_OK;
    uint64_t n = 1;

    for (uint64_t row = 0; status == DMA_OK && row < r->rows; row += n) {
        status = r->row_bytes < LONG_ROW ? put_by_slot(w, r, row, &n)
                                         : w->rt->copy_async(w->stream, r->dst + row * r->dst_pitch,
                                                             (uint64_t)(uintptr_t)row_of(r, row), r->row_bytes);
    }
    return status;
}

dma_status_t dma_writer_put_shape(dma_writer_t *w, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    dma_status_t status = DMA_OK;
    dma_cut_t cut;
    dma_rect_t r;

    dma_cut_begin(&cut, dst, src, bytes);
    while (status == DMA_OK && dma_cut_next(&cut, &r)) {
        status = put_rect(w, &r);
    }
    return status;
}

/* ---- elements of a datatype without a shape ---- */

typedef struct elements {
    dma_writer_t *w;
    const dma_side_t *side;
    char *at;
    const char *from;
    bool packed;
    uint64_t count;
} elements_t;

/* Writes one rectangle of a strip. `along`: row `row` of all elements. Else all rows of element `element`. */
static dma_status_t put_rows(const elements_t *e, const dma_strip_t *p, uint64_t element, uint64_t row, bool along)
{
    ptrdiff_t ahead = (ptrdiff_t)element * e->side->extent + p->at + (ptrdiff_t)row * p->stride;
    dma_rect_t r = {.dst = (uint64_t)(uintptr_t)e->at + (uint64_t)ahead,
                    .src = (uint64_t)(uintptr_t)e->from + (uint64_t)ahead,
                    .row_bytes = p->bytes,
                    .rows = along ? e->count : p->n};

    r.dst_pitch = r.src_pitch = (uint64_t)(along ? e->side->extent : p->stride);
    if (e->packed) {
        r.src = (uint64_t)(uintptr_t)e->from + element * e->side->size + p->packed + row * p->pitch;
        r.src_pitch = along ? e->side->size : p->pitch;
    }
    return put_rect(e->w, &r);
}

static dma_status_t put_strip(void *arg, const dma_strip_t *p)
{
    elements_t *e = arg;
    bool along = p->n <= e->count;
    dma_status_t status = DMA_OK;

    for (uint64_t i = 0; status == DMA_OK && i < (along ? p->n : e->count); i++) {
        status = put_rows(e, p, along ? 0 : i, along ? i : 0, along);
    }
    return status;
}

dma_status_t dma_writer_put_elements(dma_writer_t *w, const dma_host_t *host, const dma_side_t *side, char *at,
                                     size_t count, const char *from, bool packed)
{
    elements_t e = {.w = w, .side = side, .at = at, .from = from, .packed = packed, .count = count};
    dma_location_t dst = {.addr = (uint64_t)(uintptr_t)at}, src = {.addr = (uint64_t)(uintptr_t)from};
    dma_rows_t rows;

    if (!side->dense) {
        if (!host->type_rows || host->type_rows(side->type, &rows) != DMA_OK ||
            !dma_shape_from_rows(&rows, count, side->extent, &dst.shape)) {
            return host->type_strips(side->type, put_strip, &e);
        }
        dst.addr += (uint64_t)rows.first;
        if (!packed) {
            src.addr += (uint64_t)rows.first;
            src.shape = dst.shape;
        }
    }
    return dma_writer_put_shape(w, &dst, &src, count * side->size);
}

dma_status_t dma_writer_end(dma_proc_t *proc, dma_writer_t *w, dma_status_t status)
{
    dma_status_t ended;

    if (status == DMA_OK) {
        status = flush(w);
    }
    /* Wait after an error too, because the copies that were started read memory that the caller is about to free. Query
     * first: a stream that a reset of the device has destroyed must not be synchronized. */
    ended = w->rt->stream_query(w->stream);
    if (ended == DMA_AGAIN) {
        ended = w->rt->stream_sync(w->stream);
    }
    w->rt->leave(&w->scope);
    pthread_mutex_lock(&proc->device_lock);
    w->busy = ended != DMA_OK;
    pthread_mutex_unlock(&proc->device_lock);
    return status == DMA_OK ? ended : status;
}
