/*
 * Generations of SDMA engines: the limits of a packet, and which packets there are.
 *
 * A generation is a row of a table. The PCI device id selects it. If the id is not listed, the gfx version selects it.
 * The device id has priority because it identifies one product with its defects. Different products may have the same
 * gfx version (MI300X and MI308X are both gfx942), and a runtime that does not know the product may report the version
 * of another one. If neither is listed, the product gets the row of its gfx major version, which has only what all
 * products of that major version have. If there is no such row, there is a reason.
 *
 * Rules that depend on addresses are functions. They return the reason why a packet cannot be used, or NULL. A reason
 * is not an error: the caller uses another kind of packet.
 */
#ifndef DMA_SDMA_GEN_H
#define DMA_SDMA_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/reason.h"

/* The two destinations of a broadcast must be equal modulo this. */
#define DMA_GEN_BROADCAST_MODULO 32

/* No packet moves more bytes. The fields of newer generations have room for more, but AMD's own work hangs engines of MI355X with
 * copies of 256 MiB (rocm-systems, issue 9927). The same bytes in packets of 128 MiB work there, and as fast. Other generations
 * are not known to hang. They have the same limit, because a packet of this size takes 3 ms on a link of MI300X, so that its
 * fixed cost does not show. */
#define DMA_GEN_LARGEST (UINT64_C(128) << 20)

/* Packets that not every generation has. */
typedef enum dma_gen_has {
    DMA_GEN_BROADCAST = 1 << 0,
    DMA_GEN_SWAP = 1 << 1,
    DMA_GEN_RECT = 1 << 2,
    /* A POLL that ends when its word has the value, and not before. On gfx900, gfx906 and gfx908 it sometimes ends early, so
     * no program contains one there: programs are not armed, and the CPU waits where the engine would (dma_drain_put). */
    DMA_GEN_POLL = 1 << 3,
    DMA_GEN_COND = 1 << 4,      /* conditional execution, for programs that wait with a POLL */
    DMA_GEN_TIMESTAMP = 1 << 5, /* writes the engine's clock; for traces alone */
} dma_gen_has_t;

typedef struct dma_gen {
    const char *name;
    uint64_t max_copy; /* bytes of one copy packet; a multiple of all alignments below, so that pieces stay aligned */
    uint64_t max_swap;
    uint32_t swap_align; /* of both addresses, and therefore of the length of every piece except the last */
    uint32_t has;        /* dma_gen_has_t */
    /* Engines with odd numbers do not exist, and a queue on one never runs. The driver says nothing of that: it counts them
     * in num_sdma_engines and num_sdma_xgmi_engines, makes queues on them, and recommends them for links. */
    bool even_engines;
} dma_gen_t;

/* Finds the generation of a GPU. `version` is KFD's gfx_target_version, 90402 for gfx942. NULL: its engines cannot
 * be used; *reason says why. */
const dma_gen_t *dma_gen_find(uint32_t device_id, uint32_t version, const char **reason);

/* Why these addresses do not allow this kind of packet, or NULL. */
const char *dma_gen_broadcast_unfit(const dma_gen_t *gen, uint64_t dst0, uint64_t dst1);
const char *dma_gen_swap_unfit(const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes);

/* The number of packets for `bytes` bytes if a packet moves at most `limit`. */
static inline uint64_t dma_gen_pieces(uint64_t bytes, uint64_t limit)
{
    return bytes / limit + (bytes % limit != 0);
}

#endif
