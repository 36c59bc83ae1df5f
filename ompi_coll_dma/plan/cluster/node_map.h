/*
 * Node maps: which ranks of a job are on the same node.
 *
 * Nodes are numbered in the order of their lowest ranks. The ranks of a node are numbered in their own order. So a
 * rank is (node, index). The ranks of a node need not be consecutive, and nodes may have different numbers of ranks.
 *
 *     members   ranks of node 0, then of node 1, ...: 4 bytes per rank, all that grows with the number of ranks
 *     starts    where each node begins in `members`
 */
#ifndef DMA_PLAN_CLUSTER_NODE_MAP_H
#define DMA_PLAN_CLUSTER_NODE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/status.h"

typedef struct dma_node_map {
    int nranks, nnodes;
    int rank, node, index;  /* this rank, its node, and its index on the node */
    int max_size, min_size; /* ranks of the largest and of the smallest node */
    uint32_t *members;
    uint32_t *starts; /* nnodes + 1 */
} dma_node_map_t;

/* first[r]: the lowest rank on the node of rank r. DMA_ERR_ARG: `first` is inconsistent. */
dma_status_t dma_node_map_create(dma_node_map_t *node_map, const uint32_t *first, int nranks, int rank);
void dma_node_map_free(dma_node_map_t *node_map);

static inline int dma_node_map_size(const dma_node_map_t *l, int node)
{
    return (int)(l->starts[node + 1] - l->starts[node]);
}

static inline int dma_node_map_rank(const dma_node_map_t *l, int node, int index)
{
    return (int)l->members[l->starts[node] + (uint32_t)index];
}

/* The node `distance` nodes after `node`, cyclically; before it if negative. -nnodes < distance < nnodes. */
static inline int dma_node_map_shift(const dma_node_map_t *l, int node, int distance)
{
    return (node + distance + l->nnodes) % l->nnodes;
}

#endif
