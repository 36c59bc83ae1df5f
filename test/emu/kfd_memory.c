/*
 * The kernel's calls for memory; see kfd.h.
 *
 * A handle has the id of the GPU in its upper half, and a number of this process in its lower half. The memory is a memfd. Its
 * name has the GPU and the flags of the allocation, so that a process that gets it as a dma-buf knows them:
 *
 *     emu-bo gpu FLAGS          gpu: -1 for the host
 *
 * The render node maps each memory at an offset of its own. A handle of AMD's own IPC calls has four words:
 *
 *     0 pid   1 file descriptor   2 inode   3 flags of the exporter's library
 *
 * The importer opens the exporter's file. The inode shows whether the descriptor still is that file. The memory exists as long
 * as a process has it. As with the driver, a new import needs the exporter's allocation.
 */
#include "kfd.h"

#include "config.h"
#include "file.h"
#include "persona.h"
#include "process.h"
#include "queue.h"
#include "report.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VRAM = 1 << 0,
    GTT = 1 << 1,
    USERPTR = 1 << 2,
    DOORBELL = 1 << 3,
    MMIO_REMAP = 1 << 4,
    KINDS = VRAM | GTT | USERPTR | DOORBELL | MMIO_REMAP,
    EXECUTABLE = 1 << 30,
    HOST = -1,
    OBJECTS_STEP = 256,
    OFFSET_BITS =
        40, /* each object has a range of offsets of the render node that is larger than the memory of any GPU */
    NAME = 128,
};
#define WRITABLE (1u << 31)

/* Memory with a number, from 1 on. */
struct object {
    bool there, has_space; /* has_space: it has a range of vm.h */
    bool kept;             /* cannot be freed until the process ends */
    uint64_t va, bytes;
    uint32_t gpu_id, flags; /* gpu_id: the GPU of the allocation call */
    int gpu;                /* the GPU that has the memory, or HOST */
    int fd;                 /* only without a range; otherwise the range has it */
    void *user;             /* registered pages of the process */
    bool is_imported;
};

static struct {
    struct object *objects;
    uint32_t count;
    uint64_t vram[EMU_MAX_GPUS]; /* bytes that this process has allocated */
} memory;                        /* under the lock of vm.h */

/* The callers of all functions below hold the lock, unless a comment says otherwise. */
static struct object *object_by_number(uint64_t number)
{
    return number > 0 && number <= memory.count && memory.objects[number - 1].there ? &memory.objects[number - 1]
                                                                                    : NULL;
}

static uint32_t gpu_id_in(uint64_t handle)
{
    return (uint32_t)(handle >> 32);
}

static struct object *object_of(uint64_t handle)
{
    struct object *object = object_by_number((uint32_t)handle);
    return object && object->gpu_id == gpu_id_in(handle) ? object : NULL;
}

static struct emu_range *range_of(const struct object *object)
{
    return object->has_space ? emu_vm_find(object->va) : NULL;
}

/* Returns a free number, or 0 if there is no memory. */
static uint32_t take_number(void)
{
    for (uint32_t i = 0; i < memory.count; i++)
        if (!memory.objects[i].there)
            return i + 1;
    struct object *more = realloc(memory.objects, (memory.count + OBJECTS_STEP) * sizeof *more);
    if (!more)
        return 0;
    memset(more + memory.count, 0, OBJECTS_STEP * sizeof *more);
    memory.objects = more;
    memory.count += OBJECTS_STEP;
    return memory.count - OBJECTS_STEP + 1;
}

static int gpu_of(uint32_t gpu_id)
{
    uint32_t node = emu_kfd_node(gpu_id);
    return node ? emu_gpu_of(node) : HOST;
}

static uint32_t gpu_id_of(int gpu)
{
    return emu_persona_gpu_id(emu_config()->persona, gpu);
}

static uint64_t offset_of(uint32_t number)
{
    return KFD_OFFSET_MEMORY + ((uint64_t)number << OFFSET_BITS);
}

/* Called without the lock. */
static int make_file(int gpu, uint32_t flags, uint64_t bytes)
{
    char name[NAME];
    snprintf(name, sizeof name, "emu-bo %d %#x", gpu, flags);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

int emu_kfd_read_bo(int fd, struct emu_bo *bo)
{
    char path[64], name[NAME];
    struct stat file;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0 || fstat(fd, &file))
        return EBADF;
    name[length] = '\0';
    bo->fd = fd;
    bo->bytes = (uint64_t)file.st_size;
    bo->number = emu_file_number(fd);
    bool ours = sscanf(name, "/memfd:emu-bo %d %x", &bo->gpu, &bo->flags) == 2;
    return ours && bo->gpu >= HOST && bo->gpu < emu_config()->gpus ? 0 : EINVAL;
}

/* Returns whether the process has mapped all of these addresses. Called without the lock. */
static bool is_mapped_here(uint64_t at, uint64_t bytes)
{
    uint64_t start = at & ~(uint64_t)(KFD_PAGE - 1);
    return msync((void *)(uintptr_t)start, at + bytes - start, MS_ASYNC) == 0;
}

/* Attributes of pages that the process has unmapped do not count: new memory replaces them. */
static bool is_free(uint64_t va, uint64_t bytes)
{
    emu_kfd_svm_forget(va, bytes);
    return !emu_vm_find_overlap(va, bytes);
}

/* Gives an object its addresses. Returns 0 or an errno; after ENOMEM the object's file is closed. */
static int place(struct object *object)
{
    if (!is_free(object->va, object->bytes))
        return EINVAL;
    struct emu_range *range = emu_vm_add_lent(object->va, object->user, object->fd, 0, object->bytes);
    if (!range) {
        object->fd = -1;
        return ENOMEM;
    }
    range->node = object->gpu == HOST ? 0 : emu_node_of(object->gpu);
    range->kind = object->is_imported ? EMU_IMPORTED : range->kind;
    range->flags = object->flags;
    range->read_only = !(object->flags & WRITABLE);
    range->executable = (object->flags & EXECUTABLE) != 0;
    object->has_space = true;
    return 0;
}

/* Takes ownership of the object's file, also on failure. va 0: the object gets addresses by a later call. Returns 0 or an
 * errno. */
static int add(const struct object *filled, uint32_t *number)
{
    struct object object = *filled;
    *number = take_number();
    int error = *number == 0 ? ENOMEM : object.va ? place(&object) : 0;
    if (error) {
        if (object.fd >= 0)
            close(object.fd);
        return error;
    }
    object.there = true;
    memory.objects[*number - 1] = object;
    if (object.flags & VRAM && object.gpu != HOST)
        memory.vram[object.gpu] += object.bytes;
    return 0;
}

/* Memory that is mapped for no GPU loses its addresses to other memory, and gets addresses again when it is mapped. ROCr 6.1
 * reserves addresses by such memory. */
void emu_kfd_yield(uint64_t va, uint64_t bytes)
{
    for (uint32_t i = 0; i < memory.count; i++) {
        struct object *object = &memory.objects[i];
        struct emu_range *range = object->there ? range_of(object) : NULL;
        if (!range || range->mapped_count || object->va >= va + bytes || object->va + object->bytes <= va)
            continue;
        int fd = object->fd < 0 ? -1 : fcntl(object->fd, F_DUPFD_CLOEXEC, 0);
        if (object->fd >= 0 && fd < 0)
            continue;
        emu_vm_remove(range);
        object->fd = fd;
        object->has_space = false;
    }
}

/* The flags have exactly one kind of memory, and only flags that this kind allows. */
static bool is_sound(const struct kfd_alloc *args)
{
    uint32_t kind = args->flags & KINDS;
    return kind && !(kind & (kind - 1)) && args->bytes > 0 && args->bytes % KFD_PAGE == 0 && args->va % KFD_PAGE == 0 &&
           (kind != USERPTR || (args->mmap_offset && args->mmap_offset % KFD_PAGE == 0)) &&
           (kind != MMIO_REMAP || args->bytes == KFD_PAGE) && (kind != DOORBELL || args->bytes == EMU_DOORBELL_BYTES);
}

int emu_kfd_alloc(struct kfd_alloc *args)
{
    int gpu, fd = -1, error;
    uint32_t number;
    if (args->bytes == 0)
        return EINVAL;
    if ((error = emu_kfd_find(args->gpu_id, &gpu)))
        return error;
    if (!is_sound(args))
        return EINVAL;
    bool is_vram = args->flags & VRAM, is_user = args->flags & USERPTR;
    /* EMU_KFD_REFUSES=memory is for rings of coll/dma. The runtimes' allocations differ, and succeed. */
    if (is_user && args->va == args->mmap_offset && emu_config()->kfd_refuses == EMU_KFD_MEMORY)
        return ENOMEM;
    if (is_user && !is_mapped_here(args->mmap_offset, args->bytes))
        return EFAULT;
    if (is_vram && args->bytes > emu_config()->persona->vram_bytes - memory.vram[gpu])
        return ENOMEM;
    if (!is_user && (fd = make_file(is_vram ? gpu : HOST, args->flags, args->bytes)) < 0)
        return ENOMEM;
    emu_vm_lock();
    error = add(&(struct object){.va = args->va,
                                 .bytes = args->bytes,
                                 .gpu_id = args->gpu_id,
                                 .flags = args->flags,
                                 .gpu = is_vram ? gpu : HOST,
                                 .fd = fd,
                                 .user = is_user ? (void *)(uintptr_t)args->mmap_offset : NULL},
                &number);
    emu_vm_unlock();
    if (error)
        return error;
    args->handle = (uint64_t)args->gpu_id << 32 | number;
    args->mmap_offset = args->flags & DOORBELL ? KFD_OFFSET_DOORBELL | KFD_OFFSET_GPU(args->gpu_id) : offset_of(number);
    return 0;
}

/* Memory that is mapped for a GPU is not freed. */
int emu_kfd_free(uint64_t handle)
{
    emu_vm_lock();
    struct object *object = object_of(handle);
    struct emu_range *range = object ? range_of(object) : NULL;
    int error = !object ? EINVAL : object->kept ? EPERM : range && (range->queues || range->mapped_count) ? EBUSY : 0;
    if (!error) {
        if (object->flags & VRAM && object->gpu != HOST)
            memory.vram[object->gpu] -= object->bytes;
        if (range)
            emu_vm_remove(range);
        else if (object->fd >= 0)
            close(object->fd);
        object->there = false;
    }
    emu_vm_unlock();
    return error;
}

/* Memory may be mapped twice. It cannot be unmapped if it is not mapped, or if a queue needs it. */
static int map_one(struct emu_range *range, uint32_t node, bool mapped)
{
    if (mapped) {
        emu_vm_map_more(range, &node, 1);
        return 0;
    }
    if (!emu_vm_is_mapped(range, node))
        return EINVAL;
    if (range->queues)
        return EBUSY;
    emu_vm_unmap(range, &node, 1);
    return 0;
}

/* Stops at the first GPU that fails, and counts those before it. */
int emu_kfd_map_memory(struct kfd_map *args, bool mapped)
{
    const uint32_t *ids = (const uint32_t *)(uintptr_t)args->gpu_ids;
    int gpu, error;
    if (args->n_gpus == 0 || args->n_success > args->n_gpus)
        return EINVAL;
    if ((error = emu_kfd_find(gpu_id_in(args->handle), &gpu)))
        return error;
    emu_vm_lock();
    struct object *object = object_of(args->handle);
    error = !object ? ENOMEM : mapped && object->va && !object->has_space ? place(object) : 0;
    struct emu_range *range = error ? NULL : range_of(object);
    error = error ? error : range ? 0 : EINVAL;
    while (!error && args->n_success < args->n_gpus) {
        error = emu_kfd_find(ids[args->n_success], &gpu);
        error = error ? error : map_one(range, emu_node_of(gpu), mapped);
        args->n_success += !error;
    }
    emu_vm_unlock();
    return error;
}

int emu_kfd_file_at(uint64_t offset, uint64_t bytes, off_t *at)
{
    int fd = -1;
    if (offset < KFD_OFFSET_MEMORY)
        return -1;
    *at = (off_t)((offset - KFD_OFFSET_MEMORY) & ((1ull << OFFSET_BITS) - 1));
    emu_vm_lock_read();
    const struct object *object = object_by_number((offset - KFD_OFFSET_MEMORY) >> OFFSET_BITS);
    if (object && (uint64_t)*at + bytes <= (object->bytes + KFD_PAGE - 1) / KFD_PAGE * KFD_PAGE)
        fd = object->fd;
    emu_vm_unlock();
    return fd;
}

void *emu_kfd_memory(uint64_t handle, uint64_t bytes)
{
    emu_vm_lock_read();
    const struct object *object = object_of(handle);
    const struct emu_range *range = object && object->bytes >= bytes ? range_of(object) : NULL;
    void *host = range ? range->host : NULL;
    emu_vm_unlock();
    return host;
}

void emu_kfd_keep(uint64_t handle)
{
    emu_vm_lock();
    struct object *object = object_of(handle);
    if (object)
        object->kept = true;
    emu_vm_unlock();
}

int emu_kfd_available(struct kfd_available *args)
{
    int gpu = gpu_of(args->gpu_id);
    if (gpu == HOST)
        return EINVAL;
    emu_vm_lock_read();
    args->bytes = emu_config()->persona->vram_bytes - memory.vram[gpu];
    emu_vm_unlock();
    return 0;
}

int emu_kfd_dmabuf_info(struct kfd_dmabuf_info *args)
{
    struct emu_bo bo;
    int error = emu_kfd_read_bo(args->fd, &bo);
    if (error)
        return error;
    /* For host memory the driver returns the GPU of the allocation call. This node returns the first GPU. */
    int gpu = bo.gpu == HOST ? emu_gpu_of(1) : bo.gpu;
    if (!emu_node_of(gpu))
        return EINVAL;
    args->flags = bo.flags;
    args->bytes = bo.bytes;
    args->gpu_id = gpu_id_of(gpu);
    args->metadata_bytes = 0;
    return 0;
}

/* Refuses memory of a GPU that this process may not open. Takes ownership of fd. */
static int import(int fd, uint64_t va, uint32_t gpu_id, uint64_t *handle, uint64_t *mmap_offset)
{
    struct emu_bo bo;
    uint32_t number;
    int gpu, error = emu_kfd_find(gpu_id, &gpu);
    error = error ? error : emu_kfd_read_bo(fd, &bo);
    if (!error && bo.gpu != HOST && !emu_node_of(bo.gpu)) {
        emu_note("import of memory of a GPU that this process may not open");
        error = EINVAL;
    }
    if (error) {
        close(fd);
        return error;
    }
    emu_vm_lock();
    /* Imported memory counts in the process that has allocated it. */
    error = add(&(struct object){.va = va,
                                 .bytes = bo.bytes,
                                 .gpu_id = gpu_id,
                                 .flags = bo.flags & ~(uint32_t)VRAM,
                                 .gpu = bo.gpu,
                                 .fd = fd,
                                 .is_imported = true},
                &number);
    emu_vm_unlock();
    if (error)
        return error;
    *handle = (uint64_t)gpu_id << 32 | number;
    *mmap_offset = offset_of(number);
    return 0;
}

static bool refused_as_asked(void)
{
    static atomic_int imports;
    int limit = emu_config()->fail_import_after;
    bool refused = limit >= 0 && atomic_fetch_add(&imports, 1) >= limit;
    if (refused)
        emu_note("import of an IPC handle fails, as asked for");
    return refused;
}

int emu_kfd_import_dmabuf(struct kfd_import_dmabuf *args)
{
    uint64_t offset;
    if (refused_as_asked())
        return ENOMEM;
    int fd = fcntl(args->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? EBADF : import(fd, args->va, args->gpu_id, &args->handle, &offset);
}

int emu_kfd_export_dmabuf(struct kfd_export_dmabuf *args)
{
    emu_vm_lock_read();
    const struct object *object = object_of(args->handle);
    int error = !object ? EINVAL : object->fd < 0 ? EPERM : 0;
    if (!error && (args->fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0)) < 0)
        error = errno;
    emu_vm_unlock();
    return error;
}

/* Returns why an object cannot be shared by IPC, or NULL. The driver allows host memory, which has crashed kernels. */
static const char *not_shared(const struct object *object)
{
    const struct emu_range *range = range_of(object);
    return object->fd < 0                         ? "registered host memory"
           : range && range->kind == EMU_IMPORTED ? "imported memory"
           : object->gpu == HOST || !range        ? "host memory"
                                                  : NULL;
}

int emu_kfd_ipc_export(struct kfd_ipc_export *args)
{
    struct stat file;
    emu_vm_lock_read();
    const struct object *object = object_of(args->handle);
    const char *wrong = object ? not_shared(object) : "no memory of the node";
    int error = wrong ? EINVAL : fstat(object->fd, &file) ? errno : 0;
    if (!error) {
        args->share[0] = (uint32_t)getpid();
        args->share[1] = (uint32_t)object->fd;
        args->share[2] = (uint32_t)file.st_ino;
        args->share[3] = args->flags;
    }
    emu_vm_unlock();
    if (wrong)
        emu_violation("ipc-kind", "export of a handle %#llx: %s", (unsigned long long)args->handle, wrong);
    return error;
}

int emu_kfd_ipc_import(struct kfd_ipc_import *args)
{
    char path[64];
    struct stat file;
    if (refused_as_asked())
        return ENOMEM;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", args->share[0], args->share[1]);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &file) || (uint32_t)file.st_ino != args->share[2]) {
        if (fd >= 0)
            close(fd);
        emu_note("import of memory that process %u does not have any more", args->share[0]);
        return EINVAL;
    }
    args->flags = args->share[3];
    return import(fd, args->va, args->gpu_id, &args->handle, &args->mmap_offset);
}
