/*
 * The profile of a network: the constants of the cost model of calls between nodes.
 *
 * The file has the format of plan/fields.h. The defaults are those of a cluster with eight adapters of 400 Gbit/s per
 * node, or, over TCP, with one 10-Gbit/s Ethernet adapter. The constants `local_` describe the collectives inside a
 * node. They replace the detailed model of those collectives, which are only steps of a longer call here.
 */
#ifndef DMA_PLAN_NET_PROFILE_H
#define DMA_PLAN_NET_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

/* X(name, default, description) */
#define DMA_NET_PROFILE_FIELDS(X)                                                                                      \
    X(latency_ps, 2000000, "a small message, from its send to its receive")                                            \
    X(message_ps, 400000, "each message that a rank sends or receives: work of its core")                              \
    X(stack_mbps, 100000000, "what a core moves through the network's stack, in each direction")                       \
    X(core_ranks, 1, "ranks that share a core")                                                                        \
    X(nic_mbps, 48000, "one adapter, in each direction")                                                               \
    X(burst_bytes, 0, "what an adapter sends at once after a rest, beyond its rate")                                   \
    X(rails, 8, "adapters of a node")                                                                                  \
    X(local_ps, 4000000, "one collective inside a node, with nothing in it")                                           \
    X(local_mbps, 48000, "what one rank takes from one other in it")                                                   \
    X(copy_mbps, 16000, "a copy within a rank's memory")

typedef struct dma_net_profile {
#define DMA_NET_PROFILE_MEMBER(name, value, help) uint64_t name;
    DMA_NET_PROFILE_FIELDS(DMA_NET_PROFILE_MEMBER)
#undef DMA_NET_PROFILE_MEMBER
} dma_net_profile_t;

dma_net_profile_t dma_net_profile_default(void);
dma_net_profile_t dma_net_profile_tcp(void);

/* The size of the messages of a pipeline. On the wire they take as long as four latencies, or as four empty
 * collectives inside the node if those take longer, so that the fixed costs of a message hardly matter. Over TCP they
 * are smaller: larger ones gain nothing and fill the buffers of switches. */
uint64_t dma_net_profile_chunk(const dma_net_profile_t *profile, bool over_tcp);

/* Reads a file, as dma_profile_load. `rails` cannot be 0. */
dma_status_t dma_net_profile_load(const char *path, dma_net_profile_t *profile, char *error, size_t error_bytes);

/* The profile of a job: that of the file `path`, if it is not NULL, or else a built-in one. After an error of the file it is the
 * built-in one. */
dma_status_t dma_net_profile_choose(const char *path, bool over_tcp, dma_net_profile_t *profile, char *error,
                                    size_t error_bytes);

#endif
