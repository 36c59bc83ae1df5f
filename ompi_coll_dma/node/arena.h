/*
 * Arenas: the shared memory that a process exposes to the ranks of its node.
 *
 * An arena is one file without a name. It is a memfd, or, where peers cannot open that (other pid namespace, no
 * memfd_create), a file in the job's session directory that is unlinked as soon as the peers have opened it. Its
 * pages are allocated before use, so that a full tmpfs is an error at that point and not a SIGBUS later. Only the
 * owner's user can open it.
 *
 *     0      dma_arena_head_t: magic, nonce (proves that a mapping is of the right file)
 *     64     dma_bell_t: wakes a thread of the owner     written by the owner and by peers
 *     128    blocks, each aligned to 128 bytes, beginning with dma_block_head_t
 *
 * A block belongs to one communicator. Each peer accesses it until the peer leaves the communicator. As its last
 * access, the peer decrements the block's `readers`. When `readers` is 0, the owner may reuse the block if it has
 * retired it. No process waits for that.
 *
 * The owner holds an exclusive lock (open file description lock) on the file as long as it lives. A peer that finds
 * the file unlocked knows that the owner has ended, whatever pid namespace the owner was in. Peers do not unmap an
 * arena while a communicator uses the mapping.
 */
#ifndef DMA_NODE_ARENA_H
#define DMA_NODE_ARENA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"
#include "node/bell.h"

#define DMA_ARENA_MAGIC UINT64_C(0x31616d642f6c6c6f) /* "oll/dma1" */
#define DMA_ARENA_ALIGN 128

typedef struct dma_arena_head {
    uint64_t magic;
    uint64_t nonce;
    uint64_t bytes;
    char pad[40];
    dma_bell_t bell; /* in a line of its own: all ranks read it in each call in device memory */
} dma_arena_head_t;

_Static_assert(sizeof(dma_arena_head_t) <= DMA_ARENA_ALIGN, "the first block follows");

/* Of an arena that is mapped at `base`. */
static inline dma_bell_t *dma_arena_bell(char *base)
{
    return &((dma_arena_head_t *)base)->bell;
}

typedef struct dma_block_head {
    _Atomic uint32_t readers; /* peers that may still access this block */
    _Atomic int32_t poison;   /* 0, or the negative dma_status_t with which this rank has failed the communicator */
} dma_block_head_t;

typedef enum dma_arena_kind { DMA_ARENA_MEMFD, DMA_ARENA_FILE } dma_arena_kind_t;

typedef struct dma_arena dma_arena_t;

/* Creates an arena. `bytes` is its maximum size; it gets less if the limit of file sizes (RLIMIT_FSIZE) is lower.
 * Pages are allocated with the blocks. `dir`: the directory of a FILE arena. On failure *what names the call that
 * failed, and errno is set. */
dma_status_t dma_arena_create(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **arena,
                              const char **what);
void dma_arena_destroy(dma_arena_t *arena);
/* Keeps the arena mapped in this process until the process ends, even if it is destroyed: a device may access it. */
void dma_arena_keep_mapped(dma_arena_t *arena);

/* Allocates a block. Its first `zeroed` bytes are 0, except for the member `readers`. Returns NULL if there is no
 * room even after retired blocks have been reclaimed. */
void *dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers);
/* The owner gives up a block. Its memory is reclaimed when all readers have left it. */
void dma_arena_retire(dma_arena_t *arena, void *block);
/* A peer gives up a block: its last access. */
void dma_block_leave(void *block);

char *dma_arena_base(const dma_arena_t *arena);
size_t dma_arena_bytes(const dma_arena_t *arena);
int dma_arena_fd(const dma_arena_t *arena);
uint64_t dma_arena_nonce(const dma_arena_t *arena);
/* The path of a FILE arena; "" after dma_arena_unlink and for a MEMFD. */
const char *dma_arena_path(const dma_arena_t *arena);
void dma_arena_unlink(dma_arena_t *arena);
/* Bytes in blocks that are in use, or retired and not yet left by all readers. */
size_t dma_arena_used(dma_arena_t *arena);

/* 64 random bits from the kernel. */
uint64_t dma_random64(void);

#endif
