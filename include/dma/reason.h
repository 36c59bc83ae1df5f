/*
 * Reasons why coll/dma leaves its fast path. reasons_table.h has a row for each.
 */
#ifndef DMA_REASON_H
#define DMA_REASON_H

#include <stdbool.h>

typedef enum dma_reason {
    DMA_REASON_NONE, /* there is none; false in a condition */
#define DMA_REASON(scope, name, text, effect, action) DMA_REASON_##name,
#include "dma/reasons_table.h"
#undef DMA_REASON
    DMA_REASON_COUNT
} dma_reason_t;

/* A row of the table. */
typedef struct dma_reason_row {
    const char *name, *text, *effect, *action;
    bool of_comm; /* it is counted for a communicator */
} dma_reason_row_t;

extern const dma_reason_row_t dma_reasons[DMA_REASON_COUNT];

/* The text of a reason; "" of DMA_REASON_NONE. */
static inline const char *dma_reason_text(dma_reason_t reason)
{
    return dma_reasons[reason].text;
}

#endif
