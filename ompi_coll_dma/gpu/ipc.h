/*
 * Sharing device memory between the processes of a node: what this process has exported, what it has opened, and the host
 * memory it has shown to its devices. Exporting, opening and registering are dear, so all three are remembered.
 *
 * An export stands for one allocation, as long as it lives: its number is never used again in this process, so that a
 * peer that remembers a number never confuses two allocations, even if they have had the same address. A runtime that
 * tells allocations apart (buffer_id) is asked for a handle once; else it is asked in every call, and another handle is
 * another allocation.
 *
 * An opened allocation is known by the exporting process's nonce and by what that has said of it, and shared by all
 * communicators that use it. It keeps the memory alive after its owner has freed it, and CUDA opens nothing where its owner
 * had other memory that is still open here. So owners say what they have freed (dma_ipc_is_freed), the users of this file bound
 * how much they keep, and what overlaps a new opening is closed before it, whoever still has it: its owner has freed it.
 * Runtimes take small allocations out of blocks and open whole blocks. So the same goes for what lies beside the new one in
 * its block, if the owner says that it has freed all that was there. A runtime may hold an import a little longer than its
 * users do; then closing is tried again in every later call, and what would take its place is not opened before (DMA_UNSUPPORTED).
 */
#ifndef DMA_GPU_SHARE_H
#define DMA_GPU_SHARE_H

#include <stddef.h>

#include "gpu/runtime.h"

typedef struct dma_ipc dma_ipc_t;

/* NULL: no memory. */
dma_ipc_t *dma_ipc_create(const dma_gpu_runtime_t *rt);
/* Everything has been given back, but for memory that a device may still look at: that stays shown. */
void dma_ipc_destroy(dma_ipc_t *ipc);

/* Of this process, as an exporter. */
uint64_t dma_ipc_nonce(const dma_ipc_t *ipc);

typedef struct dma_export {
    uint64_t number; /* never 0 */
    uint64_t base, size;
    uint64_t buffer_id; /* the runtime's, or 0 */
    uint64_t first;     /* of exports with lower numbers in the same blocks (below) nothing is left */
    dma_gpu_handle_t handle;
} dma_export_t;

/* The export of the allocation that `memory`, which is exportable, was found to be in. */
dma_status_t dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory, dma_export_t *export);
/* Will the export with this number never be asked for again, because its memory has been freed? Asks the runtime. */
bool dma_ipc_is_freed(dma_ipc_t *ipc, uint64_t number);

typedef struct dma_import dma_import_t;

/* Opens what the process `nonce` has exported under `number`, for a device of ours, or finds that it is open. */
dma_status_t dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                          dma_import_t **import);
/* Where it begins, for our device. */
uint64_t dma_import_base(const dma_import_t *import);
void dma_ipc_close(dma_ipc_t *ipc, dma_import_t *import);

/* Shows host memory to the devices, `device` among them; the same memory may be shown several times and is hidden as often. */
dma_status_t dma_ipc_register(dma_ipc_t *ipc, int device, void *addr, size_t bytes, uint64_t *device_addr);
void dma_ipc_unregister(dma_ipc_t *ipc, const void *addr);

#endif
