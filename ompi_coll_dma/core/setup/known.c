/* What is known about groups of ranks: see known.h. */
#include "core/setup/known.h"

#include <string.h>

static uint64_t mix(uint64_t number, uint64_t value)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) + value;
}

uint64_t dma_known_group(uint64_t group, uint64_t nonce)
{
    return mix(group, nonce);
}

static uint64_t number_of(const dma_known_t *known)
{
    const dma_measured_t *m = &known->measured;

    return mix(mix(mix(mix(mix(mix(known->group, known->cross), m->copy), m->pull), m->cross), m->page), m->push) | 1;
}

dma_known_t *dma_known_find(dma_known_t known[DMA_KNOWN], uint64_t group)
{
    for (int i = 0; i < DMA_KNOWN; i++) {
        if (known[i].number && known[i].group == group) {
            return &known[i];
        }
    }
    return NULL;
}

void dma_known_keep(dma_known_t known[DMA_KNOWN], const dma_known_t *found)
{
    dma_known_t *old = dma_known_find(known, found->group);

    old = old ? old : &known[DMA_KNOWN - 1];
    memmove(&known[1], &known[0], (size_t)(old - known) * sizeof(*known)); /* the newest is the first */
    known[0] = *found;
    known[0].number = number_of(found);
}
