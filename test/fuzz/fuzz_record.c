/* Records of coll_dma_accept: engine/sdma/proof/record.c. */
#include <stdio.h>
#include <string.h>

#include "engine/sdma/proof/record.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    dma_record_result_t results[DMA_RECORD_FEATURES];
    char why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;

    nowhere = nowhere ? nowhere : fopen("/dev/null", "w");
    if (dma_record_parse((const char *)data, bytes, &record, why) != DMA_OK) {
        FUZZ_MUST(*why && strnlen(why, sizeof(why)) < sizeof(why));
        return 0;
    }
    for (size_t i = 0; i < record.n; i++) {
        dma_record_print(&record.sections[i], nowhere);
        FUZZ_MUST(dma_record_find(&record, &record.sections[i].key, results, why) == DMA_OK);
    }
    dma_record_free(&record);
    return 0;
}
