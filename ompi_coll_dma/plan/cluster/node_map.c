/* Node maps: see node_map.h. */
#include "plan/cluster/node_map.h"

#include <stdlib.h>
#include <string.h>

/* Counts nodes and their ranks. Until fill() runs, members[r] is the node of rank r, if r is the lowest rank of its
 * node. */
static dma_status_t count(dma_node_map_t *l, const uint32_t *first)
{
    for (int r = 0; r < l->nranks; r++) {
        if (first[r] > (uint32_t)r || first[first[r]] != first[r]) {
            return DMA_ERR_ARG;
        }
        if (first[r] == (uint32_t)r) {
            l->members[r] = (uint32_t)l->nnodes++;
        }
        l->starts[l->members[first[r]] + 1]++;
    }
    return DMA_OK;
}

static dma_status_t fill(dma_node_map_t *l, const uint32_t *first)
{
    uint32_t *next = malloc((size_t)l->nnodes * sizeof(*next)), *node = l->members;
    uint32_t *members = malloc((size_t)l->nranks * sizeof(*members));

    if (!next || !members) {
        free(next);
        free(members);
        return DMA_ERR_NOMEM;
    }
    memcpy(next, l->starts, (size_t)l->nnodes * sizeof(*next));
    for (int r = 0; r < l->nranks; r++) {
        uint32_t of = node[first[r]];

        if (r == l->rank) {
            l->node = (int)of;
            l->index = (int)(next[of] - l->starts[of]);
        }
        members[next[of]++] = (uint32_t)r;
    }
    free(next);
    free(node);
    l->members = members;
    return DMA_OK;
}

dma_status_t dma_node_map_create(dma_node_map_t *l, const uint32_t *first, int nranks, int rank)
{
    dma_status_t status = DMA_ERR_NOMEM;
    uint32_t *starts;

    *l = (dma_node_map_t){.nranks = nranks, .rank = rank, .min_size = nranks};
    l->members = calloc((size_t)nranks, sizeof(*l->members));
    l->starts = calloc((size_t)nranks + 1, sizeof(*l->starts));
    if (!l->members || !l->starts || (status = count(l, first)) != DMA_OK) {
        goto free_node_map;
    }
    for (int n = 0; n < l->nnodes; n++) {
        int size = (int)l->starts[n + 1];

        l->max_size = size > l->max_size ? size : l->max_size;
        l->min_size = size < l->min_size ? size : l->min_size;
        l->starts[n + 1] += l->starts[n];
    }
    if ((starts = realloc(l->starts, ((size_t)l->nnodes + 1) * sizeof(*starts)))) {
        l->starts = starts;
    }
    if ((status = fill(l, first)) != DMA_OK) {
        goto free_node_map;
    }
    return DMA_OK;

free_node_map:
    dma_node_map_free(l);
    return status;
}

void dma_node_map_free(dma_node_map_t *l)
{
    free(l->members);
    free(l->starts);
    *l = (dma_node_map_t){0};
}
