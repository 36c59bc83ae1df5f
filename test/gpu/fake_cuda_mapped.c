/*
 * Replaces libcuda.so.1: virtual memory management. An allocation is a memfd, and its file descriptor is a duplicate of the
 * memfd's, so two processes see the same bytes. Like the driver, it refuses parts of mappings, reservations that are in use,
 * sizes that are not multiples of the granularity, and types of handle that an allocation was not made for. An allocation
 * lives as long as a handle or a mapping of it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"

#define UNIT    65536u /* granularity */
#define MOST    64
#define INVALID 1

typedef struct allocation {
    int fd, device;
    size_t bytes;
    unsigned types, uses; /* handles and mappings */
    uint64_t id;
} allocation_t;

static allocation_t allocations[MOST];
static struct {
    uint64_t base, size, id;
} reservations[MOST];
static struct {
    uint64_t base, size;
    int allocation;
} mappings[MOST];
static uint64_t last_id = 5000000; /* of allocations and reservations */

/* ---- what there is ---- */

static int mapping_of(uint64_t addr)
{
    for (int i = 0; i < MOST; i++) {
        if (addr - mappings[i].base < mappings[i].size) {
            return i;
        }
    }
    return -1;
}

bool fake_find_mapping(uint64_t addr, fake_mapping_t *m)
{
    int i = mapping_of(addr);

    if (i < 0) {
        return false;
    }
    *m = (fake_mapping_t){.base = mappings[i].base, .size = mappings[i].size};
    m->id = allocations[mappings[i].allocation].id;
    m->types = allocations[mappings[i].allocation].types;
    m->device = allocations[mappings[i].allocation].device;
    for (int r = 0; r < MOST; r++) {
        if (addr - reservations[r].base < reservations[r].size) {
            m->range = reservations[r].base;
            m->range_size = reservations[r].size;
            m->range_id = reservations[r].id;
        }
    }
    return true;
}

static cuda_error_t refuse_in_capture(void)
{
    int device;

    return fake_unsafe(&device) == 900 ? 900 : CUDA_DONE;
}

static bool fails(const char *call)
{
    return fake_driver.fails[0] && !__builtin_strcmp(fake_driver.fails, call);
}

static void release_allocation(int i)
{
    if (!allocations[i].uses) {
        fprintf(stderr, "fake CUDA: an allocation is released more often than retained\n");
        abort();
    }
    if (!--allocations[i].uses) {
        close(allocations[i].fd);
        fake_driver.objects--;
    }
}

static cuda_error_t add_allocation(int fd, size_t bytes, unsigned types, int device, cuda_addr_t *handle)
{
    for (int i = 0; i < MOST; i++) {
        if (!allocations[i].uses) {
            allocations[i] = (allocation_t){fd, device, bytes, types, 1, ++last_id};
            fake_driver.objects++;
            *handle = 7000 + (unsigned)i;
            return CUDA_DONE;
        }
    }
    close(fd);
    return CUDA_OUT_OF_MEMORY;
}

/* ---- allocations ---- */

typedef struct fake_prop {
    int type, types, location, id;
} fake_prop_t;

cuda_error_t cuMemCreate(cuda_addr_t *handle, size_t bytes, const void *prop, uint64_t flags);
cuda_error_t cuMemCreate(cuda_addr_t *handle, size_t bytes, const void *prop, uint64_t flags)
{
    FAKE_LOCKED;
    const fake_prop_t *p = prop;
    int fd;

    (void)flags;
    if (!bytes || bytes % UNIT || (fd = memfd_create("fake-cuda", MFD_CLOEXEC)) < 0) {
        return INVALID;
    }
    return ftruncate(fd, (off_t)bytes) ? CUDA_OUT_OF_MEMORY
                                       : add_allocation(fd, bytes, (unsigned)p->types, p->id, handle);
}

static int index_of(cuda_addr_t handle)
{
    return handle >= 7000 && handle < 7000 + MOST && allocations[handle - 7000].uses ? (int)(handle - 7000) : -1;
}

cuda_error_t cuMemRetainAllocationHandle(cuda_addr_t *handle, void *ptr)
{
    FAKE_LOCKED;
    int i = mapping_of((uintptr_t)ptr);

    (void)refuse_in_capture();
    fake_driver.queries++;
    *handle = 1;
    if (i >= 0) {
        allocations[mappings[i].allocation].uses++;
        *handle = 7000 + (unsigned)mappings[i].allocation;
    }
    return i >= 0 || fake_driver.vmm ? CUDA_DONE : INVALID;
}

cuda_error_t cuMemRelease(cuda_addr_t handle)
{
    FAKE_LOCKED;

    if (handle != 1) {
        release_allocation(index_of(handle));
    }
    return CUDA_DONE;
}

cuda_error_t cuMemExportToShareableHandle(void *fd, cuda_addr_t handle, cuda_enum_t type, unsigned long long flags)
{
    FAKE_LOCKED;
    int i = index_of(handle);

    (void)flags;
    if (i < 0 || type != CUDA_HANDLE_FD || !(allocations[i].types & type) || fails("export")) {
        return INVALID;
    }
    *(int *)fd = fcntl(allocations[i].fd, F_DUPFD_CLOEXEC, 0);
    return CUDA_DONE;
}

cuda_error_t cuMemImportFromShareableHandle(cuda_addr_t *handle, void *fd, cuda_enum_t type)
{
    FAKE_LOCKED;
    struct stat file;
    int device, copy;

    if (refuse_in_capture() || type != CUDA_HANDLE_FD || fails("import") || fake_current(&device) ||
        fstat((int)(intptr_t)fd, &file) || !S_ISREG(file.st_mode)) {
        return INVALID;
    }
    copy = fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0);
    return add_allocation(copy, (size_t)file.st_size, type, device, handle);
}

/* ---- addresses ---- */

cuda_error_t cuMemAddressReserve(cuda_addr_t *ptr, size_t bytes, size_t alignment, cuda_addr_t wanted,
                                 unsigned long long flags)
{
    FAKE_LOCKED;
    char *at;

    (void)alignment;
    (void)wanted;
    (void)flags;
    if (refuse_in_capture() || !bytes || bytes % UNIT || fails("reserve")) {
        return INVALID;
    }
    at = mmap(NULL, bytes + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < MOST; i++) {
        if (!reservations[i].size) {
            *ptr = ((uintptr_t)at + UNIT - 1) / UNIT * UNIT;
            reservations[i].base = *ptr;
            reservations[i].size = bytes;
            reservations[i].id = ++last_id;
            fake_driver.objects++;
            return CUDA_DONE;
        }
    }
    return CUDA_OUT_OF_MEMORY;
}

cuda_error_t cuMemAddressFree(cuda_addr_t ptr, size_t bytes)
{
    FAKE_LOCKED;

    for (int i = 0; i < MOST; i++) {
        if (mappings[i].size && mappings[i].base - ptr < bytes) {
            return INVALID;
        }
    }
    for (int i = 0; i < MOST; i++) {
        if (reservations[i].base == ptr && reservations[i].size == bytes) {
            munmap((void *)(uintptr_t)ptr, bytes);
            reservations[i].base = reservations[i].size = 0;
            fake_driver.objects--;
            return CUDA_DONE;
        }
    }
    return INVALID;
}

static bool is_reserved(uint64_t addr, size_t bytes)
{
    for (int i = 0; i < MOST; i++) {
        if (addr - reservations[i].base < reservations[i].size &&
            bytes <= reservations[i].size - (addr - reservations[i].base)) {
            return true;
        }
    }
    return false;
}

cuda_error_t cuMemMap(cuda_addr_t ptr, size_t bytes, size_t offset, cuda_addr_t handle, unsigned long long flags)
{
    FAKE_LOCKED;
    int a = index_of(handle);

    (void)flags;
    if (refuse_in_capture() || a < 0 || offset || !bytes || bytes % UNIT || ptr % UNIT ||
        bytes > allocations[a].bytes || !is_reserved(ptr, bytes) || fails("map")) {
        return INVALID;
    }
    for (int i = 0; i < MOST; i++) {
        if (mappings[i].size && mappings[i].base < ptr + bytes && ptr < mappings[i].base + mappings[i].size) {
            return INVALID;
        }
    }
    for (int i = 0; i < MOST; i++) {
        if (!mappings[i].size) {
            mappings[i].base = ptr;
            mappings[i].size = bytes;
            mappings[i].allocation = a;
            allocations[a].uses++;
            (void)mmap((void *)(uintptr_t)ptr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, allocations[a].fd, 0);
            fake_driver.objects++;
            return CUDA_DONE;
        }
    }
    return CUDA_OUT_OF_MEMORY;
}

cuda_error_t cuMemSetAccess(cuda_addr_t ptr, size_t bytes, const cuda_access_t *access, size_t n)
{
    FAKE_LOCKED;
    int i = mapping_of(ptr);

    if (refuse_in_capture() || n != 1 || access->type != CUDA_LOCATION_DEVICE || access->id < 0 ||
        access->id >= FAKE_CUDA_DEVICES || access->flags != CUDA_ACCESS_READ_WRITE || i < 0 ||
        mappings[i].base != ptr || mappings[i].size != bytes || fails("access")) {
        return INVALID;
    }
    return mprotect((void *)(uintptr_t)ptr, bytes, PROT_READ | PROT_WRITE) ? INVALID : CUDA_DONE;
}

cuda_error_t cuMemUnmap(cuda_addr_t ptr, size_t bytes)
{
    FAKE_LOCKED;
    int i = mapping_of(ptr);

    if (i < 0 || mappings[i].base != ptr || mappings[i].size != bytes) {
        return INVALID;
    }
    (void)mmap((void *)(uintptr_t)ptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
    mappings[i].base = mappings[i].size = 0;
    release_allocation(mappings[i].allocation);
    fake_driver.objects--;
    return CUDA_DONE;
}
