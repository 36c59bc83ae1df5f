/*
 * The profile of a network: the constants of the cost model of calls between nodes.
 *
 * The same kind of text file as the host engine's profile (fields.h). The defaults are of a cluster with eight adapters of
 * 400 Gbit/s per node, or over TCP of one with an Ethernet of 10 Gbit/s. `local_` constants stand for the collectives inside
 * a node, whose own model is asked for nothing here: they are steps of a longer way.
 */
#ifndef DMA_PLAN_NET_PROFILE_H
#define DMA_PLAN_NET_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dma/status.h"

/* name, default, what it is */
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

/* Messages of a pipeline: as long on the wire as four latencies, or collectives inside the node, so that what a message costs
 * beside hardly counts. Over TCP, where larger ones gain nothing and fill the buffers of switches, less. */
uint64_t dma_net_profile_chunk(const dma_net_profile_t *profile, bool over_tcp);

/* Text to profile, as dma_profile_parse. `rails` and rates are not 0. */
dma_status_t dma_net_profile_parse(const char *text, dma_net_profile_t *profile, char *error, size_t error_bytes);
dma_status_t dma_net_profile_load(const char *path, dma_net_profile_t *profile, char *error, size_t error_bytes);
void dma_net_profile_print(const dma_net_profile_t *profile, FILE *out);

#endif
