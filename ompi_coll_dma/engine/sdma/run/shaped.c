/* Copies between blocks with shapes: see shaped.h. */
#include "engine/sdma/run/shaped.h"

#include "engine/sdma/hw/packet.h"

_Static_assert(DMA_DRAIN_DWORDS == DMA_PACKET_FENCE_DWORDS + DMA_PACKET_POLL_DWORDS, "a fence and a poll");

#define PIECE_WORTH 16 /* rectangles: the estimated cost of a turn through temporary memory, with its two drains */

enum { GATHER, GATHERED, SCATTER, SCATTERED };

/* Each drain uses a new value, so the poll can compare for equality and cannot match a value of an earlier drain. Kept
 * below 2^31, see dma_packet_test_t. */
static uint32_t next_step(dma_queue_t *queue)
{
    return queue->step = (queue->step + 1) & INT32_MAX;
}

uint32_t dma_drain(uint32_t *p, dma_queue_t *queue)
{
    uint32_t step = next_step(queue), n;

    n = dma_packet_fence(p, queue->step_addr, step);
    return n + dma_packet_poll(p + n, queue->step_addr, DMA_PACKET_EQUAL, step, UINT32_MAX, DMA_DRAIN_INTERVAL);
}

/* Whether the queue has executed the fence with this value. Later fences of other users may have overwritten it. */
static bool has_reached(const dma_queue_t *queue, uint32_t step)
{
    /* acquire: the packets that are built next come behind what the fence stands for */
    uint32_t now = atomic_load_explicit(queue->step_word, memory_order_acquire);

    return ((now - step) & INT32_MAX) <= INT32_MAX / 2;
}

dma_status_t dma_drain_put(dma_drain_t *drain, const dma_gen_t *gen, dma_queue_t *queue)
{
    bool polls = gen->has & DMA_GEN_POLL;
    dma_status_t status;
    uint32_t *p;

    if (!drain->begun) {
        status = polls ? dma_ring_reserve(&queue->ring, DMA_DRAIN_DWORDS, DMA_DRAIN_PACKETS, &p)
                       : dma_ring_reserve(&queue->ring, DMA_PACKET_FENCE_DWORDS, 1, &p);
        if (status != DMA_OK) {
            return status;
        }
        if (polls) {
            dma_drain(p, queue);
            return DMA_OK;
        }
        drain->step = next_step(queue);
        dma_packet_fence(p, queue->step_addr, drain->step);
        drain->begun = true;
    }
    if (!has_reached(queue, drain->step)) {
        return DMA_AGAIN;
    }
    drain->begun = false;
    return DMA_OK;
}

static uint64_t min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- one rectangle ---- */

/* The step between the rows of one strided copy: as many rows as make their distance a multiple of 4 bytes. */
static uint64_t lanes(const dma_rect_t *r)
{
    uint64_t both = r->dst_pitch | r->src_pitch;

    return both % 4 == 0 ? 1 : both % 2 == 0 ? 2 : 4;
}

/* The rows of a lane from `row` on, as many as fit into one packet; may be none. */
static dma_rect_t part(const dma_gen_t *gen, const dma_rect_t *r, uint64_t lane, uint64_t row, uint32_t *element)
{
    uint64_t every = lanes(r), first = lane + row * every;
    dma_rect_t p = {.dst = r->dst + first * r->dst_pitch,
                    .src = r->src + first * r->src_pitch,
                    .dst_pitch = r->dst_pitch * every,
                    .src_pitch = r->src_pitch * every,
                    .row_bytes = r->row_bytes,
                    .rows = first < r->rows ? (r->rows - first + every - 1) / every : 0};

    while (p.rows && dma_rect_unfit(gen, &p, element)) {
        p.rows /= 2;
    }
    return p;
}

/* Whether strided copies can move all rows, and several rows per packet. All lanes are checked, because they begin
 * at addresses of different alignment. */
static bool is_strided(const dma_gen_t *gen, const dma_rect_t *r)
{
    uint32_t element;

    for (uint64_t lane = 0; lane < lanes(r) && lane < r->rows; lane++) {
        if (!part(gen, r, lane, 0, &element).rows) {
            return false;
        }
    }
    return part(gen, r, 0, 0, &element).rows > 1;
}

static dma_status_t put_strided(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue)
{
    for (; s->lane < lanes(&s->rect); s->lane++, s->row = 0) {
        uint32_t element, *p;
        dma_rect_t r;

        while ((r = part(gen, &s->rect, s->lane, s->row, &element)).rows) {
            dma_status_t status = dma_ring_reserve(&queue->ring, DMA_PACKET_RECT_DWORDS, 1, &p);

            if (status != DMA_OK) {
                return status;
            }
            dma_packet_rect(p, &r, element);
            dma_ring_moves(&queue->ring, r.rows * r.row_bytes);
            s->row += r.rows;
        }
    }
    return DMA_OK;
}

static dma_status_t put_rows(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue)
{
    const dma_rect_t *r = &s->rect;

    for (; s->row < r->rows; s->row++, s->lane = 0) {
        while (s->lane < r->row_bytes) {
            uint64_t n = min(r->row_bytes - s->lane, gen->max_copy);
            uint32_t *p;
            dma_status_t status = dma_ring_reserve(&queue->ring, DMA_PACKET_COPY_DWORDS, 1, &p);

            if (status != DMA_OK) {
                return status;
            }
            dma_packet_copy(p, gen, r->dst + s->row * r->dst_pitch + s->lane, r->src + s->row * r->src_pitch + s->lane,
                            n);
            dma_ring_moves(&queue->ring, n);
            s->lane += n;
        }
    }
    return DMA_OK;
}

static dma_status_t put_cut(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue)
{
    while (s->has_rect || dma_cut_next(&s->cut, &s->rect)) {
        dma_status_t status;

        if (!s->has_rect) {
            s->has_rect = true;
            s->lane = s->row = 0;
        }
        status = is_strided(gen, &s->rect) ? put_strided(s, gen, queue) : put_rows(s, gen, queue);
        if (status != DMA_OK) {
            return status;
        }
        s->has_rect = false;
    }
    return DMA_OK;
}

/* ---- a copy ---- */

bool dma_shaped_by_temp(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    dma_location_t temp = {0};
    uint64_t turns = bytes / DMA_SHAPED_TEMP + 1;

    return dma_cut_count(dst, src, bytes) >
           dma_cut_count(&temp, src, bytes) + dma_cut_count(dst, &temp, bytes) + turns * PIECE_WORTH;
}

void dma_shaped_begin(dma_shaped_t *s, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    s->dst = *dst;
    s->src = *src;
    s->bytes = bytes;
    s->by_temp = dma_shaped_by_temp(dst, src, bytes);
    s->step = GATHER;
    s->done = 0;
    s->begun = s->has_rect = false;
    s->drain = (dma_drain_t){0};
    if (!s->by_temp) {
        dma_cut_begin(&s->cut, dst, src, bytes);
    }
}

static void begin_step(dma_shaped_t *s, uint64_t bytes)
{
    dma_location_t temp = {.addr = s->temp}, dst = s->dst, src = s->src;

    dst.skip += s->done;
    src.skip += s->done;
    if (s->step == GATHER) {
        dma_cut_begin(&s->cut, &temp, &src, bytes);
    } else if (s->step == SCATTER) {
        dma_cut_begin(&s->cut, &dst, &temp, bytes);
    }
    s->begun = true;
}

/* A copy through temporary memory. The last drain of a turn makes sure that the memory is free for the packets
 * behind it. */
static dma_status_t put_turns(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue)
{
    while (s->done < s->bytes) {
        uint64_t n = min(s->bytes - s->done, DMA_SHAPED_TEMP);
        dma_status_t status;

        if (!s->begun) {
            begin_step(s, n);
        }
        status =
            s->step == GATHER || s->step == SCATTER ? put_cut(s, gen, queue) : dma_drain_put(&s->drain, gen, queue);
        if (status != DMA_OK) {
            return status;
        }
        s->begun = false;
        if (s->step++ == SCATTERED) {
            s->step = GATHER;
            s->done += n;
        }
    }
    return DMA_OK;
}

dma_status_t dma_shaped_put(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue)
{
    return s->by_temp ? put_turns(s, gen, queue) : put_cut(s, gen, queue);
}
