/*
 * Engine profiles: the constants of the cost model.
 *
 * A profile is a small text file, one "name value" per line, '#' begins a comment. All ranks of a communicator use rank
 * 0's, which travels in set-up, so a profile is plain integers: times in picoseconds, rates in MB/s (bytes per
 * microsecond), and the model computes in integers, so that all ranks choose alike.
 */
#ifndef DMA_PLAN_PROFILE_H
#define DMA_PLAN_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "dma/plan.h"

#define DMA_PROFILE_CACHE (512u << 10) /* about a level-2 cache */
/* Bytes that are never cheaper in a ring: where lines are dear to write, the flags of a second meeting are, too. */
#define DMA_PROFILE_HEAD 1024

/* name, default, what it is. The defaults are the host engine's on one machine; what depends most on the machine is
 * measured (core/setup/measure.h) unless a file says it. */
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

/* Text to profile: every name once, nothing unknown, rates not 0, no value above 2^40. On error `error` says which line
 * and why, and *profile is not touched. */
dma_status_t dma_profile_parse(const char *text, dma_profile_t *profile, char *error, size_t error_bytes);
/* The same from a file. */
dma_status_t dma_profile_load(const char *path, dma_profile_t *profile, char *error, size_t error_bytes);

/* The cheapest chunk among `least`, twice that, ... `most`, and what it costs. */
uint64_t dma_profile_best_chunk(uint64_t (*cost_of)(const dma_profile_t *, const dma_plan_req_t *, uint64_t chunk),
                                const dma_profile_t *profile, const dma_plan_req_t *req, uint32_t least, uint32_t most,
                                uint32_t *chunk);

/* Sums and products of picoseconds: wide enough that no profile and no size wraps them. */
__extension__ typedef unsigned __int128 dma_wide_t;

static inline dma_wide_t dma_wide_max(dma_wide_t a, dma_wide_t b)
{
    return a > b ? a : b;
}

/* Of two rates. */
static inline uint64_t dma_profile_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rate at which buffers are filled that are used in turn and read by others: `mbps`, and once their caches have dropped
 * what was there before, as `ring` bytes take its place, about three times as much. */
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

/* Bytes up to which a block is cheaper in a slot, which is one of few and written while its last reader still has it in its
 * cache, than in the chunks of a ring of so many bytes, which are announced and acknowledged beside the descriptors. */
static inline uint64_t dma_profile_head(const dma_profile_t *p, uint64_t ring)
{
    uint64_t fill = dma_profile_fill(p, ring);
    dma_wide_t meeting = p->enter_ps + 2 * (dma_wide_t)p->peer_ps, head;

    if (fill <= p->slot_mbps) {
        return UINT64_MAX;
    }
    head = meeting * p->slot_mbps / 1000000 * fill / (fill - p->slot_mbps);
    head = head < DMA_PROFILE_HEAD ? DMA_PROFILE_HEAD : head;
    return head > UINT64_MAX ? UINT64_MAX : (uint64_t)head;
}

/* What `work` takes a rank that shares its core (in sixteenths), with so many switches. */
static inline uint64_t dma_profile_shared(const dma_profile_t *p, dma_wide_t work, uint64_t share, uint64_t switches)
{
    dma_wide_t all = work * share / 16 + (share > 16 ? (dma_wide_t)p->switch_ps * share / 16 * switches : 0);

    return all > UINT64_MAX ? UINT64_MAX : (uint64_t)all;
}

#endif
