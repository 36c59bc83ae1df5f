/*
 * The kernel's interface of the emulated node, as far as making queues and memory for their rings goes: what the preloaded shim (kfd_shim.c) hands on of
 * calls on /dev/kfd. Queues end up beside those of the thunk, on the same engines.
 *
 * Like the newest kernels it takes a ring, and pages of pointers, only where each begins a mapping of exactly its size that
 * the GPU has, and does not let go of a ring before the queue. A ring that is not executable is a violation: the kernel would
 * take it, and the engine could not fetch from it. Like any it knows the process by its memory: without a runtime that has opened the node there is no address
 * space, and a child has none of its parent's.
 *
 * The structures are written down here once more, so that the component's own are not checked against themselves.
 */
#include "api.h"
#include "config.h"
#include "machine.h"
#include "persona.h"
#include "queue.h"
#include "report.h"
#include "vm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    PAGE = 4096,
    MAJOR = 1,
    GET_VERSION = 1,
    CREATE_QUEUE = 2,
    DESTROY_QUEUE = 3,
    ALLOC_MEMORY = 0x16,
    FREE_MEMORY = 0x17,
    MAP_MEMORY = 0x18,
    UNMAP_MEMORY = 0x19,
    USERPTR = 1 << 2,
    EXECUTABLE = 1 << 30,
    TYPE_SDMA = 1,
    TYPE_XGMI = 3,
    TYPE_BY_ENGINE = 4,
    BY_ENGINE_MINOR = 17,
    NOT_SUPPORTED = 524, /* the kernel's own number, ENOTSUPP */
};

struct create {
    uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
    uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
    uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
    uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad;
};
_Static_assert(sizeof(struct create) == 96, "as Linux has it from 1.17 on");

struct alloc {
    uint64_t va_addr, size, handle, mmap_offset;
    uint32_t gpu_id, flags;
};

struct map {
    uint64_t handle, device_ids;
    uint32_t n_devices, n_success;
};

/* What a range's handle is: not its address. */
#define HANDLE (5ull << 56)

static uint32_t node_of(uint32_t gpu_id)
{
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
        if (emu_persona_gpu_id(emu_config()->persona, gpu) == gpu_id)
            return emu_node_of(gpu);
    return 0;
}

uint32_t emu_gpu_id(uint32_t node)
{
    return emu_persona_gpu_id(emu_config()->persona, emu_gpu_of(node));
}

/* Whether memory around an address is a mapping of exactly `bytes` from the begin of its page. */
static bool is_exact(uint32_t node, uint64_t at, uint64_t bytes)
{
    emu_vm_lock_read();
    const struct emu_range *range = emu_vm_find(at);
    bool exact =
        range && range->va == (at & ~(uint64_t)(PAGE - 1)) && range->bytes == bytes && emu_vm_is_mapped(range, node);
    emu_vm_unlock();
    if (!exact)
        emu_note("the kernel refuses a queue: %#llx does not begin a mapping of %llu bytes", (unsigned long long)at,
                 (unsigned long long)bytes);
    return exact;
}

/* A ring that the kernel takes is of no use if the engine cannot fetch from it. */
static bool is_executable(const char *owner, uint64_t ring)
{
    emu_vm_lock_read();
    const struct emu_range *range = emu_vm_find(ring);
    bool executable = range && range->flags.ui32.ExecuteAccess;
    emu_vm_unlock();
    if (!executable)
        emu_violation("ring", "queue of %s with a ring at %#llx: it is not executable", owner,
                      (unsigned long long)ring);
    return executable;
}

/* Of what the kernel makes only this: pages of the process, at their own address. */
static int alloc(struct alloc *args)
{
    if (emu_config()->kfd_refuses == EMU_KFD_MEMORY)
        return ENOMEM;
    if (!(args->flags & USERPTR) || args->va_addr != args->mmap_offset || args->va_addr % PAGE || args->size == 0 ||
        args->size % PAGE || node_of(args->gpu_id) == 0)
        return EINVAL;
    emu_vm_lock();
    struct emu_range *range = NULL;
    bool taken = emu_vm_find(args->va_addr) || emu_vm_find(args->va_addr + args->size - 1);
    if (!taken)
        range = emu_vm_add_lent((void *)(uintptr_t)args->va_addr, args->size);
    if (range) {
        range->flags.ui32.HostAccess = 1;
        range->flags.ui32.ExecuteAccess = (args->flags & EXECUTABLE) != 0;
        args->handle = HANDLE | range->va;
    }
    emu_vm_unlock();
    return taken ? EADDRINUSE : range ? 0 : ENOMEM;
}

/* With the table's lock. */
static struct emu_range *range_of(uint64_t handle)
{
    struct emu_range *range = (handle & HANDLE) == HANDLE ? emu_vm_find(handle & ~HANDLE) : NULL;
    return range && range->lent && range->va == (handle & ~HANDLE) ? range : NULL;
}

static int map(struct map *args, bool mapped)
{
    uint32_t nodes[EMU_MAX_NODES];
    if (args->n_devices == 0 || args->n_devices > EMU_MAX_NODES || args->n_success)
        return EINVAL;
    for (uint32_t i = 0; i < args->n_devices; i++)
        if (!(nodes[i] = node_of(((const uint32_t *)(uintptr_t)args->device_ids)[i])))
            return EINVAL;
    emu_machine_lock();
    emu_vm_lock();
    struct emu_range *range = range_of(args->handle);
    int error = !range ? EINVAL : !mapped && emu_machine_has_ring(range->va) ? EBUSY : 0;
    if (!error)
        emu_vm_map(range, nodes, mapped ? args->n_devices : 0);
    emu_vm_unlock();
    emu_machine_unlock();
    args->n_success = error ? 0 : args->n_devices;
    return error;
}

static int release(uint64_t handle)
{
    emu_vm_lock();
    struct emu_range *range = range_of(handle);
    int error = !range ? EINVAL : range->mapped_count ? EBUSY : 0;
    if (!error)
        emu_vm_remove(range);
    emu_vm_unlock();
    return error;
}

/* The thunk's name for the kernel's type, or -1. */
static int type_of(const struct create *args)
{
    switch (args->queue_type) {
    case TYPE_SDMA:
        return HSA_QUEUE_SDMA;
    case TYPE_XGMI:
        return HSA_QUEUE_SDMA_XGMI;
    case TYPE_BY_ENGINE:
        return emu_config()->kfd_minor >= BY_ENGINE_MINOR ? EMU_QUEUE_BY_ENGINE : -1;
    default:
        return -1;
    }
}

static int create(const char *owner, struct create *args)
{
    const struct emu_persona *persona = emu_config()->persona;
    uint32_t node = node_of(args->gpu_id), doorbell;
    int type = type_of(args);
    if (type < 0)
        return NOT_SUPPORTED;
    if (emu_config()->kfd_refuses == EMU_KFD_QUEUES)
        return ENOMEM;
    if (node == 0 || args->queue_percentage > 100 || args->queue_priority > 15 || args->ring_size < PAGE ||
        (args->ring_size & (args->ring_size - 1)))
        return EINVAL;
    if (type == EMU_QUEUE_BY_ENGINE && args->sdma_engine_id >= persona->host_engines + persona->xgmi_engines)
        return EINVAL;
    if (!is_exact(node, args->write_pointer_address, PAGE) || !is_exact(node, args->read_pointer_address, PAGE) ||
        args->ring_base_address % PAGE || !is_exact(node, args->ring_base_address, args->ring_size) ||
        !is_executable(owner, args->ring_base_address))
        return EINVAL;
    HSAKMT_STATUS status =
        emu_queue_create(owner, node, type, args->sdma_engine_id, (void *)(uintptr_t)args->ring_base_address,
                         args->ring_size, (uint64_t *)(uintptr_t)args->write_pointer_address,
                         (uint64_t *)(uintptr_t)args->read_pointer_address, &args->queue_id, &doorbell);
    if (status != HSAKMT_STATUS_SUCCESS)
        return ENOMEM;
    args->doorbell_offset = 3ull << 62 | (uint64_t)(args->gpu_id & 0xffff) << 46 | doorbell;
    return 0;
}

static int serve(const char *owner, unsigned long request, void *argument)
{
    /* Shorter structures are those of older programs; what they lack is zero. */
    union {
        struct create create;
        struct alloc alloc;
        struct map map;
        uint64_t handle;
        uint32_t words[24];
    } copy = {.words = {0}};
    size_t bytes = _IOC_SIZE(request);
    int error = EINVAL;
    if (bytes > sizeof copy)
        return EINVAL;
    memcpy(&copy, argument, bytes);
    if (_IOC_NR(request) == GET_VERSION) {
        copy.words[0] = MAJOR;
        copy.words[1] = emu_config()->kfd_minor;
        error = 0;
    } else if (_IOC_NR(request) == CREATE_QUEUE) {
        error = create(owner, &copy.create);
    } else if (_IOC_NR(request) == DESTROY_QUEUE) {
        error = hsaKmtDestroyQueue(copy.words[0]) == HSAKMT_STATUS_SUCCESS ? 0 : EINVAL;
    } else if (_IOC_NR(request) == ALLOC_MEMORY) {
        error = alloc(&copy.alloc);
    } else if (_IOC_NR(request) == MAP_MEMORY || _IOC_NR(request) == UNMAP_MEMORY) {
        error = map(&copy.map, _IOC_NR(request) == MAP_MEMORY);
    } else if (_IOC_NR(request) == FREE_MEMORY) {
        error = release(copy.handle);
    }
    memcpy(argument, &copy, bytes);
    return error;
}

int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument)
{
    if (emu_api_forked())
        return EBADF;
    if (emu_api_enter(__func__) != HSAKMT_STATUS_SUCCESS)
        return ESRCH;
    int error = serve(emu_api_caller(caller), request, argument);
    emu_trace("ioctl %#lx on /dev/kfd: %s", request, error == NOT_SUPPORTED ? "ENOTSUPP" : strerror(error));
    return error;
}

void *emu_kfd_map(size_t bytes, uint64_t offset)
{
    bool known = false;
    if (emu_config()->kfd_refuses == EMU_KFD_DOORBELLS)
        return NULL;
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
        known |= emu_node_of(gpu) &&
                 offset == (3ull << 62 | (uint64_t)(emu_persona_gpu_id(emu_config()->persona, gpu) & 0xffff) << 46);
    return known && bytes == EMU_DOORBELL_BYTES && !emu_api_forked() ? emu_queue_map_doorbells() : NULL;
}
