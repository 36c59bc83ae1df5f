/*
 * Arenas: the shared memory that one process exposes to the ranks of its node.
 *
 * An arena is one file without a name: a memfd, or, where peers cannot reach that (other pid namespace, no memfd_create),
 * a file in the job's session directory that is unlinked as soon as the peers have opened it. Its pages are allocated for
 * real before use, so that a full tmpfs is an error here and not a SIGBUS later. It is readable by its owner's user only.
 *
 *     0      dma_arena_head_t: magic, nonce (the proof that a mapping is of the right file)
 *     128    blocks, each 128-byte aligned, beginning with dma_block_head_t
 *
 * A block belongs to a communicator. Peers read and write it until they leave the communicator, which happens at
 * different times and is local: each subtracts itself from the block's `readers` as its last access, and the owner takes a
 * retired block back when nobody is left. Nobody ever waits for that.
 *
 * The owner holds a lock (open file description, exclusive) on the file as long as it lives: peers that see the lock gone
 * know that the process is gone, in whatever pid namespace it was. Peers never unmap while a communicator uses a mapping.
 */
#ifndef DMA_NODE_ARENA_H
#define DMA_NODE_ARENA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

#define DMA_ARENA_MAGIC UINT64_C(0x31616d642f6c6c6f) /* "oll/dma1" */
#define DMA_ARENA_ALIGN 128

typedef struct dma_arena_head {
    uint64_t magic;
    uint64_t nonce;
    uint64_t bytes;
} dma_arena_head_t;

typedef struct dma_block_head {
    _Atomic uint32_t readers; /* peers that may still touch this block */
    _Atomic int32_t poison;   /* a dma_status_t < 0: this rank has failed the communicator */
} dma_block_head_t;

typedef enum dma_arena_kind { DMA_ARENA_MEMFD, DMA_ARENA_FILE } dma_arena_kind_t;

typedef struct dma_arena dma_arena_t;

/* `bytes`: the most it may ever hold, or less if files may not be so large here; memory is taken as blocks are. `dir`: where
 * a FILE goes. On failure *what names the call that failed (errno says why). */
dma_status_t dma_arena_create(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **arena,
                              const char **what);
void dma_arena_destroy(dma_arena_t *arena);
/* A device may look at it as long as the process lives: destroyed or not, it stays mapped here. */
void dma_arena_keep_mapped(dma_arena_t *arena);

/* A block that begins with `zeroed` bytes of zero but for `readers`, or NULL when there is no room even after taking
 * retired blocks back. */
void *dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers);
/* The owner is done with it; the memory comes back when the readers are. */
void dma_arena_retire(dma_arena_t *arena, void *block);
/* A peer is done with a block: its last access. */
void dma_block_leave(void *block);

char *dma_arena_base(const dma_arena_t *arena);
size_t dma_arena_bytes(const dma_arena_t *arena);
int dma_arena_fd(const dma_arena_t *arena);
uint64_t dma_arena_nonce(const dma_arena_t *arena);
/* The path of a FILE arena, "" once unlinked or for a MEMFD. */
const char *dma_arena_path(const dma_arena_t *arena);
void dma_arena_unlink(dma_arena_t *arena);
/* Bytes in blocks that are in use, or retired and still read by somebody. */
size_t dma_arena_used(dma_arena_t *arena);

/* 64 random bits from the kernel. */
uint64_t dma_random64(void);

#endif
