/* Memory on render nodes; see gem.h. */
#include "gem.h"

#include "kfd.h"
#include "process.h"
#include "report.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAP = 1, UNMAP = 2, CLEAR = 3, REPLACE = 4 }; /* operations */

enum {
    DELAYED = 1 << 0,
    READABLE = 1 << 1,
    WRITABLE = 1 << 2,
    EXECUTABLE = 1 << 3,
    NOTHING_BEHIND = 1 << 4, /* pages without memory, which read as zero */
    TYPES = 0xf << 5,
    NOT_CACHED = 1 << 9,
    FLAGS = DELAYED | READABLE | WRITABLE | EXECUTABLE | TYPES | NOT_CACHED,
    FLAGS_OF_NOTHING = DELAYED | NOTHING_BEHIND,
    OFFSET_BITS =
        40, /* each handle has a range of offsets of the render node that is larger than the memory of any GPU */
};

/* The first addresses are never used. No pointer of a process can be END_VA or more. */
#define FIRST_VA (1ull << 20)
#define END_VA   (1ull << 47)

struct object {
    struct object *next;
    uint64_t file, memory; /* the number of the open file, and of the memory's memfd */
    uint64_t bytes;
    uint32_t handle, flags; /* flags: those of the allocation */
    int fd, home;           /* home: the GPU that has the memory, or -1 for the host */
};

struct mapping {
    struct mapping *next;
    const struct object *object;
    uint64_t va, bytes, offset;
    uint32_t node;   /* of the GPU in whose address space it is */
    bool is_visible; /* that address space is the one that queues run in */
};

static struct {
    struct object *objects;
    struct mapping *mappings;
    uint32_t last; /* handle */
} gem;             /* under the lock of vm.h */

/* The callers of all functions below hold the lock, unless a comment says otherwise. */

static struct object *object_of(uint64_t file, uint32_t handle)
{
    struct object *object = gem.objects;
    while (object && (object->file != file || object->handle != handle))
        object = object->next;
    return object;
}

/* Called without the lock. */
static int import(uint64_t file, const struct emu_bo *bo, uint32_t *handle)
{
    int fd = fcntl(bo->fd, F_DUPFD_CLOEXEC, 0);
    struct object *made = calloc(1, sizeof *made);
    if (fd < 0 || !made) {
        if (fd >= 0)
            close(fd);
        free(made);
        return ENOMEM;
    }
    emu_vm_lock();
    struct object *there = gem.objects;
    while (there && (there->file != file || there->memory != bo->number))
        there = there->next;
    if (!there) {
        *made = (struct object){.next = gem.objects,
                                .file = file,
                                .memory = bo->number,
                                .bytes = bo->bytes,
                                .handle = ++gem.last,
                                .flags = bo->flags,
                                .fd = fd,
                                .home = bo->gpu};
        gem.objects = there = made;
    } else {
        close(fd);
        free(made);
    }
    *handle = there->handle;
    emu_vm_unlock();
    return 0;
}

int emu_gem_import(uint64_t file, int dmabuf, uint32_t *handle)
{
    struct emu_bo bo;
    int error = emu_kfd_read_bo(dmabuf, &bo);
    return error ? error : import(file, &bo, handle);
}

int emu_gem_export(uint64_t file, uint32_t handle, int *dmabuf)
{
    emu_vm_lock_read();
    const struct object *object = object_of(file, handle);
    *dmabuf = object ? fcntl(object->fd, F_DUPFD_CLOEXEC, 0) : -1;
    int error = !object ? ENOENT : *dmabuf < 0 ? errno : 0;
    emu_vm_unlock();
    return error;
}

int emu_gem_mmap(uint64_t file, uint32_t handle, uint64_t *offset)
{
    emu_vm_lock_read();
    const struct object *object = object_of(file, handle);
    if (object)
        *offset = KFD_OFFSET_GEM + ((uint64_t)handle << OFFSET_BITS);
    emu_vm_unlock();
    return object ? 0 : ENOENT;
}

int emu_gem_file_at(uint64_t offset, uint64_t bytes, off_t *at)
{
    uint32_t handle = (uint32_t)((offset - KFD_OFFSET_GEM) >> OFFSET_BITS);
    *at = (off_t)((offset - KFD_OFFSET_GEM) & ((1ull << OFFSET_BITS) - 1));
    emu_vm_lock_read();
    const struct object *object = gem.objects;
    while (object && object->handle != handle)
        object = object->next;
    int fd = object && (uint64_t)*at + bytes <= object->bytes ? object->fd : -1;
    emu_vm_unlock();
    return fd;
}

/* Returns another mapping of the same memory at the same address, for another GPU. Both share a range of vm.h. */
static const struct mapping *twin_of(const struct mapping *mapping)
{
    const struct mapping *twin = gem.mappings;
    while (twin && (!twin->is_visible || twin->va != mapping->va || twin->bytes != mapping->bytes ||
                    twin->offset != mapping->offset || twin->object->memory != mapping->object->memory))
        twin = twin->next;
    return twin;
}

static bool overlaps(const struct mapping *mapping, uint64_t va, uint64_t bytes)
{
    return mapping->va < va + bytes && va < mapping->va + mapping->bytes;
}

/* Makes a mapping visible to the engines. Returns 0 or an errno. */
static int show(const struct mapping *mapping, uint32_t flags)
{
    struct emu_range *range = NULL;
    const struct object *object = mapping->object;
    if (twin_of(mapping)) {
        range = emu_vm_find(mapping->va);
    } else {
        emu_kfd_svm_forget(mapping->va, mapping->bytes);
        emu_kfd_yield(mapping->va, mapping->bytes);
        struct emu_range *other = emu_vm_find_overlap(mapping->va, mapping->bytes);
        if (other) {
            if (!emu_vm_is_mapped(other, mapping->node))
                emu_note("%#llx is other memory of another GPU: this node cannot have both",
                         (unsigned long long)mapping->va);
            return EINVAL;
        }
        int fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
        range = fd < 0 ? NULL : emu_vm_add_lent(mapping->va, NULL, fd, (off_t)mapping->offset, mapping->bytes);
        if (!range)
            return ENOMEM;
        range->node = object->home < 0 ? 0 : emu_node_of(object->home);
        range->flags = object->flags;
        range->executable = (flags & EXECUTABLE) != 0;
    }
    range->read_only = !(flags & WRITABLE);
    emu_vm_map_more(range, &mapping->node, 1);
    return 0;
}

static void hide(const struct mapping *mapping)
{
    struct emu_range *range = emu_vm_find(mapping->va);
    emu_vm_unmap(range, &mapping->node, 1);
    if (range->mapped_count == 0)
        emu_vm_remove(range);
}

static void drop(struct mapping **at)
{
    struct mapping *mapping = *at;
    *at = mapping->next;
    if (mapping->is_visible)
        hide(mapping);
    free(mapping);
}

int emu_gem_close(uint64_t file, uint32_t handle)
{
    emu_vm_lock();
    struct object *object = object_of(file, handle);
    for (struct mapping **at = &gem.mappings; object && *at;) {
        if ((*at)->object == object)
            drop(at);
        else
            at = &(*at)->next;
    }
    for (struct object **at = &gem.objects; *at; at = &(*at)->next)
        if (*at == object) {
            *at = object->next;
            break;
        }
    emu_vm_unlock();
    if (!object)
        return EINVAL;
    close(object->fd);
    free(object);
    return 0;
}

static int map(const struct object *object, uint32_t node, bool is_visible, const struct emu_gem_va *args)
{
    for (const struct mapping *other = gem.mappings; other; other = other->next)
        if (other->object->file == object->file && overlaps(other, args->va, args->bytes))
            return EINVAL;
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return ENOMEM;
    *mapping = (struct mapping){.next = gem.mappings,
                                .object = object,
                                .va = args->va,
                                .bytes = args->bytes,
                                .offset = args->offset,
                                .node = node,
                                .is_visible = is_visible};
    int error = is_visible ? show(mapping, args->flags) : 0;
    if (error)
        free(mapping);
    else
        gem.mappings = mapping;
    return error;
}

/* Unmaps the whole mapping that begins at `va`. */
static int unmap(const struct object *object, uint64_t va)
{
    struct mapping **at = &gem.mappings;
    while (*at && ((*at)->object != object || (*at)->va != va))
        at = &(*at)->next;
    if (!*at)
        return ENOENT;
    drop(at);
    return 0;
}

/* Checks the arguments as far as they do not depend on the memory. Called without the lock. */
static bool is_sound(const struct emu_gem_va *args)
{
    if (args->va < FIRST_VA || args->va + args->bytes < args->va || args->va + args->bytes > END_VA)
        return false;
    return (!(args->flags & ~(uint32_t)FLAGS) || !(args->flags & ~(uint32_t)FLAGS_OF_NOTHING)) &&
           args->operation >= MAP && args->operation <= REPLACE;
}

static bool fits(const struct object *object, const struct emu_gem_va *args)
{
    return args->bytes > 0 && args->va % KFD_PAGE == 0 && args->offset % KFD_PAGE == 0 && args->bytes % KFD_PAGE == 0 &&
           args->offset + args->bytes >= args->offset && args->offset + args->bytes <= object->bytes;
}

int emu_gem_va(uint64_t file, int gpu, const struct emu_gem_va *args)
{
    if (!is_sound(args))
        return EINVAL;
    if (args->operation == CLEAR || args->operation == REPLACE || args->flags & NOTHING_BEHIND) {
        emu_note("operation %u on addresses of a render node, with flags %#x, is not known here", args->operation,
                 args->flags);
        return EINVAL;
    }
    emu_vm_lock();
    const struct object *object = object_of(file, args->handle);
    int error = !object                                         ? ENOENT
                : args->operation == MAP && !fits(object, args) ? EINVAL
                : args->operation == MAP ? map(object, emu_node_of(gpu), emu_kfd_space_of(gpu) == file, args)
                                         : unmap(object, args->va);
    emu_vm_unlock();
    return error;
}
