/*
 * The engine map: which SDMA engine of a GPU copies to which peer. A pure function of the links of the GPU and of the GPUs of
 * the ranks.
 *
 * The driver recommends engines for each link, as a bit mask, because each engine is next to one link and reaches the other
 * links by a detour. Only this mask counts; there is no table here. The first rule that matches is used:
 *
 *   the own block, or a peer on the same GPU      a host-facing engine, because no link is used
 *   a peer that is reached over PCIe only         a host-facing engine
 *   a mask of one engine                          this engine
 *   a mask of several engines                     as many peers as possible get an engine of their own
 *   no mask, or only engines that do not exist    the driver picks an XGMI engine; if there is none, a host-facing one
 *
 * If odd engines do not exist (gen.h), an odd number means the even number below it. Then the driver never picks, because it
 * would pick odd engines.
 *
 * Engines that may wait. An engine runs one queue at a time, for a time slice each. So a queue that waits in a POLL
 * occupies its engine for a time slice, and another queue of the engine may contain the work that it waits for. A queue
 * may wait only if it is the only one of this communicator on its engine. That excludes GPUs with several ranks,
 * engines that serve two peers, and host-facing engines, which many kinds of copies use. Queues of other communicators
 * on the engine still get their time slices.
 *
 * A peer's GPU is identified by the number of its node in the kernel's topology, which is the same in all containers of the
 * machine. Every rank knows the number of its own GPU and publishes it. A rank may not have permission to read about other
 * GPUs, but the links of its own GPU name them.
 */
#ifndef DMA_SDMA_MAP_H
#define DMA_SDMA_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/sdma/hw/gen.h"
#include "engine/sdma/node/topology.h"

typedef enum dma_map_kind {
    DMA_MAP_ENGINE, /* a queue on the engine with a given number */
    DMA_MAP_XGMI,   /* a queue on an XGMI engine that the driver picks */
    DMA_MAP_HOST,   /* a queue on a host-facing engine that the driver picks */
} dma_map_kind_t;

typedef struct dma_map_pick {
    dma_map_kind_t kind;
    uint32_t engine;     /* DMA_MAP_ENGINE: its number */
    uint32_t candidates; /* bit mask of engines that are equally suitable, if this one has no room for a queue */
    bool may_wait;       /* a queue on it may block the engine in a POLL */
    const char *reason;  /* text for messages */
} dma_map_pick_t;

/* Bit mask of the engines that exist. */
uint32_t dma_map_engines(const dma_gen_t *gen, const dma_topo_gpu_t *gpu);
/* The pick for copies that use no link. */
dma_map_pick_t dma_map_host_facing(const dma_gen_t *gen, const char *reason);

/* Computes the picks of one rank: picks[i] for its copies to rank i, picks[rank] for its own block. nodes[i] is the
 * node of rank i's GPU; nodes[rank] is the node of `gpu`. */
void dma_map_build(const dma_gen_t *gen, const dma_topo_gpu_t *gpu, const uint32_t *nodes, int nranks, int rank,
                   dma_map_pick_t *picks);

#endif
