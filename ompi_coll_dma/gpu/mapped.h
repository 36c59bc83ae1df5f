/*
 * Virtually mapped memory (cuMemCreate and cuMemMap; the expandable segments of PyTorch), shared by file descriptors.
 *
 * Such memory has no IPC handle. Its owner reserves addresses, and maps physical allocations there, side by side, of 2 MiB or
 * more each. It can unmap them and map others at any time. If an allocation was made with the handle type "POSIX file
 * descriptor", a descriptor stands for it in another process:
 *
 *     reserved addresses of the owner   |......[ A ][ B ][ C ][ D ]...........|
 *     the call's buffer                               <------>
 *     what is exported                            [ B ][ C ]                      base, size: of whole parts
 *     in the importing process                 |[ B ][ C ]|                       its own addresses, side by side again
 *
 * - What is exported are the parts that the buffer touches, not all that is mapped around it: that can be all memory of the
 *   device. So two exports can have a part in common. Each is opened on its own, which costs addresses, and no memory.
 * - The id of an export is computed from the addresses, sizes and ids of all its parts. A buffer is looked at in each call, by
 *   one query for each part. So it is noticed if the owner has mapped other memory at the same addresses. Neither the id of
 *   the runtime's buffers nor the base of its ranges can tell: with CUDA they may be those of the reservation. Without ids of
 *   physical allocations the memory is not exported.
 * - A buffer is exported only if all its parts are on one device and can be shared.
 * - What is imported stays in memory after its owner has unmapped it, as with IPC handles: ipc.h has the rules.
 *
 * A record (device/device.h) has no room for descriptors. So the importing process asks the owner (node/giver.h), which looks
 * again whether the memory still has that id.
 *
 * Memory of pools is not shared so: the runtime demands that all importers give it back before its owner frees it, and no
 * owner waits for its peers here.
 */
#ifndef DMA_GPU_MAPPED_H
#define DMA_GPU_MAPPED_H

#include <stddef.h>

#include "gpu/runtime.h"
#include "node/giver.h"

#define DMA_MAPPED_PARTS 4096 /* most parts of an export */

/* If all of [addr, addr + bytes) can be shared, sets base, size and id of the memory to those of the parts. */
bool dma_mapped_find(const dma_gpu_runtime_t *rt, uint64_t addr, uint64_t bytes, dma_gpu_memory_t *memory);

/* What a process needs to give its own. Zero, except for the first three. */
typedef struct dma_mapped_owner {
    const char *dir;        /* of sockets, which the other ranks see too; NULL: none */
    uint64_t nonce, secret; /* that names the socket; that who asks must know */
    dma_giver_t *giver;
    bool refused; /* there can be no giver */
} dma_mapped_owner_t;

/* Can peers ask for such memory? The first call starts the thread that answers. It takes no lock of its caller. */
bool dma_mapped_share(const dma_gpu_runtime_t *rt, dma_mapped_owner_t *owner);
/* Ends the thread. From now on nobody can ask. */
void dma_mapped_end(dma_mapped_owner_t *owner);

/* Memory of another process, mapped here. */
typedef struct dma_mapped {
    uint64_t base, bytes; /* of the reservation */
    size_t n;             /* parts */
    uint64_t sizes[];
} dma_mapped_t;

/* Asks the owner, who listens in `dir`, and maps what it gives for the device. After an error nothing is left. */
dma_status_t dma_mapped_open(const dma_gpu_runtime_t *rt, int device, const char *dir, uint64_t nonce,
                             const dma_wish_t *wish, dma_mapped_t **mapped);
/* Unmaps it, and frees the structure. No copy may access it any more. */
dma_status_t dma_mapped_close(const dma_gpu_runtime_t *rt, int device, dma_mapped_t *mapped);

#endif
