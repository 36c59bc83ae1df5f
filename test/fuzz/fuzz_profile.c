/* Profiles, profiles/NAME.txt: plan/profile.c, plan/fields.c. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "plan/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dma_profile_t profile = dma_profile_default(), before = profile;
    char path[256], error[200] = "";

    if (fuzz_write("profile", data, bytes)) {
        snprintf(path, sizeof(path), "%s/profile", fuzz_dir());
        if (dma_profile_load(path, &profile, error, sizeof(error)) != DMA_OK) {
            FUZZ_MUST(*error && strlen(error) < sizeof(error));
            profile = before; /* valid only if the function returned DMA_OK */
        }
    }
    return 0;
}
