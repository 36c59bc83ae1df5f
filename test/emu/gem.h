/*
 * Memory on a render node: handles of an open file (GEM), as far as ROCr from 6.0 on uses them. Memory that this process or
 * another one has allocated with the driver is imported as a dma-buf, and mapped at GPU addresses by calls on the render node.
 * By these calls programs manage addresses themselves (hsa_amd_vmem_*, hipMemMap).
 *
 *    dma-buf --import--> handle --va--> addresses of one GPU; any number of times, whole or in parts
 *                          +----mmap--> an offset of the file, at which the CPU can map it
 *
 * An open file has one handle for a memory, also if it is imported several times. Closing the handle removes all its mappings.
 * Each open file has an address space of its own. Queues run only in the one that the process has given to the driver
 * (ACQUIRE_VM), so mappings in the others have no effect.
 *
 * Errors: the calls check what amdgpu checks, and return its error numbers. One call that amdgpu allows is refused, with a
 * note: different memory of two GPUs at the same address.
 */
#ifndef EMU_GEM_H
#define EMU_GEM_H

#include <stdint.h>
#include <sys/types.h>

struct emu_gem_va {
    uint32_t handle, pad, operation, flags;
    uint64_t va, offset, bytes;
};

/* Each returns 0 or an errno. `file` is the number of the open file (file.h), `gpu` the GPU of the render node. */
int emu_gem_import(uint64_t file, int dmabuf, uint32_t *handle);
int emu_gem_export(uint64_t file, uint32_t handle, int *dmabuf);
int emu_gem_close(uint64_t file, uint32_t handle);
int emu_gem_mmap(uint64_t file, uint32_t handle, uint64_t *offset);
int emu_gem_va(uint64_t file, int gpu, const struct emu_gem_va *args);

/* Returns the memfd for an offset of mmap, and sets *at to the offset in it. -1: there is none. */
int emu_gem_file_at(uint64_t offset, uint64_t bytes, off_t *at);

#endif
