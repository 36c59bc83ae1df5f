/*
 * Memory on a render node, by handles of the file that was opened there (GEM), as far as ROCr from 6.0 on asks: memory that the
 * process or another has allocated with the driver comes in as a dma-buf, and gets addresses by the node's own calls. That is
 * how programs manage addresses themselves (hsa_amd_vmem_*, hipMemMap).
 *
 *    dma-buf --import--> handle --va--> addresses of one GPU; as often as one likes, whole or in parts
 *                          +----mmap--> an offset, by which the file maps it for the processor
 *
 * A file has one handle for a memory, however often it is imported. With the handle goes all that was mapped by it. Addresses
 * are those of the file's own address space; queues run only in that one that the process has given to the driver (ACQUIRE_VM),
 * and so nobody sees the others.
 *
 * How it fails: the calls check what amdgpu checks, and return its error numbers. One thing is refused that it grants, with a
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

/* Each returns 0 or an errno. `file` is the number of the open file (file.h), `gpu` whose it is. */
int emu_gem_import(uint64_t file, int dmabuf, uint32_t *handle);
int emu_gem_export(uint64_t file, uint32_t handle, int *dmabuf);
int emu_gem_close(uint64_t file, uint32_t handle);
int emu_gem_mmap(uint64_t file, uint32_t handle, uint64_t *offset);
int emu_gem_va(uint64_t file, int gpu, const struct emu_gem_va *args);

/* The file that is behind an offset for mmap, and where in it: -1 if there is none. */
int emu_gem_file_at(uint64_t offset, uint64_t bytes, off_t *at);

#endif
