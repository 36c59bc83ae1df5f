/*
 * Writing from host memory to device memory: only the data of a datatype.
 *
 * The bytes between the data belong to the application: a kernel, a copy or another communicator's collective may be
 * writing them during the call. So gaps are never written, although one large copy would be cheaper. Rows are written as
 * rectangles (rows.h).
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

#include "device/device.h"
#include "device/write.h"

#define SLOT     ((uint64_t)1 << 20)
#define LONG_ROW (SLOT / 4)
#define ALIGN    64 /* alignment of rectangles in the slot */

/* Takes memory of this kind, with this number of streams; NULL: there is none. */
static dma_status_t take(dma_writer_t *w, dma_lease_kind_t kind, unsigned streams, bool must, dma_lease_t **lease)
{
    dma_status_t status = dma_lease_take(w->proc,
                                         &(dma_lease_want_t){.kind = kind,
                                                             .rt = w->rt,
                                                             .device = w->device,
                                                             .bytes = SLOT,
                                                             .least = SLOT,
                                                             .streams = streams,
                                                             .exact = true,
                                                             .must = must},
                                         lease);

    *lease = status == DMA_OK ? *lease : NULL;
    return status;
}

/* Gives back what the writer has. `late`: nothing tells when its copies end. */
static void give_back(dma_writer_t *w, bool late)
{
    dma_lease_t *copies = w->pin ? w->pin : w->room;

    copies->copies = late;
    late = !dma_lease_give_back(w->proc, copies);
    if (w->pin && w->room) {
        w->room->copies = late;
        (void)dma_lease_give_back(w->proc, w->room);
    }
    if (!w->pin && !late) {
        free(w->slot);
    }
}

/* Without pinned memory the slot is pageable. Then there is a device slot in any case: HIP can fault on rows in pageable memory. */
static dma_status_t take_slots(dma_writer_t *w)
{
    dma_status_t pinned = take(w, DMA_LEASE_PINNED, 1, false, &w->pin);

    if (take(w, DMA_LEASE_DEVICE, w->pin ? 0 : 1, !w->pin, &w->room) != DMA_OK && !w->pin) {
        return pinned;
    }
    w->stream = (w->pin ? w->pin : w->room)->stream[0];
    w->device_slot = w->room ? w->room->addr : 0;
    if (!(w->slot = w->pin ? w->pin->memory : malloc(SLOT))) {
        give_back(w, false);
        return DMA_ERR_NOMEM;
    }
    return DMA_OK;
}

dma_status_t dma_writer_begin(dma_writer_t *w, dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    dma_status_t status;

    w->proc = proc;
    w->rt = rt;
    w->device = device;
    w->used = w->sent = 0;
    w->rects = 0;
    if ((status = take_slots(w)) == DMA_OK && (status = rt->enter(device, &w->scope)) != DMA_OK) {
        give_back(w, false);
    }
    return status;
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
    return w->rects == DMA_WRITER_RECTS ? flush(w) : DMA_OK;
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

static dma_status_t put_rect(void *writer, const dma_rect_t *rect)
{
    dma_writer_t *w = writer;
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

dma_status_t dma_writer_put(dma_writer_t *w, const dma_host_t *host, const dma_place_t *dst, const dma_place_t *src,
                            uint64_t bytes)
{
    dma_rects_t rects = {.host = host, .visit = put_rect, .arg = w, .backwards = true};

    return dma_rects_list(&rects, dst, src, bytes);
}

dma_status_t dma_writer_put_elements(dma_writer_t *w, const dma_host_t *host, const dma_side_t *side, char *at,
                                     size_t count, const char *from, bool packed)
{
    dma_shape_t shape = {0};
    ptrdiff_t first = 0;
    bool regular = side->dense || (!side->scattered && dma_shape_of_elements(host, side, count, &first, &shape));
    dma_place_t dst = {.addr = (uint64_t)(uintptr_t)at + (uint64_t)first,
                       .shape = &shape,
                       .type = regular ? NULL : side},
                src = {.addr = (uint64_t)(uintptr_t)from};

    if (!packed) {
        src = dst;
        src.addr = (uint64_t)(uintptr_t)from + (uint64_t)first;
    }
    return dma_writer_put(w, host, &dst, &src, count * side->size);
}

dma_status_t dma_writer_end(dma_writer_t *w, dma_status_t status)
{
    dma_status_t ended;

    if (status == DMA_OK) {
        status = flush(w);
    }
    /* Wait after an error too, because the copies that were started read memory that the caller is about to free. */
    ended = w->rt->stream_query(w->stream);
    if (ended == DMA_AGAIN) {
        ended = w->rt->stream_sync(w->stream);
    }
    w->rt->leave(&w->scope);
    give_back(w, ended != DMA_OK);
    return status == DMA_OK ? ended : status;
}
