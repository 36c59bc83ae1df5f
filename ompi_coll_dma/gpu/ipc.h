/*
 * The IPC cache of a process: the allocations that it has exported, the allocations of other processes that it has
 * imported, and the host memory that it has registered with the runtime. Exporting, importing and registering are
 * expensive, so the cache remembers all three.
 *
 * Exports. An export stands for one allocation for as long as the allocation lives. Its number is never used again in
 * this process. So a peer that remembers a number cannot confuse two allocations that had the same address. If the
 * runtime identifies allocations (buffer_id is not 0), the handle of an allocation is requested once. Otherwise the
 * handle is requested in every call, and a different handle means a different allocation.
 *
 * Memory that does not live long. Peers open a receive buffer by IPC, which takes some 200 us with CUDA on a H100, once for each
 * allocation. A program that allocates a buffer for each of its calls would pay that in each call. If what is received goes through
 * scratch memory instead, which peers have open, such a call takes some 15 us more than into a buffer that is open. So when two
 * allocations in a row have been freed before DMA_IPC_BRIEF_CALLS calls have used them, a new allocation is not exported in its first
 * calls, but when it comes again after them. The first exported allocation that has lived longer ends this. A program with an
 * allocator of its own never gets here. Without buffer ids nothing is taken for brief.
 *
 * Imports. An import is identified by the nonce of the exporting process and by the description that this process has
 * published. All communicators share it. An import keeps the memory alive after its owner has freed it, and CUDA does not
 * open a handle at an address where other memory of the same owner is still open. Three rules follow:
 * - The owner of memory reports which exports it has freed (dma_ipc_is_freed).
 * - The users of this file limit how much they keep open.
 * - Before a new import is opened, every import that overlaps it is closed, even if it is in use, because its owner must
 *   have freed that memory.
 * Runtimes carve small allocations out of blocks and open whole blocks. So the last rule also applies to imports in the
 * same block, if the owner says (dma_export_t.first) that it has freed all of them.
 *
 * Virtually mapped memory is exported by file descriptors (mapped.h). Two such exports can have memory in common while both
 * exist, and each import has addresses of its own. So the rules about overlaps are not for them.
 *
 * A runtime may hold an import a little longer than its users. Then every later call tries to close it again. Until that
 * succeeds, an import that would take its place is refused with DMA_UNSUPPORTED.
 */
#ifndef DMA_GPU_IPC_H
#define DMA_GPU_IPC_H

#include <stddef.h>

#include "dma/counters.h"
#include "gpu/mapped.h"

typedef struct dma_ipc dma_ipc_t;

/* Returns NULL if there is no memory. `counters` of the process; NULL: nobody reads them. */
dma_ipc_t *dma_ipc_create(const dma_gpu_runtime_t *rt, dma_counters_t *counters);
/* All imports have been closed and all registrations released, except those of memory that a device may still access:
 * these stay open and registered until the process ends. */
void dma_ipc_destroy(dma_ipc_t *ipc);

/* Where virtually mapped memory is given to peers: for who sets the directory before it is, and ends it. */
dma_mapped_owner_t *dma_ipc_owner(dma_ipc_t *ipc);
/* Can virtually mapped memory be exported? The first call starts the thread that gives its file descriptors. */
bool dma_ipc_shares_mapped(dma_ipc_t *ipc);

/* The random number that identifies this process as an exporter. */
uint64_t dma_ipc_nonce(const dma_ipc_t *ipc);

typedef struct dma_export {
    uint64_t number; /* never 0 */
    uint64_t base, size;
    uint64_t buffer_id; /* from the runtime; 0: the runtime has none */
    uint64_t first;     /* every export in the same blocks with a number below this one has been freed */
    uint64_t mapped;    /* 1: virtually mapped memory; the handle holds no more than the owner's secret */
    dma_gpu_handle_t handle;
} dma_export_t;

/* May exportable memory be exported? No, if the runtime would keep too much for such exports (gpu/tied.h). */
bool dma_ipc_may_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory);
#define DMA_IPC_BRIEF_CALLS 3
/* Is this memory not exported, and likely to be freed after a few calls? Then it is not worth an export. */
bool dma_ipc_is_brief(dma_ipc_t *ipc, const dma_gpu_memory_t *memory);
/* A call uses such memory without an export. */
void dma_ipc_use_brief(dma_ipc_t *ipc, const dma_gpu_memory_t *memory);
/* Fills `export` for the allocation that contains `memory`, which must be exportable. */
dma_status_t dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory, dma_export_t *export);
/* The memory of this export is our own: when it is freed says nothing about the application. */
void dma_ipc_is_ours(dma_ipc_t *ipc, uint64_t number);
/* So many more calls have used this export, without asking for it. */
void dma_ipc_count_calls(dma_ipc_t *ipc, uint64_t number, unsigned calls);
/* Whether the memory of this export has been freed. Its number is not used again then. Queries the runtime. */
bool dma_ipc_is_freed(dma_ipc_t *ipc, uint64_t number);

typedef struct dma_import dma_import_t;

/* Opens an export of the process `nonce` for a device of this process, or returns the import that is already open.
 * DMA_AGAIN: not now, because the runtime has not yet released an import of memory that its owner has freed. */
dma_status_t dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                          dma_import_t **import);
/* The address of the first byte, as our device sees it. */
uint64_t dma_import_base(const dma_import_t *import);
void dma_ipc_close(dma_ipc_t *ipc, dma_import_t *import);

/* Registers host memory, so that `device` and all other devices can access it. Registrations of the same memory, or of a part
 * of it, are counted: the memory stays registered until each has been released with dma_ipc_unregister, by its address.
 * dma_ipc_unregister returns DMA_AGAIN if a stream waits: then the memory must stay mapped until the process ends. */
dma_status_t dma_ipc_register(dma_ipc_t *ipc, int device, void *addr, size_t bytes, uint64_t *device_addr);
dma_status_t dma_ipc_unregister(dma_ipc_t *ipc, const void *addr);

#endif
