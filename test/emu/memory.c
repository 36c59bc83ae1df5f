/* The thunk's calls for allocating, registering and mapping memory, over the table of vm.h. */
#include "memory.h"

#include "api.h"
#include "config.h"
#include "persona.h"
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

uint64_t emu_memory_alignment(uint64_t bytes)
{
    return bytes >= 2 << 20 ? 2 << 20 : 64 << 10;
}

/* GPU memory and pinned host memory are memfds, so that they can be shared. Scratch and pageable memory are anonymous. */
static struct emu_range *allocate(uint32_t node, uint64_t bytes, uint64_t alignment, HsaMemFlags flags)
{
    if (flags.ui32.Scratch || (!emu_is_gpu(node) && !flags.ui32.NonPaged))
        return emu_vm_add_anonymous(bytes, alignment);
    char name[32];
    snprintf(name, sizeof name, "emu-node%u", node);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)bytes)) {
        close(fd);
        return NULL;
    }
    return emu_vm_add_shared(fd, bytes, alignment);
}

static void set_flags(struct emu_range *range, HsaMemFlags flags)
{
    range->flags = flags.Value;
    range->read_only = flags.ui32.ReadOnly;
    range->executable = flags.ui32.ExecuteAccess;
}

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 bytes, HsaMemFlags flags, void **address)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    if (bytes == 0 || bytes % PAGE || flags.ui32.FixedAddress)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (emu_is_gpu(node) && bytes > emu_config()->persona->vram_bytes)
        return HSAKMT_STATUS_NO_MEMORY;
    emu_vm_lock();
    struct emu_range *range = allocate(node, bytes, emu_memory_alignment(bytes), flags);
    if (range) {
        range->node = node;
        set_flags(range, flags);
        *address = range->host;
    }
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_NO_MEMORY;
}

void *emu_memory_internal(uint64_t bytes)
{
    uint32_t nodes[EMU_MAX_NODES];
    for (uint32_t i = 0; i < emu_node_count(); i++)
        nodes[i] = i;
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.NonPaged = flags.ui32.HostAccess = 1;
    emu_vm_lock();
    struct emu_range *range = allocate(0, (bytes + PAGE - 1) / PAGE * PAGE, PAGE, flags);
    if (range) {
        set_flags(range, flags);
        emu_vm_map(range, nodes, emu_node_count());
    }
    emu_vm_unlock();
    return range ? range->host : NULL;
}

HSAKMT_STATUS hsaKmtFreeMemory(void *address, HSAuint64 bytes)
{
    EMU_API_ENTER();
    (void)bytes;
    emu_vm_lock();
    struct emu_range *range = emu_vm_find((uintptr_t)address);
    bool whole = range && range->va == (uintptr_t)address && range->kind == EMU_ALLOCATED;
    if (whole)
        emu_vm_remove(range);
    emu_vm_unlock();
    if (!whole) {
        emu_violation("free", "hsaKmtFreeMemory(%p) of what is no allocation", address);
        return HSAKMT_STATUS_INVALID_PARAMETER;
    }
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void *address, HSAuint64 bytes, HsaMemFlags flags)
{
    EMU_API_ENTER();
    if (!address || bytes == 0)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    emu_vm_lock();
    struct emu_range *range = emu_vm_find((uintptr_t)address);
    if (!range) {
        range = emu_vm_find_user((uintptr_t)address);
        if (range && (range->user != (uintptr_t)address || range->user_bytes != bytes))
            range = NULL;
    }
    if (range) {
        range->registrations++;
    } else {
        range = emu_vm_add_user(address, bytes);
        if (range)
            set_flags(range, flags);
    }
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_NO_MEMORY;
}

HSAKMT_STATUS hsaKmtRegisterMemory(void *address, HSAuint64 bytes)
{
    return hsaKmtRegisterMemoryWithFlags(address, bytes, (HsaMemFlags){.Value = 0});
}

HSAKMT_STATUS hsaKmtRegisterMemoryToNodes(void *address, HSAuint64 bytes, HSAuint64 count, HSAuint32 *nodes)
{
    (void)count;
    (void)nodes;
    return hsaKmtRegisterMemory(address, bytes);
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void *address)
{
    EMU_API_ENTER();
    emu_vm_lock();
    struct emu_range *range = emu_vm_find_any(address);
    if (range && range->kind != EMU_ALLOCATED && --range->registrations <= 0)
        emu_vm_remove(range);
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
}

HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void *address, HSAuint64 bytes, HSAuint64 *alternate, HsaMemMapFlags flags,
                                        HSAuint64 count, HSAuint32 *nodes)
{
    EMU_API_ENTER();
    (void)bytes;
    (void)flags;
    for (HSAuint64 i = 0; i < count; i++)
        if (nodes[i] >= emu_node_count())
            return HSAKMT_STATUS_INVALID_NODE_UNIT;
    emu_vm_lock();
    struct emu_range *range = emu_vm_find_any(address);
    if (range) {
        emu_vm_map(range, nodes, count);
        if (alternate)
            *alternate = range->kind == EMU_REGISTERED ? range->va + range->user % PAGE : 0;
    }
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtMapMemoryToGPU(void *address, HSAuint64 bytes, HSAuint64 *alternate)
{
    HSAuint32 nodes[EMU_MAX_NODES];
    for (uint32_t i = 0; i < emu_node_count(); i++)
        nodes[i] = i;
    return hsaKmtMapMemoryToGPUNodes(address, bytes, alternate, (HsaMemMapFlags){.Value = 0}, emu_node_count(), nodes);
}

HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void *address)
{
    EMU_API_ENTER();
    emu_vm_lock();
    struct emu_range *range = emu_vm_find_any(address);
    if (range)
        range->mapped_count = 0;
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void *pointer, HsaPointerInfo *info)
{
    EMU_API_ENTER();
    static const HSA_POINTER_TYPE types[] = {[EMU_ALLOCATED] = HSA_POINTER_ALLOCATED,
                                             [EMU_REGISTERED] = HSA_POINTER_REGISTERED_USER,
                                             [EMU_IMPORTED] = HSA_POINTER_REGISTERED_SHARED};
    memset(info, 0, sizeof *info);
    emu_vm_lock_read();
    struct emu_range *range = emu_vm_find_any(pointer);
    if (range) {
        bool user = range->kind == EMU_REGISTERED;
        info->Type = types[range->kind];
        info->Node = range->node;
        info->MemFlags.Value = range->flags;
        info->CPUAddress = user ? (void *)(uintptr_t)range->user : range->host;
        info->GPUAddress = user ? range->va + range->user % PAGE : range->va;
        info->SizeInBytes = user ? range->user_bytes : range->bytes;
        info->NRegisteredNodes = range->registered_count;
        info->RegisteredNodes = range->registered;
        info->NMappedNodes = range->mapped_count;
        info->MappedNodes = range->mapped;
        info->UserData = range->user_data;
    }
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_ERROR;
}

HSAKMT_STATUS hsaKmtSetMemoryUserData(const void *pointer, void *data)
{
    EMU_API_ENTER();
    emu_vm_lock();
    struct emu_range *range = emu_vm_find_any(pointer);
    if (range)
        range->user_data = data;
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}
