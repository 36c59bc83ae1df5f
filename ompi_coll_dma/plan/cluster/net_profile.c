/* The profile of a network. */
#include "plan/cluster/net_profile.h"

#include <stdio.h>

#include "plan/fields.h"

static const char *const names[] = {
#define NAME(name, value, help) #name,
    DMA_NET_PROFILE_FIELDS(NAME)
#undef NAME
};
#define NFIELDS (sizeof(names) / sizeof(names[0]))
_Static_assert(sizeof(dma_net_profile_t) == NFIELDS * sizeof(uint64_t) && NFIELDS <= DMA_FIELDS_MAX,
               "dma_fields_load writes a profile as an array");

#define SMALLEST_CHUNK      (UINT64_C(16) << 10)
#define LARGEST_CHUNK       (UINT64_C(1) << 20)
#define LATENCIES_PER_CHUNK 4

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
    const uint64_t most = over_tcp ? SMALLEST_CHUNK : LARGEST_CHUNK;
    uint64_t wait = profile->latency_ps > profile->local_ps ? profile->latency_ps : profile->local_ps;
    uint64_t chunk = SMALLEST_CHUNK;

    while (chunk < most && 2 * chunk / LATENCIES_PER_CHUNK <= wait / 1000 * profile->nic_mbps / 1000) {
        chunk *= 2;
    }
    return chunk;
}

dma_status_t dma_net_profile_load(const char *path, dma_net_profile_t *profile, char *error, size_t error_bytes)
{
    dma_net_profile_t p;
    dma_status_t status = dma_fields_load(names, NFIELDS, path, (uint64_t *)&p, error, error_bytes);

    if (status != DMA_OK) {
        return status;
    }
    if (!p.rails) {
        snprintf(error, error_bytes, "rails cannot be 0");
        return DMA_ERR_ARG;
    }
    *profile = p;
    return DMA_OK;
}

dma_status_t dma_net_profile_choose(const char *path, bool over_tcp, dma_net_profile_t *profile, char *error,
                                    size_t error_bytes)
{
    *profile = over_tcp ? dma_net_profile_tcp() : dma_net_profile_default();
    return path ? dma_net_profile_load(path, profile, error, error_bytes) : DMA_OK;
}
