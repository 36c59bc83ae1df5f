/*
 * The registry: this process's mappings of arenas, one per arena however many communicators use it.
 *
 * An arena is known by its nonce. Arenas of this very process are in the registry too and are never mapped a second time,
 * so ranks that are threads of one process (unit tests) share one mapping and a race detector sees their races.
 *
 * A mapping is dropped when no communicator uses it and its owner is gone, or at the end; until then it stays for the next
 * communicator.
 */
#ifndef DMA_NODE_REGISTRY_H
#define DMA_NODE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dma/status.h"
#include "node/arena.h"

/* What a process tells its peers about one of its arenas. */
typedef struct dma_arena_id {
    uint64_t nonce;
    uint64_t bytes;
    uint64_t pid_namespace; /* inode of the owner's; its pid means nothing elsewhere */
    int32_t pid;
    int32_t fd;
    char path[256]; /* of a FILE arena, else "" */
} dma_arena_id_t;

void dma_arena_identify(const dma_arena_t *arena, dma_arena_id_t *id);

typedef struct dma_mapping {
    struct dma_mapping *next;
    char *base;
    size_t bytes;
    uint64_t nonce;
    int fd;    /* of a peer's arena; -1: our own */
    pid_t pid; /* 0 where it means nothing here */
    unsigned uses;
} dma_mapping_t;

/* Our own arena: known as long as it lives. */
dma_status_t dma_registry_add(const dma_arena_t *arena);
void dma_registry_remove(const dma_arena_t *arena);

/* The mapping of the arena on a id. DMA_UNSUPPORTED when it cannot be reached from here; *why then says what failed. */
dma_status_t dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, const char **why);
void dma_registry_put(dma_mapping_t *mapping);

/* Drops all mappings that no communicator uses: this process is done with collectives. */
void dma_registry_drop_idle(void);

/* Is the process that owns this arena still there? */
bool dma_mapping_alive(const dma_mapping_t *mapping);

/* Mappings of other processes' arenas, for tests. */
unsigned dma_registry_size(void);

#endif
