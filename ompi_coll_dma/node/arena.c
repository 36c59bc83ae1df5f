/*
 * Arenas: see arena.h. The owner keeps the list of blocks in private memory, because peers can write to the arena.
 *
 * Extents cover the arena from its head to `end`; behind it nothing is in use. Each is in one list: of the blocks in use with the
 * same hash, of the retired blocks, or of the gaps. No two gaps are neighbors, and none is the last extent. So what a call costs
 * depends on the numbers of gaps and retired blocks, and not on the number of blocks in use.
 */
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

#define BUCKETS 256

typedef struct extent {
    struct extent *below, *above; /* its neighbors by offset */
    struct extent *next, **link;  /* in its list, and what points to it there */
    size_t offset, bytes;
    bool is_gap;
} extent_t;

struct dma_arena {
    char *base;
    size_t bytes;
    size_t allocated; /* bytes, from offset 0 on, whose pages are allocated */
    size_t used;
    size_t end;
    int fd;
    uint64_t nonce;
    atomic_bool keep_mapped; /* the mapping outlives the arena */
    extent_t *last;          /* of all extents */
    extent_t *in_use[BUCKETS], *retired, *gaps;
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
    arena->end = DMA_ARENA_ALIGN;
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
    extent_t *below;

    for (extent_t *e = arena->last; e; e = below) {
        below = e->below;
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

/* ---- extents ---- */

static void put_in_list(extent_t **list, extent_t *e)
{
    e->next = *list;
    e->link = list;
    if (e->next) {
        e->next->link = &e->next;
    }
    *list = e;
}

static void take_from_list(extent_t *e)
{
    *e->link = e->next;
    if (e->next) {
        e->next->link = e->link;
    }
}

static extent_t **bucket_of(dma_arena_t *arena, size_t offset)
{
    return &arena->in_use[offset / DMA_ARENA_ALIGN % BUCKETS];
}

/* A new extent above `below`, which may be NULL, in no list. */
static extent_t *insert_extent(dma_arena_t *arena, extent_t *below, size_t offset, size_t bytes)
{
    extent_t *e = malloc(sizeof(*e));

    if (e) {
        e->below = below;
        e->above = below ? below->above : NULL;
        e->offset = offset;
        e->bytes = bytes;
        e->is_gap = false;
        if (below) {
            below->above = e;
        }
        *(e->above ? &e->above->below : &arena->last) = e;
    }
    return e;
}

static void remove_extent(dma_arena_t *arena, extent_t *e)
{
    if (e->below) {
        e->below->above = e->above;
    }
    *(e->above ? &e->above->below : &arena->last) = e->below;
    free(e);
}

/* Makes an extent that is in no list a gap, together with those beside it. */
static void make_gap(dma_arena_t *arena, extent_t *e)
{
    extent_t *above = e->above, *below = e->below;

    if (above && above->is_gap) {
        e->bytes += above->bytes;
        take_from_list(above);
        remove_extent(arena, above);
    }
    if (below && below->is_gap) {
        e->offset = below->offset;
        e->bytes += below->bytes;
        take_from_list(below);
        remove_extent(arena, below);
    }
    if (!e->above) {
        arena->end = e->offset;
        remove_extent(arena, e);
        return;
    }
    e->is_gap = true;
    put_in_list(&arena->gaps, e);
}

/* Reclaims retired blocks that have no readers. */
static void reclaim_retired(dma_arena_t *arena)
{
    extent_t *next;

    for (extent_t *e = arena->retired; e; e = next) {
        dma_block_head_t *head = (dma_block_head_t *)(arena->base + e->offset);

        next = e->next;
        /* acquire: pairs with dma_block_leave, so that the last peer's accesses come before our next use */
        if (atomic_load_explicit(&head->readers, memory_order_acquire) == 0) {
            take_from_list(e);
            arena->used -= e->bytes;
            make_gap(arena, e);
        }
    }
}

/* The newest gap that is large enough, without what it has too much. */
static extent_t *take_gap(dma_arena_t *arena, size_t need)
{
    extent_t *e = arena->gaps, *rest;

    while (e && e->bytes < need) {
        e = e->next;
    }
    if (!e) {
        return NULL;
    }
    take_from_list(e);
    e->is_gap = false;
    if (e->bytes > need && (rest = insert_extent(arena, e, e->offset + need, e->bytes - need))) {
        e->bytes = need;
        rest->is_gap = true;
        put_in_list(&arena->gaps, rest);
    }
    return e;
}

static extent_t *take_end(dma_arena_t *arena, size_t need)
{
    extent_t *e;

    if (need > arena->bytes || arena->end > arena->bytes - need || allocate_pages(arena, arena->end + need) ||
        !(e = insert_extent(arena, arena->last, arena->end, need))) {
        return NULL;
    }
    arena->end += need;
    return e;
}

/* ---- blocks ---- */

void *dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers)
{
    size_t need = (bytes + DMA_ARENA_ALIGN - 1) / DMA_ARENA_ALIGN * DMA_ARENA_ALIGN;
    dma_block_head_t *head;
    extent_t *e;

    reclaim_retired(arena);
    e = take_gap(arena, need);
    e = e ? e : take_end(arena, need);
    if (!e) {
        return NULL;
    }
    put_in_list(bucket_of(arena, e->offset), e);
    arena->used += e->bytes;
    head = (dma_block_head_t *)(arena->base + e->offset);
    memset(head, 0, zeroed);
    atomic_store_explicit(&head->readers, readers,
                          memory_order_relaxed); /* peers see it after the messages of set-up */
    return head;
}

void dma_arena_retire(dma_arena_t *arena, void *block)
{
    size_t offset = (size_t)((char *)block - arena->base);
    extent_t *e = *bucket_of(arena, offset);

    while (e && e->offset != offset) {
        e = e->next;
    }
    if (e) {
        take_from_list(e);
        put_in_list(&arena->retired, e);
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
