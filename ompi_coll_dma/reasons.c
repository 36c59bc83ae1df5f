/* The texts of reasons: see dma/reason.h. */
#include "dma/reason.h"

#include <string.h>

#define COMM true
#define PROC false

const dma_reason_row_t dma_reasons[DMA_REASON_COUNT] = {
    [DMA_REASON_NONE] = {.name = "", .text = "", .effect = ""},
#define DMA_REASON(scope, name_, text_, effect_)                                                                       \
    [DMA_REASON_##name_] = {.name = #name_, .text = text_, .effect = effect_, .of_comm = scope},
#include "dma/reasons_table.h"
#undef DMA_REASON
};

dma_reason_t dma_reason_of(const char *text)
{
    for (int i = DMA_REASON_NONE + 1; i < DMA_REASON_COUNT; i++) {
        size_t n = strlen(dma_reasons[i].text);

        if (!strncmp(text, dma_reasons[i].text, n) && (!text[n] || !strncmp(text + n, ": ", 2))) {
            return (dma_reason_t)i;
        }
    }
    return DMA_REASON_NONE;
}
