/* The ring of a queue: see ring.h. */
#include "engine/sdma/hw/ring.h"

#include <string.h>

#define DWORD sizeof(uint32_t)

dma_status_t dma_ring_init(dma_ring_t *ring, const dma_ring_memory_t *mem)
{
    uint64_t start;

    if (mem->bytes < DMA_RING_MIN || (mem->bytes & (mem->bytes - 1)) || !mem->ring || !mem->read_ptr ||
        !mem->write_ptr || !mem->doorbell) {
        return DMA_ERR_ARG;
    }
    start = __atomic_load_n(mem->write_ptr, __ATOMIC_RELAXED);
    if (start % DWORD || start != __atomic_load_n(mem->read_ptr, __ATOMIC_RELAXED)) {
        return DMA_ERR_ARG;
    }
    *ring = (dma_ring_t){.mem = *mem, .read = start, .published = start, .reserved = start};
    return DMA_OK;
}

/* Reads the read pointer. If memory was overwritten, it is ahead of what is published. One that has gone back was written
 * late, behind a newer one: what has been consumed stays so. (If the queue was reset, it does not move any more.) */
static dma_status_t update_read(dma_ring_t *ring)
{
    /* Acquire: packets are written over consumed ones only after the engine was seen behind them. */
    uint64_t now = __atomic_load_n(ring->mem.read_ptr, __ATOMIC_ACQUIRE);

    if (now > ring->published || now % DWORD) {
        return DMA_ERR_ENGINE;
    }
    ring->read = now > ring->read ? now : ring->read;
    return DMA_OK;
}

static bool fits(const dma_ring_t *ring, uint64_t end)
{
    return end - ring->read < ring->mem.bytes;
}

dma_status_t dma_ring_reserve(dma_ring_t *ring, uint32_t dwords, uint32_t packets, uint32_t **p)
{
    uint64_t bytes = dwords * (uint64_t)DWORD, at = ring->reserved & (ring->mem.bytes - 1);
    uint64_t pad = at + bytes > ring->mem.bytes ? ring->mem.bytes - at : 0;
    uint64_t end = ring->reserved + pad + bytes;
    dma_status_t status;

    /* At most half of the ring: then the padding is smaller than the group, and both fit into an empty ring. */
    if (dwords == 0 || bytes > ring->mem.bytes / 2) {
        return DMA_ERR_ARG;
    }
    if (!fits(ring, end)) {
        status = update_read(ring);
        if (status != DMA_OK) {
            return status;
        }
        if (!fits(ring, end)) {
            ring->count.full++;
            return DMA_AGAIN;
        }
    }
    if (pad) {
        memset(ring->mem.ring + at / DWORD, 0, pad);
        ring->count.pads++;
        at = 0;
    }
    *p = ring->mem.ring + at / DWORD;
    ring->reserved = end;
    ring->unpublished_packets += packets;
    return DMA_OK;
}

void dma_ring_drop(dma_ring_t *ring)
{
    ring->reserved = ring->published;
    ring->unpublished_packets = ring->unpublished_bytes = 0;
}

uint64_t dma_ring_publish(dma_ring_t *ring)
{
    if (ring->reserved == ring->published) {
        return ring->published;
    }
    ring->published = ring->reserved;
    ring->count.packets += ring->unpublished_packets;
    ring->count.bytes += ring->unpublished_bytes;
    ring->unpublished_packets = ring->unpublished_bytes = 0;
    ring->count.doorbells++;
    /* Release: if the engine reads the write pointer without a doorbell, as it does when its queue is mapped again,
     * it finds the packets below the pointer. */
    __atomic_store_n(ring->mem.write_ptr, ring->published, __ATOMIC_RELEASE);
    /* Release: the doorbell may wake an engine, which then reads the write pointer and must not find an older value.
     * Both stores go to uncached memory or behind such a store, which x86 keeps in order; the release holds back the
     * compiler. */
    __atomic_store_n(ring->mem.doorbell, ring->published, __ATOMIC_RELEASE);
    return ring->published;
}

void dma_ring_nudge(dma_ring_t *ring)
{
    uint32_t *p;

    ring->count.nudges++;
    if (ring->reserved == ring->published && dma_ring_reserve(ring, 1, 0, &p) == DMA_OK) {
        *p = 0;
        dma_ring_publish(ring);
        return;
    }
    /* Release: as in dma_ring_publish. */
    __atomic_store_n(ring->mem.doorbell, ring->published, __ATOMIC_RELEASE);
    ring->count.doorbells++;
}

dma_status_t dma_ring_consumed(dma_ring_t *ring, uint64_t position)
{
    if (ring->read < position) {
        dma_status_t status = update_read(ring);
        if (status != DMA_OK) {
            return status;
        }
    }
    return ring->read >= position ? DMA_OK : DMA_AGAIN;
}

dma_status_t dma_ring_idle(dma_ring_t *ring)
{
    return dma_ring_consumed(ring, ring->published);
}
