/*
 * Which engine of a GPU copies to which peer: a pure function of the GPU's links and of where the ranks are.
 *
 * The driver recommends engines per link, as a mask, because each engine sits beside one link and reaches the others at
 * a detour. What the mask says is what counts; there is no table of ours. Rules, first match:
 *
 *   the own block, or a peer on the same GPU   an engine that faces the host: no link is involved
 *   a peer behind PCIe only                    the same
 *   a mask of one engine                       that one
 *   a mask of several                          spread: as many peers as possible get an engine of their own
 *   no mask, or of engines that are not there  whatever the driver picks of the XGMI ones; it has none: of all
 *
 * On a part whose odd engines are not there (gen.h) an odd number means the even one below it, and the driver is never
 * left to pick, because it would pick odd ones.
 *
 * Waiting. An engine runs one queue at a time, so a queue that waits in a POLL keeps its engine, for a time slice, from the
 * queues that may hold what it waits for. An engine may wait only where it serves one queue of this communicator: not where
 * ranks share a GPU, not where two of our peers share an engine, not on engines that face the host, by which everybody's
 * copies go. Queues of other communicators may be there all the same, and get their turns.
 *
 * A peer's GPU is named by the number of its KFD node, which every rank knows of its own GPU and tells the others: a
 * rank may be kept from reading about GPUs that are not its own, but the links of its own GPU name them.
 */
#ifndef DMA_SDMA_MAP_H
#define DMA_SDMA_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sdma/gen.h"
#include "engine/sdma/topology.h"

typedef enum dma_map_kind {
    DMA_MAP_ENGINE, /* a queue on the engine of that number */
    DMA_MAP_XGMI,   /* a queue on an XGMI engine that the driver picks */
    DMA_MAP_HOST,   /* a queue on a host-facing engine that the driver picks */
} dma_map_kind_t;

typedef struct dma_map_pick {
    dma_map_kind_t kind;
    uint32_t engine;     /* DMA_MAP_ENGINE */
    uint32_t candidates; /* bit mask: engines that would do as well, should this one have no room for a queue */
    bool may_wait;       /* a queue there may hold its engine in a POLL */
    const char *reason;  /* for people */
} dma_map_pick_t;

/* The picks of one rank: picks[i] for what it copies to rank i, picks[rank] for its own block. nodes[i] is the KFD node
 * of rank i's GPU, nodes[rank] that of `gpu`. */
void dma_map_build(const dma_gen_t *gen, const dma_topo_gpu_t *gpu, const uint32_t *nodes, int nranks, int rank,
                   dma_map_pick_t *picks);

#endif
