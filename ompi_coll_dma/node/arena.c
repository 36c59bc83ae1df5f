/* Arenas: see arena.h. The owner keeps the list of blocks in private memory, sorted by offset. */
#include "node/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dma/file_room.h"

#define ALLOCATE_PIECE ((size_t)256 << 10) /* bytes allocated at once: short enough to complete between two signals */

typedef struct extent {
    struct extent *next; /* sorted by offset */
    size_t offset, bytes;
    int retired;
} extent_t;

struct dma_arena {
    char *base;
    size_t bytes;
    size_t allocated; /* bytes, from offset 0 on, whose pages are allocated */
    size_t used;
    int fd;
    uint64_t nonce;
    atomic_bool keep_mapped; /* the mapping outlives the arena */
    extent_t *extents;
    char path[256];
};

uint64_t dma_random64(void)
{
    uint64_t value = 0;

    /* getrandom blocks only until the kernel's generator is initialized, at boot. */
    while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    }
    return value;
}

static int open_file(dma_arena_kind_t kind, const char *dir, char *path, size_t path_bytes, const char **what)
{
    int n;

    if (kind == DMA_ARENA_MEMFD) {
        *what = "memfd_create";
        return memfd_create("coll_dma", MFD_CLOEXEC);
    }
    *what = "open in the session directory";
    n = dir ? snprintf(path, path_bytes, "%s/coll_dma.%016llx", dir, (unsigned long long)dma_random64()) : -1;
    if (n < 0 || (size_t)n >= path_bytes) {
        path[0] = '\0';
        errno = ENOENT;
        return -1;
    }
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Allocates pages for the first `bytes` bytes, piece by piece. In older kernels a signal interrupts the allocation,
 * which then undoes its work, so that a periodic timer could keep one large call from ever completing. If memory runs
 * out, the pieces of this call are given back: other users of the tmpfs may need them. */
static int allocate_pages(dma_arena_t *arena, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = arena->allocated;
    int error;

    bytes = (bytes + page - 1) / page * page;
    if (bytes <= arena->allocated) {
        return 0;
    }
    while (at < bytes) {
        size_t piece = bytes - at < ALLOCATE_PIECE ? bytes - at : ALLOCATE_PIECE;

        if (!dma_file_allocate(arena->fd, at, piece)) {
            error = errno;
            (void)fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)arena->allocated,
                            (off_t)(at - arena->allocated));
            errno = error;
            return -1;
        }
        at += piece;
    }
    arena->allocated = bytes;
    return 0;
}

static int lock_file(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock);
}

dma_status_t dma_arena_create(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **result,
                              const char **what)
{
    dma_arena_t *arena = calloc(1, sizeof(*arena));
    dma_arena_head_t *head;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int saved;

    *what = "calloc";
    if (!arena) {
        return DMA_ERR_NOMEM;
    }
    arena->bytes = dma_file_limit((bytes + page - 1) / page * page) / page * page;
    if (arena->bytes < DMA_ARENA_ALIGN) {
        *what = "the limit of a file's size";
        errno = EFBIG;
        goto free_arena;
    }
    arena->fd = open_file(kind, dir, arena->path, sizeof(arena->path), what);
    if (arena->fd < 0) {
        goto free_arena;
    }
    *what = "fchmod";
    if (fchmod(arena->fd, 0600)) {
        goto close_file;
    }
    *what = "fcntl(F_OFD_SETLK)";
    if (lock_file(arena->fd)) {
        goto close_file;
    }
    *what = "ftruncate";
    if (ftruncate(arena->fd, (off_t)arena->bytes)) {
        goto close_file;
    }
    *what = "posix_fallocate";
    if (allocate_pages(arena, DMA_ARENA_ALIGN)) {
        goto close_file;
    }
    *what = "mmap";
    arena->base = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);
    if (arena->base == MAP_FAILED) {
        goto close_file;
    }
    arena->nonce = dma_random64();
    head = (dma_arena_head_t *)arena->base;
    *head = (dma_arena_head_t){.magic = DMA_ARENA_MAGIC, .nonce = arena->nonce, .bytes = arena->bytes};
    *result = arena;
    return DMA_OK;

close_file:
    saved = errno;
    dma_arena_unlink(arena);
    close(arena->fd);
    errno = saved;
free_arena:
    free(arena);
    return DMA_ERR_NOMEM;
}

void dma_arena_destroy(dma_arena_t *arena)
{
    extent_t *next;

    for (extent_t *e = arena->extents; e; e = next) {
        next = e->next;
        free(e);
    }
    dma_arena_unlink(arena);
    if (!atomic_load_explicit(&arena->keep_mapped, memory_order_relaxed)) {
        munmap(arena->base, arena->bytes);
    }
    close(arena->fd);
    free(arena);
}

void dma_arena_keep_mapped(dma_arena_t *arena)
{
    atomic_store_explicit(&arena->keep_mapped, true, memory_order_relaxed);
}

/* Reclaims retired blocks that have no readers. */
static void reclaim_retired(dma_arena_t *arena)
{
    for (extent_t **link = &arena->extents; *link;) {
        extent_t *e = *link;
        dma_block_head_t *head = (dma_block_head_t *)(arena->base + e->offset);

        /* acquire: pairs with dma_block_leave, so that the last peer's accesses come before our next use */
        if (e->retired && atomic_load_explicit(&head->readers, memory_order_acquire) == 0) {
            *link = e->next;
            arena->used -= e->bytes;
            free(e);
        } else {
            link = &e->next;
        }
    }
}

void *dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers)
{
    size_t at = DMA_ARENA_ALIGN, need = (bytes + DMA_ARENA_ALIGN - 1) / DMA_ARENA_ALIGN * DMA_ARENA_ALIGN;
    extent_t **link, *e;
    dma_block_head_t *head;

    reclaim_retired(arena);
    /* first fit: there are few blocks, and communicators are freed in any order */
    for (link = &arena->extents; *link && (*link)->offset - at < need; link = &(*link)->next) {
        at = (*link)->offset + (*link)->bytes;
    }
    if (need > arena->bytes || at > arena->bytes - need || allocate_pages(arena, at + need) ||
        !(e = malloc(sizeof(*e)))) {
        return NULL;
    }
    e->next = *link;
    e->offset = at;
    e->bytes = need;
    e->retired = 0;
    *link = e;
    arena->used += need;
    head = (dma_block_head_t *)(arena->base + at);
    memset(head, 0, zeroed);
    atomic_store_explicit(&head->readers, readers,
                          memory_order_relaxed); /* peers see it after the messages of set-up */
    return head;
}

void dma_arena_retire(dma_arena_t *arena, void *block)
{
    size_t offset = (size_t)((char *)block - arena->base);

    for (extent_t *e = arena->extents; e; e = e->next) {
        if (e->offset == offset) {
            e->retired = 1;
        }
    }
}

void dma_block_leave(void *block)
{
    dma_block_head_t *head = block;

    /* release: all accesses of this peer to the block come before its owner reuses it */
    atomic_fetch_sub_explicit(&head->readers, 1, memory_order_release);
}

char *dma_arena_base(const dma_arena_t *arena)
{
    return arena->base;
}

size_t dma_arena_bytes(const dma_arena_t *arena)
{
    return arena->bytes;
}

int dma_arena_fd(const dma_arena_t *arena)
{
    return arena->fd;
}

uint64_t dma_arena_nonce(const dma_arena_t *arena)
{
    return arena->nonce;
}

const char *dma_arena_path(const dma_arena_t *arena)
{
    return arena->path;
}

void dma_arena_unlink(dma_arena_t *arena)
{
    if (arena->path[0]) {
        unlink(arena->path);
        arena->path[0] = '\0';
    }
}

size_t dma_arena_used(dma_arena_t *arena)
{
    reclaim_retired(arena);
    return arena->used;
}
