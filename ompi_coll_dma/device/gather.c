/* Packing by the processor: see gather.h. */
#include "device/gather.h"

#include "node/pause.h"

/* ---- halves ---- */

typedef struct bounds {
    uint64_t first, end;
} bounds_t;

static dma_status_t widen(void *bounds, const dma_rect_t *r)
{
    bounds_t *b = bounds;
    uint64_t last = r->src + (r->rows - 1) * r->src_pitch, low = last < r->src ? last : r->src;
    uint64_t end = (last < r->src ? r->src : last) + r->row_bytes;

    b->first = low < b->first ? low : b->first;
    b->end = end > b->end ? end : b->end;
    return DMA_OK;
}

static uint64_t half_bytes(const dma_gather_t *g)
{
    return g->pin->bytes / 2;
}

static char *memory_of(const dma_gather_t *g, unsigned half)
{
    return g->pin->memory + half * half_bytes(g);
}

/* Starts the copy of a part into a half. DMA_UNSUPPORTED: it does not fit. */
static dma_status_t fetch(dma_gather_t *g, const dma_comm_t *comm, const dma_gather_part_t *part, unsigned half)
{
    dma_gather_half_t *h = &g->halves[half];
    bounds_t b = {.first = UINT64_MAX};
    dma_rects_t rects = {.host = comm->host, .visit = widen, .arg = &b, .backwards = true};
    dma_status_t status;

    h->part.bytes = 0;
    if ((status = dma_rects_list(&rects, &(dma_place_t){0}, &part->at, part->bytes)) != DMA_OK) {
        return status;
    }
    if (b.end - b.first > half_bytes(g)) {
        return DMA_UNSUPPORTED;
    }
    h->first = b.first;
    status = dma_pin_start(g->pin, memory_of(g, half), (char *)(uintptr_t)b.first, b.end - b.first);
    status = status == DMA_OK ? g->pin->rt->event_record(g->pin->event[half], g->pin->stream[0]) : status;
    h->part = status == DMA_OK ? *part : h->part;
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

static dma_status_t wait_for(const dma_gather_t *g, unsigned half)
{
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = g->pin->rt->event_query(g->pin->event[half])) == DMA_AGAIN) {
        dma_pause(&pause);
    }
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

/* ---- parts ---- */

bool dma_gather_begin(dma_gather_t *g, dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device)
{
    *g = (dma_gather_t){.pin = dma_pin_get_slots(comm->proc, rt, device)};
    return g->pin != NULL;
}

static bool is_part(const dma_gather_part_t *a, const dma_gather_part_t *b)
{
    return a->at.addr == b->at.addr && a->at.skip == b->at.skip && a->bytes == b->bytes;
}

dma_status_t dma_gather_pack(dma_gather_t *g, const dma_comm_t *comm, const dma_gather_part_t *part,
                             const dma_gather_part_t *next, uint64_t to)
{
    unsigned half = g->next;
    dma_rects_t rects = {.host = comm->host, .visit = dma_rect_move, .backwards = true};
    dma_place_t dst = {.addr = to}, src = part->at;
    dma_status_t status = DMA_OK;

    if (!is_part(&g->halves[half].part, part)) {
        status = fetch(g, comm, part, half);
    }
    if (status == DMA_OK) {
        status = wait_for(g, half);
    }
    if (status != DMA_OK) {
        return status;
    }
    g->next ^= 1;
    if (next->bytes && (status = fetch(g, comm, next, g->next)) != DMA_OK && status != DMA_UNSUPPORTED) {
        return status;
    }
    g->halves[half].part.bytes = 0;
    src.addr += (uint64_t)(uintptr_t)memory_of(g, half) - g->halves[half].first;
    return dma_rects_list(&rects, &dst, &src, part->bytes);
}

void dma_gather_end(dma_gather_t *g, dma_proc_t *proc)
{
    (void)dma_lease_give_back(proc, g->pin); /* waits for copies that are under way */
    g->pin = NULL;
}
