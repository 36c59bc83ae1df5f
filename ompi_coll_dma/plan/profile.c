/* The host engine's profile. */
#include "plan/profile.h"

#include <string.h>

#include "plan/fields.h"

static const dma_field_t fields[] = {
#define FIELD(name, value, help) {#name, help},
    DMA_PROFILE_FIELDS(FIELD)
#undef FIELD
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))
_Static_assert(sizeof(dma_profile_t) == NFIELDS * sizeof(uint64_t) && NFIELDS <= DMA_FIELDS_MAX,
               "a profile is its fields, in the order of the table");

dma_profile_t dma_profile_default(void)
{
    return (dma_profile_t){
#define INIT(name, value, help) .name = (value),
        DMA_PROFILE_FIELDS(INIT)
#undef INIT
    };
}

static dma_status_t take(dma_status_t status, const uint64_t *values, dma_profile_t *profile)
{
    if (status == DMA_OK) {
        memcpy(profile, values, sizeof(*profile));
    }
    return status;
}

dma_status_t dma_profile_parse(const char *text, dma_profile_t *profile, char *error, size_t error_bytes)
{
    uint64_t values[NFIELDS];

    return take(dma_fields_parse(fields, NFIELDS, text, values, error, error_bytes), values, profile);
}

dma_status_t dma_profile_load(const char *path, dma_profile_t *profile, char *error, size_t error_bytes)
{
    uint64_t values[NFIELDS];

    return take(dma_fields_load(fields, NFIELDS, path, values, error, error_bytes), values, profile);
}
