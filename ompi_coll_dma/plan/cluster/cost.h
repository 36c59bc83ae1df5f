/* The cost of a call between nodes: one function per algorithm, in integers, of facts that are equal on all ranks. */
#ifndef DMA_PLAN_CLUSTER_COST_H
#define DMA_PLAN_CLUSTER_COST_H

#include "plan/cluster/cluster.h"

typedef uint64_t dma_cluster_cost_t(const dma_net_profile_t *profile, const dma_node_map_t *node_map, dma_coll_t coll,
                                    uint64_t bytes);

dma_cluster_cost_t dma_cluster_cost_ring, dma_cluster_cost_direct, dma_cluster_cost_rails, dma_cluster_cost_leader;
dma_cluster_cost_t dma_cluster_cost_split, dma_cluster_cost_transpose, dma_cluster_cost_pairs;

#endif
