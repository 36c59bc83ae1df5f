/* The table of ranges; see vm.h. */
#include "vm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, FREED = EMU_MAX_QUARANTINE };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static struct {
    struct emu_range **ranges; /* by va */
    size_t count, room;
    /* The ranges that were freed last, so that a report can say that an address was freed. With a quarantine these addresses
     * stay reserved. Without one the next allocation may get them, as with the driver. */
    struct {
        uint64_t va, bytes;
    } freed[FREED];
    size_t frees;
} vm;

void emu_vm_lock(void)
{
    pthread_rwlock_wrlock(&lock);
}

void emu_vm_lock_read(void)
{
    pthread_rwlock_rdlock(&lock);
}

void emu_vm_unlock(void)
{
    pthread_rwlock_unlock(&lock);
}

/* Returns the number of ranges that begin at or below `va`. */
static size_t place(uint64_t va)
{
    size_t low = 0, high = vm.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (vm.ranges[middle]->va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct emu_range *emu_vm_find(uint64_t va)
{
    size_t at = place(va);
    if (at == 0)
        return NULL;
    struct emu_range *range = vm.ranges[at - 1];
    return va - range->va < range->bytes ? range : NULL;
}

struct emu_range *emu_vm_find_user(uint64_t user)
{
    for (size_t i = 0; i < vm.count; i++)
        if (vm.ranges[i]->kind == EMU_REGISTERED && user - vm.ranges[i]->user < vm.ranges[i]->user_bytes)
            return vm.ranges[i];
    return NULL;
}

struct emu_range *emu_vm_find_any(const void *pointer)
{
    struct emu_range *range = emu_vm_find((uintptr_t)pointer);
    return range ? range : emu_vm_find_user((uintptr_t)pointer);
}

struct emu_range *emu_vm_find_stale(uint32_t pid, uint32_t inode, uint64_t va, uint64_t bytes)
{
    for (size_t i = 0; i < vm.count; i++) {
        struct emu_range *range = vm.ranges[i];
        if (range->home_pid == pid && range->home_inode != inode && range->home_va < va + bytes &&
            va < range->home_va + range->bytes)
            return range;
    }
    return NULL;
}

bool emu_vm_is_mapped(const struct emu_range *range, uint32_t node)
{
    for (uint32_t i = 0; i < range->mapped_count; i++)
        if (range->mapped[i] == node)
            return true;
    return false;
}

void emu_vm_map_more(struct emu_range *range, const uint32_t *nodes, size_t count)
{
    for (size_t i = 0; i < count && range->mapped_count < EMU_MAX_NODES; i++)
        if (nodes[i] > 0 && !emu_vm_is_mapped(range, nodes[i]))
            range->mapped[range->mapped_count++] = nodes[i];
}

void emu_vm_map(struct emu_range *range, const uint32_t *nodes, size_t count)
{
    range->mapped_count = 0;
    emu_vm_map_more(range, nodes, count);
}

void emu_vm_unmap(struct emu_range *range, const uint32_t *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t at = 0; at < range->mapped_count; at++)
            if (range->mapped[at] == nodes[i])
                range->mapped[at--] = range->mapped[--range->mapped_count];
}

static bool was_freed(uint64_t va)
{
    for (size_t i = 0; i < FREED; i++)
        if (va - vm.freed[i].va < vm.freed[i].bytes)
            return true;
    return false;
}

char *emu_vm_translate(uint32_t node, uint64_t va, uint64_t bytes, bool write, const char **why)
{
    const struct emu_range *range = emu_vm_find(va);
    if (!range) {
        *why = was_freed(va)          ? "it was freed"
               : emu_vm_find_user(va) ? "it is the CPU's address of registered memory, not the GPU's"
                                      : "there is no memory";
        return NULL;
    }
    char *at = range->host + (va - range->va);
    for (;;) {
        uint64_t here = range->va + range->bytes - va;
        const struct emu_range *next = here < bytes && range->svm ? emu_vm_find(va + here) : NULL;
        *why = !emu_vm_is_mapped(range, node)         ? "it is not mapped for this GPU"
               : here < bytes && !(next && next->svm) ? "it runs past the end of the memory"
               : write && range->read_only            ? "it is read-only"
                                                      : NULL;
        if (*why || here >= bytes)
            return *why ? NULL : at;
        va += here;
        bytes -= here;
        range = next;
    }
}

/* Reserves addresses, without memory. */
static char *reserve(uint64_t bytes, uint64_t alignment)
{
    char *at = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    uint64_t before = -(uintptr_t)at & (alignment - 1);
    if (before)
        munmap(at, before);
    if (alignment > before)
        munmap(at + before + bytes, alignment - before);
    return at + before;
}

/* Adds the range to the table. On failure, frees its addresses and its file. */
static struct emu_range *insert(const struct emu_range *filled)
{
    struct emu_range *range = malloc(sizeof *range);
    if (range && vm.count == vm.room) {
        size_t room = vm.room ? 2 * vm.room : 64;
        struct emu_range **more = realloc(vm.ranges, room * sizeof *more);
        if (more) {
            vm.ranges = more;
            vm.room = room;
        }
    }
    if (!range || vm.count == vm.room) {
        free(range);
        if (filled->own_host)
            munmap(filled->host, filled->bytes);
        if (!filled->lent)
            munmap((void *)(uintptr_t)filled->va, filled->bytes);
        if (filled->fd >= 0)
            close(filled->fd);
        return NULL;
    }
    *range = *filled;
    size_t at = place(range->va);
    memmove(vm.ranges + at + 1, vm.ranges + at, (vm.count - at) * sizeof *vm.ranges);
    vm.ranges[at] = range;
    vm.count++;
    return range;
}

struct emu_range *emu_vm_add_anonymous(uint64_t bytes, uint64_t alignment)
{
    char *host = reserve(bytes, alignment);
    if (!host)
        return NULL;
    if (mprotect(host, bytes, PROT_READ | PROT_WRITE)) {
        munmap(host, bytes);
        return NULL;
    }
    return insert(
        &(struct emu_range){.va = (uintptr_t)host, .bytes = bytes, .host = host, .fd = -1, .kind = EMU_ALLOCATED});
}

struct emu_range *emu_vm_add_shared(int fd, uint64_t bytes, uint64_t alignment)
{
    char *host = reserve(bytes, alignment);
    if (host && mmap(host, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(host, bytes);
        host = NULL;
    }
    if (!host) {
        close(fd);
        return NULL;
    }
    /* As with the driver, a child does not inherit GPU memory. */
    madvise(host, bytes, MADV_DONTFORK);
    return insert(
        &(struct emu_range){.va = (uintptr_t)host, .bytes = bytes, .host = host, .fd = fd, .kind = EMU_ALLOCATED});
}

struct emu_range *emu_vm_add_user(void *user, uint64_t bytes)
{
    uint64_t offset = (uintptr_t)user % PAGE, whole = (offset + bytes + PAGE - 1) / PAGE * PAGE;
    char *va = reserve(whole, PAGE);
    if (!va)
        return NULL;
    return insert(&(struct emu_range){
        .va = (uintptr_t)va,
        .bytes = whole,
        .host = (char *)user - offset,
        .fd = -1,
        .kind = EMU_REGISTERED,
        .node = 0,
        .user = (uintptr_t)user,
        .user_bytes = bytes,
        .registrations = 1,
    });
}

struct emu_range *emu_vm_add_lent(uint64_t va, void *user, int fd, off_t offset, uint64_t bytes)
{
    char *host = user;
    if (fd >= 0) {
        host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
        if (host == MAP_FAILED) {
            close(fd);
            return NULL;
        }
        madvise(host, bytes, MADV_DONTFORK);
    }
    return insert(&(struct emu_range){
        .va = va,
        .bytes = bytes,
        .host = host,
        .fd = fd,
        .kind = fd >= 0 ? EMU_ALLOCATED : EMU_REGISTERED,
        .user = (uintptr_t)user,
        .user_bytes = bytes,
        .registrations = 1,
        .lent = true,
        .own_host = fd >= 0,
    });
}

struct emu_range *emu_vm_find_overlap(uint64_t va, uint64_t bytes)
{
    size_t at = place(va);
    if (at > 0 && va - vm.ranges[at - 1]->va < vm.ranges[at - 1]->bytes)
        return vm.ranges[at - 1];
    return at < vm.count && vm.ranges[at]->va - va < bytes ? vm.ranges[at] : NULL;
}

bool emu_vm_split(struct emu_range *range, uint64_t at)
{
    uint64_t first = at - range->va;
    struct emu_range second = *range;
    second.va += first;
    second.host += first;
    second.user += first;
    second.bytes = second.user_bytes = range->bytes - first;
    if (!insert(&second))
        return false;
    range->bytes = range->user_bytes = first;
    return true;
}

static void remember(size_t slot, uint64_t va, uint64_t bytes)
{
    vm.freed[slot].va = va;
    vm.freed[slot].bytes = bytes;
}

/* Frees the addresses, now or after the quarantine. */
static void forget(uint64_t va, uint64_t bytes)
{
    int kept = emu_config()->quarantine;
    size_t slot = vm.frees++ % (size_t)(kept ? kept : FREED);
    if (kept) {
        mmap((void *)(uintptr_t)va, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (vm.freed[slot].bytes)
            munmap((void *)(uintptr_t)vm.freed[slot].va, vm.freed[slot].bytes);
    } else {
        munmap((void *)(uintptr_t)va, bytes);
    }
    remember(slot, va, bytes);
}

/* There is no quarantine for addresses that the user manages. */
static void forget_lent(uint64_t va, uint64_t bytes)
{
    if (emu_config()->quarantine == 0)
        remember(vm.frees++ % FREED, va, bytes);
}

void emu_vm_remove(struct emu_range *range)
{
    size_t at = place(range->va) - 1;
    memmove(vm.ranges + at, vm.ranges + at + 1, (vm.count - at - 1) * sizeof *vm.ranges);
    vm.count--;
    if (range->own_host)
        munmap(range->host, range->bytes);
    if (range->lent)
        forget_lent(range->va, range->bytes);
    else
        forget(range->va, range->bytes);
    if (range->fd >= 0)
        close(range->fd);
    free(range);
}
