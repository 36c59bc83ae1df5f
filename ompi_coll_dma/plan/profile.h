/*
 * Profiles: the constants of the cost model.
 *
 * A profile is a small text file in the format of fields.h. All ranks of a communicator use the profile of rank 0,
 * which is sent in set-up. Its values are integers, times in picoseconds and rates in MB/s (bytes per microsecond),
 * and the model computes in integers, so that all ranks choose the same variant.
 */
#ifndef DMA_PLAN_PROFILE_H
#define DMA_PLAN_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "dma/plan.h"

#define DMA_PROFILE_CACHE (512u << 10) /* about the size of a level-2 cache */
/* Blocks of at most so many bytes are never cheaper in a ring of chunks than in a slot: on machines where a write to a
 * shared line is expensive, the flags of the ring are expensive too. */
#define DMA_PROFILE_HEAD 1024

/* X(name, default, description). The defaults are those of the host engine on one machine. core/setup/measure.h
 * measures the constants that differ most between machines, unless a profile file sets them. */
#define DMA_PROFILE_FIELDS(X)                                                                                          \
    X(enter_ps, 80000, "publishing a descriptor and seeing a peer's")                                                  \
    X(peer_ps, 30000, "each further peer: one line to fetch")                                                          \
    X(copy_mbps, 70000, "copy within a core's own cache")                                                              \
    X(pull_mbps, 55000, "copy out of a line that another core has written")                                            \
    X(slot_mbps, 55000, "copy into a slot that another core has just read")                                            \
    X(push_mbps, 55000, "copy into a chunk of a ring that another core has just read")                                 \
    X(memory_mbps, 16000, "copy whose data has left the cache")                                                        \
    X(cache_bytes, 16777216, "bytes of a call that stay in a core's cache")                                            \
    X(step_ps, 250000, "one chunk of a pipeline: two flags per peer")                                                  \
    X(cross_ps, 1900000, "one cross-memory copy: the system call")                                                     \
    X(cross_page_ps, 100000, "each page of it")                                                                        \
    X(cross_mbps, 40000, "its copy")                                                                                   \
    X(switch_ps, 900000, "a switch to another rank on the same core")

typedef struct dma_profile {
#define DMA_PROFILE_MEMBER(name, value, help) uint64_t name;
    DMA_PROFILE_FIELDS(DMA_PROFILE_MEMBER)
#undef DMA_PROFILE_MEMBER
} dma_profile_t;

/* The built-in profile of the host engine. */
dma_profile_t dma_profile_default(void);

/* Reads a file in the format of fields.h. On error `error` contains the line and the reason, and *profile is
 * unchanged. */
dma_status_t dma_profile_load(const char *path, dma_profile_t *profile, char *error, size_t error_bytes);

/* Returns the lowest cost over the chunk sizes `least`, 2 * `least`, ... up to `most`, and sets *chunk to that size. */
uint64_t dma_profile_best_chunk(uint64_t (*cost_of)(const dma_profile_t *, const dma_plan_req_t *, uint64_t chunk),
                                const dma_profile_t *profile, const dma_plan_req_t *req, uint32_t least, uint32_t most,
                                uint32_t *chunk);

/* Sums and products of picoseconds: wide enough not to wrap with any profile and any size. */
__extension__ typedef unsigned __int128 dma_wide_t;

static inline dma_wide_t dma_wide_max(dma_wide_t a, dma_wide_t b)
{
    return a > b ? a : b;
}

/* The smaller of two rates. */
static inline uint64_t dma_profile_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rate at which a rank fills buffers that it uses in turn and that other ranks read. It is `mbps` while the
 * readers' caches still hold the previous content of the buffer, and about three times as much if the buffers are so
 * large (`ring` bytes together) that other content has displaced it. */
static inline uint64_t dma_profile_refill(const dma_profile_t *p, uint64_t mbps, uint64_t ring)
{
    return ring < DMA_PROFILE_CACHE ? mbps : dma_profile_min(p->copy_mbps, 3 * mbps);
}

static inline uint64_t dma_profile_fill(const dma_profile_t *p, uint64_t ring)
{
    return dma_profile_refill(p, p->push_mbps, ring);
}

static inline uint64_t dma_profile_slot_fill(const dma_profile_t *p, uint64_t slots)
{
    return dma_profile_refill(p, p->slot_mbps, slots);
}

/* Picoseconds for `bytes` at `mbps`. */
static inline dma_wide_t dma_profile_ps(uint64_t bytes, uint64_t mbps)
{
    return (dma_wide_t)bytes * 1000000 / mbps;
}

/* The size up to which a block is cheaper in a slot than in a ring of `ring` bytes of chunks. There are few slots, so a
 * slot is written while its last reader still has it in its cache, which makes the write slower. But a ring needs flags
 * in addition to the descriptors, with which chunks are announced and acknowledged. */
static inline uint64_t dma_profile_head(const dma_profile_t *p, uint64_t ring)
{
    uint64_t fill = dma_profile_fill(p, ring);
    dma_wide_t sync_ps = p->enter_ps + 2 * (dma_wide_t)p->peer_ps, head;

    if (fill <= p->slot_mbps) {
        return UINT64_MAX;
    }
    head = sync_ps * p->slot_mbps / 1000000 * fill / (fill - p->slot_mbps);
    head = head < DMA_PROFILE_HEAD ? DMA_PROFILE_HEAD : head;
    return head > UINT64_MAX ? UINT64_MAX : (uint64_t)head;
}

/* The time for `work` picoseconds on a rank that shares its core. `ranks_per_core_x16`: ranks per core, in sixteenths;
 * `switches`: switches to the other ranks of the core. */
static inline uint64_t dma_profile_shared(const dma_profile_t *p, dma_wide_t work, uint64_t ranks_per_core_x16,
                                          uint64_t switches)
{
    dma_wide_t all = work * ranks_per_core_x16 / 16 +
                     (ranks_per_core_x16 > 16 ? (dma_wide_t)p->switch_ps * ranks_per_core_x16 / 16 * switches : 0);

    return all > UINT64_MAX ? UINT64_MAX : (uint64_t)all;
}

#endif
