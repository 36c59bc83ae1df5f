/*
 * The algorithm table.
 *
 * CONTRIBUTING.md says how to add a variant.
 *
 * The position in the list is the variant's number. If two variants have the same predicted cost, the first is
 * chosen.
 */
#include <string.h>

#include "dma/plan.h"

#define VARIANTS(X)                                                                                                    \
    X(host_line)  /* plan/host/slot.c */                                                                               \
    X(host_slot)  /* plan/host/slot.c */                                                                               \
    X(host_pipe)  /* plan/host/pipe.c */                                                                               \
    X(host_pair)  /* plan/host/pair.c */                                                                               \
    X(host_reach) /* plan/host/pair.c */                                                                               \
    X(pcpy)       /* plan/gpu/push.c */                                                                                \
    X(b2b)        /* plan/gpu/push.c */                                                                                \
    X(bcst)       /* plan/gpu/push.c */                                                                                \
    X(swap)       /* plan/gpu/swap.c */                                                                                \
    X(halves)     /* plan/gpu/swap.c */

#define DECLARE(name) extern const dma_variant_t dma_variant_##name;
VARIANTS(DECLARE)
#undef DECLARE

const dma_variant_t *const dma_variants[] = {
#define ROW(name) &dma_variant_##name,
    VARIANTS(ROW)
#undef ROW
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
