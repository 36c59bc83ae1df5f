/* The profile of a network. */
#include "plan/cluster/net_profile.h"

#include <string.h>

#include "plan/fields.h"

static const dma_field_t fields[] = {
#define FIELD(name, value, help) {#name, help},
    DMA_NET_PROFILE_FIELDS(FIELD)
#undef FIELD
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))
_Static_assert(sizeof(dma_net_profile_t) == NFIELDS * sizeof(uint64_t) && NFIELDS <= DMA_FIELDS_MAX,
               "a profile is its fields, in the order of the table");

dma_net_profile_t dma_net_profile_default(void)
{
    return (dma_net_profile_t){
#define INIT(name, value, help) .name = (value),
        DMA_NET_PROFILE_FIELDS(INIT)
#undef INIT
    };
}

dma_net_profile_t dma_net_profile_tcp(void)
{
    dma_net_profile_t profile = dma_net_profile_default();

    profile.latency_ps = 30000000;
    profile.message_ps = 5000000;
    profile.stack_mbps = 2500;
    profile.nic_mbps = 1190;
    profile.rails = 1;
    return profile;
}

uint64_t dma_net_profile_chunk(const dma_net_profile_t *profile, bool over_tcp)
{
    const uint64_t least = UINT64_C(16) << 10, most = over_tcp ? least : UINT64_C(1) << 20;
    uint64_t wait = profile->latency_ps > profile->local_ps ? profile->latency_ps : profile->local_ps;
    uint64_t chunk = least;

    while (chunk < most && chunk * 2 / 4 <= wait / 1000 * profile->nic_mbps / 1000) {
        chunk *= 2;
    }
    return chunk;
}

static dma_status_t take(dma_status_t status, const uint64_t *values, dma_net_profile_t *profile, char *error,
                         size_t error_bytes)
{
    dma_net_profile_t read;

    if (status != DMA_OK) {
        return status;
    }
    memcpy(&read, values, sizeof(read));
    if (!read.rails || !read.nic_mbps || !read.stack_mbps || !read.local_mbps || !read.copy_mbps) {
        snprintf(error, error_bytes, "rails and rates must not be 0");
        return DMA_ERR_ARG;
    }
    *profile = read;
    return DMA_OK;
}

dma_status_t dma_net_profile_parse(const char *text, dma_net_profile_t *profile, char *error, size_t error_bytes)
{
    uint64_t values[NFIELDS];

    return take(dma_fields_parse(fields, NFIELDS, text, values, error, error_bytes), values, profile, error,
                error_bytes);
}

dma_status_t dma_net_profile_load(const char *path, dma_net_profile_t *profile, char *error, size_t error_bytes)
{
    uint64_t values[NFIELDS];

    return take(dma_fields_load(fields, NFIELDS, path, values, error, error_bytes), values, profile, error,
                error_bytes);
}

void dma_net_profile_print(const dma_net_profile_t *profile, FILE *out)
{
    uint64_t values[NFIELDS];

    memcpy(values, profile, sizeof(values));
    dma_fields_print(fields, NFIELDS, values, out);
}
