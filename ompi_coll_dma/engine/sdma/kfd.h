/*
 * Queues from the kernel driver itself, KFD: what we use of its interface, declared here because few machines have a
 * header that is new enough. The structures grow at their ends, and the kernel takes shorter and longer ones: what the
 * caller does not send is zero, what the kernel does not know is not looked at.
 *
 *     /dev/kfd          one state for all descriptors of a process (of its memory map): GPUs, addresses, queues. ROCr has
 *                       opened it before us and has taken the GPU's address space; ours is one more descriptor of the same.
 *     create            ring, read and write pointer are addresses of memory in that space, each the begin of a mapping:
 *                       the ring's of exactly the ring's size, the pointers' of one page
 *     doorbell_offset   where in /dev/kfd's mapping space the process's doorbells of that GPU are, and in its low bits
 *                       which of them is the queue's:
 *
 *         63     62 61          46 45                  13 12         0
 *        +---------+--------------+----------------------+------------+
 *        | type: 3 | gpu_id, hash |          0           | doorbell   |     two pages: 1024 doorbells of 8 bytes
 *        +---------+--------------+----------------------+------------+
 *
 * A descriptor works in the process that opened it, and in no child. Closing it ends no queue: that is `destroy`, or the
 * end of the process.
 */
#ifndef DMA_SDMA_KFD_H
#define DMA_SDMA_KFD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "engine/sdma/provider.h"
#include "engine/sdma/rocr.h"

typedef struct dma_kfd_version {
    uint32_t major, minor;
} dma_kfd_version_t;

typedef struct dma_kfd_create {
    uint64_t ring;
    uint64_t write_ptr;
    uint64_t read_ptr;
    uint64_t doorbell_offset; /* of the kernel */
    uint32_t ring_bytes;
    uint32_t gpu_id;
    uint32_t type;
    uint32_t percent;
    uint32_t priority;
    uint32_t queue_id; /* of the kernel */
    uint64_t eop;      /* this and the next three: of compute queues */
    uint64_t eop_bytes;
    uint64_t save;
    uint32_t save_bytes;
    uint32_t stack_bytes;
    uint32_t engine; /* from 1.17 on */
    uint32_t pad;
} dma_kfd_create_t;

typedef struct dma_kfd_destroy {
    uint32_t queue_id;
    uint32_t pad;
} dma_kfd_destroy_t;

#define DMA_KFD_GET_VERSION   _IOR('K', 0x01, dma_kfd_version_t)
#define DMA_KFD_CREATE_QUEUE  _IOWR('K', 0x02, dma_kfd_create_t)
#define DMA_KFD_DESTROY_QUEUE _IOWR('K', 0x03, dma_kfd_destroy_t)

#define DMA_KFD_MAJOR        1u
#define DMA_KFD_BY_ENG_MINOR 17u /* from here on queues can name their engine */

#define DMA_KFD_QUEUE_SDMA        1u
#define DMA_KFD_QUEUE_SDMA_XGMI   3u
#define DMA_KFD_QUEUE_SDMA_BY_ENG 4u

#define DMA_KFD_PERCENT  100u
#define DMA_KFD_PRIORITY 15u /* the highest; what the thunk's maximum is */

#define DMA_KFD_DOORBELL_BYTES 8192u /* of a process on a GPU; the kernel maps all of them or none */

/* The system calls, and ROCr's: a test puts a kernel of its own here. They fail as in C, with -1 or MAP_FAILED and errno. */
typedef struct dma_kfd_sys {
    int (*open)(const char *path, int flags);
    int (*ioctl)(int fd, unsigned long request, void *argument);
    void *(*mmap)(size_t bytes, int fd, uint64_t offset); /* for reading and writing, shared, anywhere */
    int (*munmap)(void *at, size_t bytes);
    int (*close)(int fd);
    dma_status_t (*find_rocr)(dma_rocr_t *rocr, const char **reason);
} dma_kfd_sys_t;

/* The provider's `open`, in a sys that outlives it. */
dma_status_t dma_kfd_open(const dma_kfd_sys_t *sys, const dma_provider_gpu_t *gpu, dma_provider_t **provider,
                          char *why);

#endif
