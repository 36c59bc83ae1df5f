/*
 * The fake CUDA: device memory, page-locked memory of the host, and IPC.
 *
 *     REGION                                                    REGION + ALIAS
 *     | device 0 | device 1 | device 2 | device 3 | imports |...| the same bytes, for streams and copies |
 *       the processor cannot access these
 *
 * A block of device memory is a memfd, mapped in the second half alone. An address in the first half is what a program gets. So
 * a program, or a library, that takes device memory for host memory ends at once. The region is at the same address in all
 * processes, if possible, so that memory of two processes has equal addresses as with CUDA. Small allocations share a block, and
 * freed addresses are used again as soon as possible.
 *
 * An IPC handle names process and descriptor of the block. A peer opens it in /proc, and maps the whole block.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"

#define REGION 0x300000000000u
#define SPAN   (1ull << 36) /* addresses of a device */
#define ALIAS  (SPAN * (FAKE_DEVICES + 1))

enum { IMPORTS = FAKE_DEVICES, UNIT = 2 << 20, SMALL = 1 << 20, GRAIN = 512, PAGE = 4096 };

typedef struct fake_block {
    struct fake_block *next;
    uint64_t base, size;
    int place; /* device, or IMPORTS */
    int fd;    /* -1: imported */
    uint64_t inode;
    unsigned uses; /* allocations in it */
    /* of an import: the owner's process and address, and the device of the context that has opened it */
    uint64_t pid, owner_base;
    int opener;
} fake_block_t;

typedef struct handle {
    uint64_t pid, fd, inode, device, block_base, block_size, offset, size;
} handle_t;
_Static_assert(sizeof(handle_t) == sizeof(cuda_ipc_handle_t), "the room of a handle");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t region;
static fake_block_t *blocks; /* by address */
static fake_range_t *ranges;
static uint64_t last_id;

/* With the lock. */
static bool reserve(void)
{
    void *at;

    if (region) {
        return true;
    }
    at = mmap((void *)REGION, 2 * ALIAS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
              -1, 0);
    if (at == MAP_FAILED) {
        at = mmap(NULL, 2 * ALIAS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    region = at == MAP_FAILED ? 0 : (uintptr_t)at;
    return region != 0;
}

bool fake_is_device_address(uint64_t addr)
{
    return region && addr - region < ALIAS;
}

void *fake_host_address(uint64_t addr)
{
    return (void *)(uintptr_t)(addr + (fake_is_device_address(addr) ? ALIAS : 0));
}

/* ---- ranges: all with the lock ---- */

static fake_range_t *range_at(uint64_t addr)
{
    for (fake_range_t *r = ranges; r; r = r->next) {
        if (addr - r->base < r->size) {
            return r;
        }
    }
    return NULL;
}

static bool overlaps(uint64_t base, uint64_t size)
{
    for (const fake_range_t *r = ranges; r; r = r->next) {
        if (r->base < base + size && base < r->base + r->size) {
            return true;
        }
    }
    return false;
}

static fake_range_t *add_range(fake_kind_t kind, uint64_t base, uint64_t size, int device, fake_block_t *block)
{
    fake_range_t *r = calloc(1, sizeof(*r));

    if (r) {
        *r = (fake_range_t){ranges, kind, base, size, ++last_id, device, 1, false, block};
        ranges = r;
    }
    return r;
}

static void remove_range(fake_range_t *range)
{
    fake_range_t **r = &ranges;

    while (*r != range) {
        r = &(*r)->next;
    }
    *r = range->next;
    free(range);
}

bool fake_find(uint64_t addr, fake_range_t *range)
{
    const fake_range_t *found;

    pthread_mutex_lock(&lock);
    found = range_at(addr);
    if (found) {
        *range = *found;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

bool fake_set_waits(uint64_t addr)
{
    fake_range_t *r;

    pthread_mutex_lock(&lock);
    r = range_at(addr);
    r = r && r->kind == FAKE_ALLOCATED ? r : NULL;
    if (r) {
        r->waits = true;
    }
    pthread_mutex_unlock(&lock);
    return r != NULL;
}

bool fake_may_copy(uint64_t addr, size_t bytes)
{
    fake_range_t r;

    return fake_find(addr, &r) ? bytes <= r.size - (addr - r.base) || r.kind >= FAKE_PINNED
                               : addr && !fake_is_device_address(addr);
}

bool fake_may_signal(uint64_t addr)
{
    fake_range_t r;

    return addr % sizeof(uint32_t) == 0 && fake_find(addr, &r);
}

/* ---- blocks: all with the lock ---- */

/* Maps a block at the lowest free addresses of its place. */
static fake_block_t *add_block(int place, uint64_t size, int fd, uint64_t inode)
{
    fake_block_t **at = &blocks, *made = calloc(1, sizeof(*made));
    uint64_t base = region + (uint64_t)place * SPAN;

    for (; made && *at && (*at)->base < base + size; at = &(*at)->next) {
        uint64_t end = (*at)->base + (*at)->size;

        base = end > base ? end : base;
    }
    if (!made || base + size > region + (uint64_t)(place + 1) * SPAN ||
        mmap((void *)(base + ALIAS), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        free(made);
        return NULL;
    }
    *made = (fake_block_t){.next = *at, .base = base, .size = size, .place = place, .fd = fd, .inode = inode};
    *at = made;
    return made;
}

static void remove_block(fake_block_t *block)
{
    fake_block_t **at = &blocks;

    while (*at != block) {
        at = &(*at)->next;
    }
    *at = block->next;
    (void)mmap((void *)(block->base + ALIAS), block->size, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (block->fd >= 0) {
        close(block->fd);
    }
    free(block);
}

static void leave_block(fake_range_t *range)
{
    fake_block_t *block = range->block;

    remove_range(range);
    if (--block->uses == 0) {
        remove_block(block);
    }
}

static fake_block_t *make_block(int device, uint64_t bytes)
{
    uint64_t size = (bytes + UNIT - 1) / UNIT * UNIT;
    int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    fake_block_t *block = NULL;
    struct stat file;

    if (fd >= 0 && !ftruncate(fd, (off_t)size) && !fstat(fd, &file)) {
        block = add_block(device, size, fd, file.st_ino);
    }
    if (!block && fd >= 0) {
        close(fd);
    }
    return block;
}

/* Room in a block that small allocations share, at *base. */
static bool room_in(const fake_block_t *block, uint64_t bytes, uint64_t *base)
{
    const fake_range_t *r;

    *base = block->base;
    while (*base + bytes <= block->base + block->size) {
        for (r = ranges; r; r = r->next) {
            if (r->block == block && r->base < *base + bytes && *base < r->base + r->size) {
                break;
            }
        }
        if (!r) {
            return true;
        }
        *base = (r->base + r->size + GRAIN - 1) / GRAIN * GRAIN;
    }
    return false;
}

static cuda_error_t allocate(int device, size_t bytes, cuda_addr_t *ptr)
{
    fake_block_t *block = bytes <= SMALL ? blocks : NULL;
    const fake_range_t *range;
    uint64_t base = 0;

    while (block && !(block->place == device && block->size == UNIT && room_in(block, bytes, &base))) {
        block = block->next;
    }
    if (!block) {
        block = make_block(device, bytes);
        base = block ? block->base : 0;
    }
    range = block ? add_range(FAKE_ALLOCATED, base, bytes, device, block) : NULL;
    if (!range) {
        return CUDA_OUT_OF_MEMORY;
    }
    block->uses++;
    *ptr = base;
    return CUDA_DONE;
}

/* ---- device memory ---- */

cuda_error_t cuMemAlloc_v2(cuda_addr_t *ptr, size_t bytes)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (!bytes) {
        return FAKE_INVALID;
    }
    pthread_mutex_lock(&lock);
    error = reserve() ? allocate(device, bytes, ptr) : CUDA_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    return error;
}

/* Finds what is to be freed, and waits until nothing uses it. On success the caller holds both locks. */
static cuda_error_t begin_free(fake_kind_t kind, uint64_t addr, const char *call, fake_range_t **range)
{
    cuda_error_t error;
    fake_range_t found;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    fake_lock_driver();
    if (fake_find(addr, &found)) {
        fake_wait_until_idle(found.device);
    }
    pthread_mutex_lock(&lock);
    *range = range_at(addr);
    if (!*range || (*range)->kind != kind || (*range)->base != addr) {
        pthread_mutex_unlock(&lock);
        fake_unlock_driver();
        return fake_complain(kind == FAKE_HOST_REGISTERED ? FAKE_NOT_REGISTERED : FAKE_INVALID, call,
                             "this is not such memory", addr);
    }
    return CUDA_DONE;
}

static void end_free(void)
{
    pthread_mutex_unlock(&lock);
    fake_unlock_driver();
}

cuda_error_t cuMemFree_v2(cuda_addr_t ptr)
{
    fake_range_t *range;
    cuda_error_t error = ptr ? begin_free(FAKE_ALLOCATED, ptr, "cuMemFree", &range) : CUDA_DONE;

    if (ptr && !error) {
        leave_block(range);
        end_free();
    }
    return error;
}

cuda_error_t cuMemGetInfo_v2(size_t *available, size_t *total)
{
    int device;

    *available = *total = SPAN / 2;
    return fake_enter(&device);
}

/* ---- IPC ---- */

cuda_error_t cuIpcGetMemHandle(cuda_ipc_handle_t *handle, cuda_addr_t ptr)
{
    const fake_range_t *r;
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    pthread_mutex_lock(&lock);
    r = range_at(ptr);
    if (r && r->kind == FAKE_ALLOCATED) {
        handle_t made = {(uint64_t)getpid(), (uint64_t)r->block->fd, r->block->inode,          (uint64_t)r->device,
                         r->block->base,     r->block->size,         r->base - r->block->base, r->size};

        memcpy(handle, &made, sizeof(made));
    }
    pthread_mutex_unlock(&lock);
    return r && r->kind == FAKE_ALLOCATED ? CUDA_DONE : FAKE_INVALID;
}

/* Opens the block of the owner, unless the owner has freed it. */
static fake_block_t *import_block(const handle_t *h, int opener)
{
    fake_block_t *block = NULL;
    char path[64];
    struct stat file;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)h->pid, (int)h->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &file) && file.st_ino == h->inode) {
        block = add_block(IMPORTS, h->block_size, fd, h->inode);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (block) {
        block->fd = -1;
        block->pid = h->pid;
        block->opener = opener;
        block->owner_base = h->block_base;
    }
    return block;
}

/* Each context opens a block once. Like CUDA, refuses memory of an owner at an address where other memory of this owner is still
 * open in the context. */
static cuda_error_t find_import(const handle_t *h, int opener, fake_block_t **block)
{
    for (*block = blocks; *block; *block = (*block)->next) {
        const fake_block_t *b = *block;

        if (b->place == IMPORTS && b->opener == opener && b->pid == h->pid &&
            b->owner_base < h->block_base + h->block_size && h->block_base < b->owner_base + b->size) {
            return b->inode == h->inode ? CUDA_DONE
                                        : fake_complain(FAKE_ALREADY_MAPPED, "cuIpcOpenMemHandle",
                                                        "memory that its owner has freed is open there", h->block_base);
        }
    }
    *block = import_block(h, opener);
    return *block ? CUDA_DONE : FAKE_INVALID;
}

static cuda_error_t open_range(const handle_t *h, int opener, cuda_addr_t *ptr)
{
    fake_block_t *block;
    fake_range_t *range;
    cuda_error_t error = reserve() ? find_import(h, opener, &block) : CUDA_OUT_OF_MEMORY;

    if (error) {
        return error;
    }
    *ptr = block->base + h->offset;
    range = range_at(*ptr);
    if (range && range->base == *ptr && range->size == h->size) {
        range->opened++;
        return CUDA_DONE;
    }
    if (overlaps(*ptr, h->size)) {
        return fake_complain(FAKE_ALREADY_MAPPED, "cuIpcOpenMemHandle",
                             "an allocation that its owner has freed is open there", h->block_base + h->offset);
    }
    block->uses++;
    return add_range(FAKE_IMPORTED, *ptr, h->size, (int)h->device, block) ? CUDA_DONE : CUDA_OUT_OF_MEMORY;
}

cuda_error_t cuIpcOpenMemHandle_v2(cuda_addr_t *ptr, cuda_ipc_handle_t handle, unsigned flags)
{
    cuda_error_t error;
    handle_t h;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    memcpy(&h, &handle, sizeof(h));
    if (flags != CUDA_IPC_LAZY_PEER_ACCESS || h.device >= FAKE_DEVICES) {
        return FAKE_INVALID;
    }
    if (h.pid == (uint64_t)getpid()) {
        return fake_complain(CUDA_INVALID_CONTEXT, "cuIpcOpenMemHandle", "a handle of this process", h.block_base);
    }
    pthread_mutex_lock(&lock);
    error = open_range(&h, device, ptr);
    pthread_mutex_unlock(&lock);
    return error;
}

cuda_error_t cuIpcCloseMemHandle(cuda_addr_t ptr)
{
    fake_range_t *range;
    cuda_error_t error = begin_free(FAKE_IMPORTED, ptr, "cuIpcCloseMemHandle", &range);

    if (!error && --range->opened == 0) {
        leave_block(range);
    }
    if (!error) {
        end_free();
    }
    return error;
}

/* ---- page-locked memory of the host ---- */

static cuda_error_t add_host(fake_kind_t kind, uint64_t base, uint64_t size)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    pthread_mutex_lock(&lock);
    if (overlaps(base, size)) {
        error = FAKE_REGISTERED;
    } else if (!add_range(kind, base, size, device, NULL)) {
        error = CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cuda_error_t cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    cuda_error_t error;
    void *made;

    *memory = NULL;
    if (flags > FAKE_MAPPED || !bytes || fake_state.refused == 2) {
        return FAKE_INVALID;
    }
    made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return CUDA_OUT_OF_MEMORY;
    }
    if ((error = add_host(FAKE_PINNED, (uintptr_t)made, size)) != CUDA_DONE) {
        (void)munmap(made, size);
        return error;
    }
    *memory = made;
    return CUDA_DONE;
}

cuda_error_t cuMemFreeHost(void *memory)
{
    fake_range_t *range;
    cuda_error_t error = begin_free(FAKE_PINNED, (uintptr_t)memory, "cuMemFreeHost", &range);

    if (!error) {
        (void)munmap(memory, range->size);
        remove_range(range);
        end_free();
    }
    return error;
}

cuda_error_t cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    return flags > FAKE_MAPPED || !bytes ? FAKE_INVALID : add_host(FAKE_HOST_REGISTERED, (uintptr_t)memory, bytes);
}

cuda_error_t cuMemHostUnregister(void *memory)
{
    fake_range_t *range;
    cuda_error_t error = begin_free(FAKE_HOST_REGISTERED, (uintptr_t)memory, "cuMemHostUnregister", &range);

    if (!error) {
        remove_range(range);
        end_free();
    }
    return error;
}

void fake_free_all(int device)
{
    fake_range_t *r, *next;

    pthread_mutex_lock(&lock);
    for (r = ranges; r; r = next) {
        next = r->next;
        if (r->device != device || r->kind == FAKE_IMPORTED) {
            continue;
        }
        if (r->block) {
            leave_block(r);
            continue;
        }
        if (r->kind == FAKE_PINNED) {
            (void)munmap((void *)(uintptr_t)r->base, r->size);
        }
        remove_range(r);
    }
    pthread_mutex_unlock(&lock);
}

cuda_error_t cuMemHostGetDevicePointer_v2(cuda_addr_t *there, void *memory, unsigned flags)
{
    fake_range_t range;
    cuda_error_t error;
    int device;

    *there = 0;
    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (flags || !fake_find((uintptr_t)memory, &range) || range.kind < FAKE_PINNED) {
        return FAKE_INVALID;
    }
    *there = (uintptr_t)memory;
    return CUDA_DONE;
}
