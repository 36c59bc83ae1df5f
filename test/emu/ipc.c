/*
 * Shares GPU memory between processes of one node.
 *
 * A handle has eight words:
 *
 *     0 magic, place   1 pid   2 file descriptor   3 inode   4 GPU, place   5 pages   6 belongs to the runtime   7 flags
 *
 * The place is the exporter's address in pages: its upper 16 bits are in the lower half of word 0, the other 20 bits in the
 * upper bits of word 4. An import is refused if the exporter has freed other memory at the same place and this process still
 * has that memory open. NVIDIA's driver refuses this, too. AMD's driver allows it. With both, the freed memory stays allocated.
 *
 * The importer opens the exporter's file. The inode shows whether the descriptor still is that file. The memory exists as long
 * as a process maps it. As with the driver, a new import needs the exporter's allocation. Only plain GPU memory is exported,
 * because exports of other kinds of memory have crashed kernels.
 */
#include "api.h"
#include "config.h"
#include "memory.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC = 0x4350, PAGE_BITS = 12, PLACE_BITS = 20, GPU_BITS = 12 };
enum { AT_MAGIC, AT_PID, AT_FD, AT_INODE, AT_GPU, AT_PAGES, AT_RUNTIME, AT_FLAGS };

static uint64_t place_of(const HSAuint32 *words)
{
    return ((uint64_t)(words[AT_MAGIC] & 0xffff) << PLACE_BITS | words[AT_GPU] >> GPU_BITS) << PAGE_BITS;
}

/* Returns the node of the handle's GPU. The handle has the driver's number, because node numbers differ between processes. 0:
 * this process may not open the GPU. */
static HSAuint32 node_of(const HSAuint32 *words)
{
    return emu_node_of((int)(words[AT_GPU] & ((1u << GPU_BITS) - 1)));
}

static const char *kind_name(const struct emu_range *range)
{
    switch (range->kind) {
    case EMU_REGISTERED:
        return "registered host memory";
    case EMU_IMPORTED:
        return "imported memory";
    default:
        return range->node == 0 ? "host memory" : range->fd < 0 ? "scratch memory" : NULL;
    }
}

HSAKMT_STATUS hsaKmtShareMemory(void *address, HSAuint64 bytes, HsaSharedMemoryHandle *handle)
{
    EMU_API_ENTER();
    emu_vm_lock_read();
    const struct emu_range *range = emu_vm_find_any(address);
    const char *kind = range ? kind_name(range) : "no memory of the node";
    const char *wrong = kind                              ? kind
                        : range->va != (uintptr_t)address ? "not the start of an allocation"
                        : range->bytes != bytes           ? "not the whole allocation"
                                                          : NULL;
    struct stat file;
    if (!wrong && fstat(range->fd, &file) == 0) {
        HSAuint32 *words = *handle;
        words[AT_MAGIC] = (HSAuint32)MAGIC << 16 | (HSAuint32)(range->va >> (PAGE_BITS + PLACE_BITS) & 0xffff);
        words[AT_PID] = (HSAuint32)getpid();
        words[AT_FD] = (HSAuint32)range->fd;
        words[AT_INODE] = (HSAuint32)file.st_ino;
        words[AT_GPU] = (HSAuint32)emu_gpu_of(range->node) | (HSAuint32)(range->va >> PAGE_BITS) << GPU_BITS;
        words[AT_PAGES] = (HSAuint32)(range->bytes >> PAGE_BITS);
        words[AT_RUNTIME] = 0;
        words[AT_FLAGS] = range->flags;
    }
    emu_vm_unlock();
    if (wrong) {
        emu_violation("ipc-kind", "hsaKmtShareMemory(%p, %#llx): %s", address, (unsigned long long)bytes, wrong);
        return HSAKMT_STATUS_INVALID_PARAMETER;
    }
    return HSAKMT_STATUS_SUCCESS;
}

/* Opens the exporter's file. -1: it does not exist any more. */
static int open_exported(const HSAuint32 *words)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", words[AT_PID], words[AT_FD]);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat file;
    if (fd >= 0 && fstat(fd, &file) == 0 && (HSAuint32)file.st_ino == words[AT_INODE] &&
        file.st_size == (off_t)words[AT_PAGES] << PAGE_BITS)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle *handle, void **address, HSAuint64 *bytes,
                                                HSAuint64 count, HSAuint32 *nodes)
{
    EMU_API_ENTER();
    static atomic_int imports;
    const HSAuint32 *words = *handle;
    if (words[AT_MAGIC] >> 16 != MAGIC || count > EMU_MAX_NODES)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    if (!node_of(words)) {
        emu_note("import of memory of a GPU that this process may not open");
        return HSAKMT_STATUS_ERROR;
    }
    int limit = emu_config()->fail_import_after;
    if (limit >= 0 && atomic_fetch_add(&imports, 1) >= limit) {
        emu_note("import of an IPC handle fails, as asked for");
        return HSAKMT_STATUS_ERROR;
    }
    int fd = open_exported(words);
    if (fd < 0) {
        emu_note("import of memory that process %u does not have any more", words[AT_PID]);
        return HSAKMT_STATUS_ERROR;
    }
    uint64_t size = (uint64_t)words[AT_PAGES] << PAGE_BITS;
    emu_vm_lock();
    if (emu_vm_find_stale(words[AT_PID], words[AT_INODE], place_of(words), size)) {
        emu_vm_unlock();
        close(fd);
        emu_note("import where process %u had freed other memory, which is still open", words[AT_PID]);
        return HSAKMT_STATUS_ERROR;
    }
    struct emu_range *range = emu_vm_add_shared(fd, size, emu_memory_alignment(size));
    if (range) {
        range->kind = EMU_IMPORTED;
        range->node = node_of(words);
        range->home_va = place_of(words);
        range->home_pid = words[AT_PID];
        range->home_inode = words[AT_INODE];
        range->flags = words[AT_FLAGS];
        range->registrations = 1;
        for (HSAuint64 i = 0; i < count; i++)
            range->registered[range->registered_count++] = nodes[i];
        *address = range->host;
        *bytes = size;
    }
    emu_vm_unlock();
    return range ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_NO_MEMORY;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle *handle, void **address, HSAuint64 *bytes)
{
    return hsaKmtRegisterSharedHandleToNodes(handle, address, bytes, 0, NULL);
}
