/*
 * The ring of an SDMA queue: the memory for packets, and the counters that tell the engine about them.
 *
 *      ring memory, a power of two                      64-bit counters: bytes since the queue was created, never wrapped
 *   +------+---------------+-----------------+-----+
 *   | free | the engine's  | reserved, not   | free|   read pointer   <= published <= reserved < read pointer + size
 *   |      |               | published       |     |   (engine)          (CPU)        (CPU)
 *   +------+---------------+-----------------+-----+
 *          ^ read          ^ published       ^ reserved
 *
 * The position of a counter in the ring is its value modulo the size. Rules of the hardware:
 * - `reserved` stays strictly below read + size, because the engine cannot distinguish a full ring from an empty one.
 * - A packet does not wrap around the end of the ring. The rest of the ring is filled with zero dwords, which are nops.
 * - The write pointer in memory is never ahead of the packets that are built, and never behind the doorbell: whenever
 *   the driver maps the queue again, the engine may read the write pointer without a doorbell.
 *
 * Packets are built in groups. dma_ring_reserve provides contiguous room for all dwords of a group, or no room. Several
 * groups may be reserved before one publish, which rings one doorbell. Published groups need not be consumed before more
 * are reserved. Groups that were reserved and not published can be discarded.
 *
 * Read pointers may be lost or late: then there is less room than there could be, and the queue seems to stand still.
 *
 * Consumed means fetched: the read pointer passes a copy before the copy has landed. Only a fence behind the copy shows
 * that it has landed.
 *
 * One thread at a time uses a ring: the one that holds the queue's lock.
 */
#ifndef DMA_SDMA_RING_H
#define DMA_SDMA_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/status.h"

/* The memory of a queue. The creator of the queue owns it. */
typedef struct dma_ring_memory {
    uint32_t *ring;
    uint64_t bytes;      /* of the ring: a power of two, at least DMA_RING_MIN */
    uint64_t *read_ptr;  /* written by the engine */
    uint64_t *write_ptr; /* written by the CPU */
    uint64_t *doorbell;  /* written by the CPU; a register of the GPU */
} dma_ring_memory_t;

#define DMA_RING_MIN 4096

typedef struct dma_ring {
    dma_ring_memory_t mem;
    uint64_t read;      /* the read pointer at the last read */
    uint64_t published; /* the engine may fetch up to here */
    uint64_t reserved;  /* packets may be built up to here */
    struct {
        uint64_t packets;   /* published */
        uint64_t bytes;     /* that published packets write: dma_ring_moves */
        uint64_t doorbells; /* rung */
        uint64_t pads;      /* how often the end of the ring was padded */
        uint64_t full;      /* how often there was no room */
        uint64_t nudges;    /* see dma_ring_nudge */
    } count;
    uint64_t unpublished_packets, unpublished_bytes;
} dma_ring_t;

/* Initializes a ring for an idle queue, whose counters are equal. DMA_ERR_ARG: the memory is not valid. */
dma_status_t dma_ring_init(dma_ring_t *ring, const dma_ring_memory_t *mem);

/* Reserves room for a group of packets at *p, which the caller fills completely before it publishes. DMA_AGAIN: no
 * room until the engine has consumed more published packets. DMA_ERR_ARG: more than half of the ring, for which
 * there may never be room. DMA_ERR_ENGINE: the read pointer has a value that no working queue has. */
dma_status_t dma_ring_reserve(dma_ring_t *ring, uint32_t dwords, uint32_t packets, uint32_t **p);
/* What the packets of the last group write. */
static inline void dma_ring_moves(dma_ring_t *ring, uint64_t bytes)
{
    ring->unpublished_bytes += bytes;
}

/* Discards everything that was reserved since the last publish. */
void dma_ring_drop(dma_ring_t *ring);
/* Publishes everything that was reserved and rings the doorbell. Returns the position behind it, for
 * dma_ring_consumed. */
uint64_t dma_ring_publish(dma_ring_t *ring);

/* For a queue that stands still: its doorbell or its read pointer may have been lost. Publishes a packet that does nothing, so
 * that there is a doorbell with a new value, and a new read pointer for the last one. Without room it rings once more. */
void dma_ring_nudge(dma_ring_t *ring);

/* DMA_OK if the engine has fetched everything up to a position, otherwise DMA_AGAIN, or DMA_ERR_ENGINE as above. */
dma_status_t dma_ring_consumed(dma_ring_t *ring, uint64_t position);
/* The same for everything that was published. */
dma_status_t dma_ring_idle(dma_ring_t *ring);

#endif
