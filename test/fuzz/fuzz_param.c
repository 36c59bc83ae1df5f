/* Values of parameters: core/params.c. An input is the number of the parameter, one byte, and the text; or its name and "=". */
#include <stdlib.h>
#include <string.h>

#include "dma/params.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char why[DMA_PARAM_TEXT_BYTES] = "", *text = calloc(1, bytes + 1), *value;
    const dma_param_t *param = NULL;
    dma_params_t params, before;

    if (!text || !bytes) {
        free(text);
        return 0;
    }
    memcpy(text, data, bytes);
    memset(&params, 0, sizeof(params));
    dma_params_default(&params);
    before = params;
    if ((value = strchr(text, '='))) {
        *value++ = '\0';
        for (unsigned i = 0; i < DMA_PARAM_COUNT; i++) {
            param = strcmp(dma_param_table[i].name, text) ? param : &dma_param_table[i];
        }
    }
    if (!param) {
        param = &dma_param_table[*data % DMA_PARAM_COUNT];
        value = text + 1;
    }
    if (dma_param_set(&params, param, value, why) != DMA_OK) {
        FUZZ_MUST(*why && strnlen(why, sizeof(why)) < sizeof(why));
        FUZZ_MUST(!memcmp(&params, &before, sizeof(params))); /* the parameter keeps its value */
    }
    dma_param_describe(param, why, sizeof(why));
    free(text);
    return 0;
}
