/* The algorithm table. */
#include "plan/variants.h"

#include <string.h>

const dma_variant_t *const dma_variants[] = {
    &dma_variant_host_line,
    &dma_variant_host_slot,
    &dma_variant_host_pipe,
    &dma_variant_host_pair,
    &dma_variant_host_reach,
    &dma_variant_pcpy,
    &dma_variant_b2b,
    &dma_variant_bcst,
    &dma_variant_swap,
    &dma_variant_halves,
    NULL,
};

int dma_variant_find(const char *name)
{
    for (int i = 0; dma_variants[i]; i++) {
        if (!strcmp(dma_variants[i]->name, name)) {
            return i;
        }
    }
    return -1;
}
