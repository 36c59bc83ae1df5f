/*
 * Queues from the kernel driver, KFD. Its interface is declared here, because few systems have a header that is new enough.
 * The structures may grow at their ends. The kernel accepts shorter and longer ones: it sets missing members to zero and
 * ignores members that it does not know.
 *
 *     /dev/kfd          All descriptors of a process (of its memory map) share one state: GPUs, addresses, queues. ROCr has
 *                       opened the file before and has acquired the GPU's address space. Our descriptor shares it.
 *     create            The ring and the read and write pointers are addresses in that space. Each must be the start of a
 *                       mapping: the ring of a mapping of exactly its size, the pointers of a mapping of one page.
 *     ring              Memory of ours, at its host address, as an executable object of the GPU. It is the same kind of
 *                       object as the rings of ROCr's own DMA queues. ROCr up to 6.2 gives such memory to no application, and
 *                       memory that it locks is an executable object only where the thunk does not use the kernel's SVM
 *                       interface, as it does from ROCm 5.6 on. The address is free on the GPU: the thunk too takes its
 *                       addresses from mmap, or from a range that it has reserved.
 *     doorbell_offset   The offset of the process's doorbells of this GPU in the mapping space of /dev/kfd. The low bits
 *                       select the doorbell of the queue:
 *
 *         63     62 61          46 45                  13 12         0
 *        +---------+--------------+----------------------+------------+
 *        | type: 3 | gpu_id, hash |          0           | doorbell   |     two pages: 1024 doorbells of 8 bytes
 *        +---------+--------------+----------------------+------------+
 *
 * A descriptor works in the process that opened it, and not in its children. Closing the descriptor does not destroy
 * queues: only DMA_KFD_DESTROY_QUEUE or the end of the process does.
 */
#ifndef DMA_SDMA_KFD_H
#define DMA_SDMA_KFD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "engine/sdma/queues/provider.h"
#include "engine/sdma/queues/rocr.h"

typedef struct dma_kfd_version {
    uint32_t major, minor;
} dma_kfd_version_t;

typedef struct dma_kfd_create {
    uint64_t ring;
    uint64_t write_ptr;
    uint64_t read_ptr;
    uint64_t doorbell_offset; /* set by the kernel */
    uint32_t ring_bytes;
    uint32_t gpu_id;
    uint32_t type;
    uint32_t percent;
    uint32_t priority;
    uint32_t queue_id; /* set by the kernel */
    uint64_t eop;      /* this and the next three members: compute queues only */
    uint64_t eop_bytes;
    uint64_t save;
    uint32_t save_bytes;
    uint32_t stack_bytes;
    uint32_t engine; /* from KFD 1.17 on */
    uint32_t pad;
} dma_kfd_create_t;

typedef struct dma_kfd_destroy {
    uint32_t queue_id;
    uint32_t pad;
} dma_kfd_destroy_t;

/* Memory of the GPU, here pages of the process. The handle is one of the process and the GPU. */
typedef struct dma_kfd_alloc {
    uint64_t address; /* on the GPU */
    uint64_t bytes;
    uint64_t handle; /* set by the kernel */
    uint64_t pages;  /* where they are in the process */
    uint32_t gpu_id;
    uint32_t flags;
} dma_kfd_alloc_t;

typedef struct dma_kfd_free {
    uint64_t handle;
} dma_kfd_free_t;

/* Both mapping and unmapping. */
typedef struct dma_kfd_map {
    uint64_t handle;
    uint64_t gpu_ids; /* address of an array of uint32_t */
    uint32_t count;
    uint32_t done; /* a repeated call continues there */
} dma_kfd_map_t;

#define DMA_KFD_GET_VERSION   _IOR('K', 0x01, dma_kfd_version_t)
#define DMA_KFD_CREATE_QUEUE  _IOWR('K', 0x02, dma_kfd_create_t)
#define DMA_KFD_DESTROY_QUEUE _IOWR('K', 0x03, dma_kfd_destroy_t)
#define DMA_KFD_ALLOC         _IOWR('K', 0x16, dma_kfd_alloc_t)
#define DMA_KFD_FREE          _IOW('K', 0x17, dma_kfd_free_t)
#define DMA_KFD_MAP           _IOWR('K', 0x18, dma_kfd_map_t)
#define DMA_KFD_UNMAP         _IOWR('K', 0x19, dma_kfd_map_t)

#define DMA_KFD_MEMORY_USERPTR    (UINT32_C(1) << 2)
#define DMA_KFD_MEMORY_COHERENT   (UINT32_C(1) << 26)
#define DMA_KFD_MEMORY_EXECUTABLE (UINT32_C(1) << 30)
#define DMA_KFD_MEMORY_WRITABLE   (UINT32_C(1) << 31)

#define DMA_KFD_MAJOR        1u
#define DMA_KFD_BY_ENG_MINOR 17u /* KFD 1.17: first version with queues on a given engine */

#define DMA_KFD_QUEUE_SDMA        1u
#define DMA_KFD_QUEUE_SDMA_XGMI   3u
#define DMA_KFD_QUEUE_SDMA_BY_ENG 4u

#define DMA_KFD_PERCENT  100u
#define DMA_KFD_PRIORITY 15u /* the highest; equals the thunk's maximum */

#define DMA_KFD_DOORBELL_BYTES 8192u /* of a process on a GPU; the kernel maps all of them or none */

/* The system calls and the search for ROCr. Tests replace them by a simulated kernel. Failures are reported as in C,
 * with -1 or MAP_FAILED and errno. */
typedef struct dma_kfd_sys {
    int (*open)(const char *path, int flags);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    /* Read and write, at any address: MAP_SHARED, or with fd -1 private and anonymous. */
    void *(*mmap)(size_t bytes, int fd, uint64_t offset);
    int (*munmap)(void *at, size_t bytes);
    int (*close)(int fd);
    dma_status_t (*find_rocr)(dma_rocr_t *rocr, const char **reason);
} dma_kfd_sys_t;

/* dma_provider_ops_t.open with the given system calls, which must stay valid. */
dma_status_t dma_kfd_open(const dma_kfd_sys_t *sys, const dma_provider_gpu_t *gpu, dma_provider_t **provider,
                          char *why);

#endif
