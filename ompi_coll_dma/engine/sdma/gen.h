/*
 * Generations of SDMA engines: what one packet may say, and which packets there are.
 *
 * A generation is a row of a table, chosen by the PCI device id first and by the gfx version second: a device id names
 * one product, with its quirks, while a gfx version is shared by products that differ (MI300X and MI308X are both
 * gfx942) and may be a stand-in where a runtime knows no better. A part that is in neither list gets the row of its
 * gfx major version with the limits every part of it has, or none, with a reason.
 *
 * Rules that depend on addresses are functions that say why a packet does not fit, or NULL when it does: "does not fit"
 * is an answer, the caller then takes another packet.
 */
#ifndef DMA_SDMA_GEN_H
#define DMA_SDMA_GEN_H

#include <stdbool.h>
#include <stdint.h>

/* Destinations of a broadcast are equal modulo this. */
#define DMA_GEN_BROADCAST_MODULO 32

/* Packets that not every generation has. */
typedef enum dma_gen_has {
    DMA_GEN_BROADCAST = 1 << 0,
    DMA_GEN_SWAP = 1 << 1,
    DMA_GEN_RECT = 1 << 2,
    /* A poll in a form that flushes the path from the host to the GPU's memory; where that is PCIe it is needed, where
     * it is XGMI it is not. */
    DMA_GEN_HDP_FLUSH = 1 << 3,
} dma_gen_has_t;

typedef struct dma_gen {
    const char *name;
    uint64_t max_copy; /* bytes of one copy; a multiple of every alignment below, so that pieces stay aligned */
    uint64_t max_swap;
    uint32_t swap_align; /* of both addresses, and so of the length of every piece but the last */
    uint32_t has;        /* dma_gen_has_t */
    bool even_engines;   /* engines with odd numbers are listed but not there: a queue on one never runs */
} dma_gen_t;

/* The generation of a GPU; version is KFD's gfx_target_version, 90402 for gfx942. NULL when its engines cannot be
 * driven, then *reason says why. */
const dma_gen_t *dma_gen_find(uint32_t device_id, uint32_t version, const char **reason);

/* Why these cannot be one packet or several pieces of the generation's limit, or NULL. */
const char *dma_gen_broadcast_unfit(const dma_gen_t *gen, uint64_t dst0, uint64_t dst1);
const char *dma_gen_swap_unfit(const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes);

/* How many packets `bytes` take when none moves more than `limit`. */
static inline uint64_t dma_gen_pieces(uint64_t bytes, uint64_t limit)
{
    return bytes / limit + (bytes % limit != 0);
}

#endif
