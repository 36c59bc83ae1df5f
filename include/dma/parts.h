/*
 * Partitioned persistent collectives: what libmpix_dma asks of the component, and what the component answers.
 *
 * The library makes one persistent collective for whole blocks, with an info object that has the key DMA_PARTS_KEY. Its value is
 * the address of a dma_parts_t, in hexadecimal digits. A component that can let engines wait for partitions fills in the answer
 * and keeps the address until the request is freed. Without it, or on a communicator or buffers that it does not serve so,
 * `served` stays false, and the request is an ordinary one. So no symbol is shared, and any series of Open MPI will do.
 *
 * If it is served, a start of the request is a round: it may come before any partition is ready. Whoever has made partition p
 * stores 1 to its ready word. Engines wait for these words, copy, and store 1 to words of the receivers, one for each partition of
 * each block, when it has come. The request is complete when everything has been sent and has come.
 *
 * A block is cut into units, which are sent when all their partitions are ready; they are the same on all ranks. There are two
 * banks of words of 32 bits, and successive rounds use them by turns, the first round bank 0:
 *
 *     ready      sparts words               memory of the library, which the device knows by the address of the host
 *     arrived    ranks * rparts words       memory of the component, which peers' engines reach
 *
 * The library sets both to zero after the round before has completed and before it starts the round that uses them. While a
 * round is under way, the component may turn a ready word from 0 to DMA_PARTS_RELEASED, so that an engine stops to wait for it.
 * That is not ready, and whoever makes the partition overwrites it.
 */
#ifndef DMA_PARTS_H
#define DMA_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DMA_PARTS_KEY      "coll_dma_parts"
#define DMA_PARTS_MAGIC    UINT64_C(0x31737472617064) /* "dparts1": another layout gets another number */
#define DMA_PARTS_UNITS    64
#define DMA_PARTS_READY    1
#define DMA_PARTS_RELEASED 2

typedef struct dma_parts_unit {
    uint64_t offset, bytes;    /* in each block */
    uint32_t sends, sends_end; /* the partitions of this rank that it consists of */
} dma_parts_unit_t;

typedef struct dma_parts {
    uint64_t magic;
    uint32_t units, sparts, rparts; /* rparts: of each block that this rank receives; may differ between ranks */
    uint64_t block;                 /* bytes */
    uint32_t *ready;                /* bank 0 */
    uint64_t ready_distance;        /* from bank to bank, in words */
    dma_parts_unit_t unit[DMA_PARTS_UNITS];

    /* The answer. */
    bool served;
    uint32_t *arrived; /* bank 0 */
    uint64_t arrived_distance;
    bool in_kernels; /* the device knows them by the address of the host */
} dma_parts_t;

#endif
