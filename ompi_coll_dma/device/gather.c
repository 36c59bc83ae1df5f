/* Packing by the processor: see gather.h. */
#include "device/gather.h"

#include <string.h>

#include "node/pause.h"

/* ---- the rows of a part ---- */

typedef void row_fn(void *arg, char *at, uint64_t byte, uint64_t bytes);

typedef struct part_rows {
    const dma_side_t *type;
    const dma_gather_part_t *part;
    row_fn *visit; /* gets what belongs to the part: where the user has it, its offset in the part, and its bytes */
    void *arg;
} part_rows_t;

/* The rows of a strip of one element, of which byte 0 has number `byte`. */
static void visit_element(const part_rows_t *r, const dma_strip_t *p, char *at, uint64_t byte)
{
    uint64_t first = r->part->skip, end = first + r->part->bytes;
    uint64_t row = p->n > 1 && first > byte ? (first - byte) / p->pitch : 0;

    for (; row < p->n && byte + row * p->pitch < end; row++) {
        uint64_t low = byte + row * p->pitch, high = low + p->bytes, cut = low < first ? first - low : 0;

        high = high < end ? high : end;
        if (low + cut < high) {
            r->visit(r->arg, at + (ptrdiff_t)row * p->stride + cut, low + cut - first, high - low - cut);
        }
    }
}

static dma_status_t visit_strip(void *arg, const dma_strip_t *strip)
{
    const part_rows_t *r = arg;
    uint64_t size = r->type->size, end = r->part->skip + r->part->bytes;

    for (uint64_t e = r->part->skip / size; e * size < end; e++) {
        visit_element(r, strip, r->part->block + (ptrdiff_t)e * r->type->extent + strip->at, e * size + strip->packed);
    }
    return DMA_OK;
}

static dma_status_t visit_rows(const dma_comm_t *comm, const dma_side_t *type, const dma_gather_part_t *part,
                               row_fn *visit, void *arg)
{
    part_rows_t all = {.type = type, .part = part, .visit = visit, .arg = arg};

    return comm->host->type_strips(type->type, visit_strip, &all);
}

/* ---- halves ---- */

typedef struct bounds {
    char *first, *end;
} bounds_t;

static void widen(void *arg, char *at, uint64_t byte, uint64_t bytes)
{
    bounds_t *b = arg;

    (void)byte;
    b->first = !b->first || at < b->first ? at : b->first;
    b->end = at + bytes > b->end ? at + bytes : b->end;
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
    bounds_t b = {0};
    dma_status_t status;

    h->part.bytes = 0;
    if ((status = visit_rows(comm, g->type, part, widen, &b)) != DMA_OK) {
        return status;
    }
    h->first = b.first;
    h->span = (uint64_t)(b.end - b.first);
    if (h->span > half_bytes(g)) {
        return DMA_UNSUPPORTED;
    }
    status = dma_pin_start(g->pin, memory_of(g, half), h->first, h->span);
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

bool dma_gather_begin(dma_gather_t *g, dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device,
                      const dma_side_t *type)
{
    *g = (dma_gather_t){.pin = dma_pin_get_slots(comm->proc, rt, device), .type = type};
    return g->pin != NULL;
}

typedef struct packing {
    char *to;
    const char *half; /* where byte 0 of the user's memory would be */
    char *first;
} packing_t;

static void pack_row(void *arg, char *at, uint64_t byte, uint64_t bytes)
{
    const packing_t *p = arg;

    memcpy(p->to + byte, p->half + (at - p->first), bytes);
}

static bool is_part(const dma_gather_part_t *a, const dma_gather_part_t *b)
{
    return a->block == b->block && a->skip == b->skip && a->bytes == b->bytes;
}

dma_status_t dma_gather_pack(dma_gather_t *g, const dma_comm_t *comm, const dma_gather_part_t *part,
                             const dma_gather_part_t *next, char *to)
{
    unsigned half = g->next;
    packing_t packing = {.to = to, .half = memory_of(g, half)};
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
    packing.first = g->halves[half].first;
    g->halves[half].part.bytes = 0;
    return visit_rows(comm, g->type, part, pack_row, &packing);
}

void dma_gather_end(dma_gather_t *g, dma_proc_t *proc)
{
    (void)dma_lease_give_back(proc, g->pin); /* waits for copies that are under way */
    g->pin = NULL;
}
