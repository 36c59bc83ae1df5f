/* The texts of reasons: see dma/reason.h. */
#include "dma/reason.h"

#define COMM true
#define PROC false

const dma_reason_row_t dma_reasons[DMA_REASON_COUNT] = {
    [DMA_REASON_NONE] = {.name = "", .text = "", .effect = "", .action = ""},
#define DMA_REASON(scope, name_, text_, effect_, action_)                                                              \
    [DMA_REASON_##name_] = {.name = #name_, .text = text_, .effect = effect_, .action = action_, .of_comm = scope},
#include "dma/reasons_table.h"
#undef DMA_REASON
};
