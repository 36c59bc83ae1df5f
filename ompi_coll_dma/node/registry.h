/*
 * The registry: the mappings of arenas in this process, one per arena, shared by all communicators.
 *
 * An arena is identified by its nonce. The arenas of this process itself are in the registry too and are never mapped
 * a second time. So ranks that are threads of one process (in unit tests) share one mapping, and a race detector sees
 * their races.
 *
 * A mapping is kept for later communicators. It is dropped when no communicator uses it and the owner of the arena has
 * ended, or when this process drops all unused mappings.
 */
#ifndef DMA_NODE_REGISTRY_H
#define DMA_NODE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dma/reason.h"
#include "dma/status.h"
#include "node/arena.h"

/* The data with which peers find an arena: a process sends it to its peers in set-up. */
typedef struct dma_arena_id {
    uint64_t nonce;
    uint64_t bytes;
    uint64_t pid_namespace; /* inode number of the owner's pid namespace; `pid` is valid only in it */
    int32_t pid;
    int32_t fd;
    char path[256]; /* of a FILE arena, otherwise "" */
} dma_arena_id_t;

void dma_arena_identify(const dma_arena_t *arena, dma_arena_id_t *id);

typedef struct dma_mapping {
    struct dma_mapping *next;
    char *base;
    size_t bytes;
    uint64_t nonce;
    int fd;    /* of a peer's arena; -1: an arena of this process */
    pid_t pid; /* 0: the owner is in another pid namespace */
    unsigned uses;
} dma_mapping_t;

/* Adds and removes an arena of this process. */
dma_status_t dma_registry_add(const dma_arena_t *arena);
void dma_registry_remove(const dma_arena_t *arena);

/* Gets the mapping of an arena, and maps it if necessary. DMA_UNSUPPORTED: this process cannot map it; *why says
 * why. */
dma_status_t dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why);
/* One more use of a mapping that is in use. */
void dma_registry_share(dma_mapping_t *mapping);
void dma_registry_put(dma_mapping_t *mapping);

/* Drops all mappings that no communicator uses. */
void dma_registry_drop_idle(void);

/* Whether the owner of the arena still lives. */
bool dma_mapping_alive(const dma_mapping_t *mapping);

#endif
