/*
 * The rows of the algorithm table. One file per variant; adding one is a file and a line in variants.c.
 */
#ifndef DMA_PLAN_VARIANTS_H
#define DMA_PLAN_VARIANTS_H

#include "dma/plan.h"

extern const dma_variant_t dma_variant_host_line;  /* host_slot.c */
extern const dma_variant_t dma_variant_host_slot;  /* host_slot.c */
extern const dma_variant_t dma_variant_host_pipe;  /* host_pipe.c */
extern const dma_variant_t dma_variant_host_pair;  /* host_pair.c */
extern const dma_variant_t dma_variant_host_reach; /* host_pair.c */
extern const dma_variant_t dma_variant_pcpy;       /* gpu_push.c */
extern const dma_variant_t dma_variant_b2b;        /* gpu_push.c */
extern const dma_variant_t dma_variant_bcst;       /* gpu_push.c */
extern const dma_variant_t dma_variant_swap;       /* gpu_swap.c */
extern const dma_variant_t dma_variant_halves;     /* gpu_swap.c */

#endif
