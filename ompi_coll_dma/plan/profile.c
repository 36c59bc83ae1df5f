/* The profile of the host engine. */
#include "plan/profile.h"

#include "plan/fields.h"

static const char *const names[] = {
#define NAME(name, value, help) #name,
    DMA_PROFILE_FIELDS(NAME)
#undef NAME
};
#define NFIELDS (sizeof(names) / sizeof(names[0]))
_Static_assert(sizeof(dma_profile_t) == NFIELDS * sizeof(uint64_t) && NFIELDS <= DMA_FIELDS_MAX,
               "dma_fields_load writes a profile as an array");

dma_profile_t dma_profile_default(void)
{
    return (dma_profile_t){
#define INIT(name, value, help) .name = (value),
        DMA_PROFILE_FIELDS(INIT)
#undef INIT
    };
}

dma_status_t dma_profile_load(const char *path, dma_profile_t *profile, char *error, size_t error_bytes)
{
    return dma_fields_load(names, NFIELDS, path, (uint64_t *)profile, error, error_bytes);
}
