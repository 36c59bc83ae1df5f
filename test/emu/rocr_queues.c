/*
 * Adds the DMA queues for applications of August 2026 to libhsa-runtime64.so.1 (EMU_ROCR_MINOR). This library has only these
 * calls. It depends on the real library, where the loader finds all others. Its soname differs from that of the real library;
 * otherwise the loader would not load the real one.
 *
 * As in ROCr, ring and pointers come from the thunk, and queues on a given engine from the kernel. The caller counts as the
 * owner of the queues. Errors are never reported by the callback. Before version 1.31 the call that returns the pointers does
 * not exist.
 *
 * The descriptor is declared here independently of the component, so that a mistake in the component's declaration is noticed.
 */
#include "thunk.h"

#include <dlfcn.h>
#include <errno.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    PAGE = 4096,
    READ = 128, /* offsets of the pointers in their page */
    DOORBELLS = 8192,
    ENGINE_SDMA = 1,
    ANY_ENGINE = -1,
    EXT_MAJOR = 0x207,
    EXT_MINOR = 0x208,
    INFO_ENGINE_TYPE = 13,
    INFO_ENGINE_ID = 14,
    INFO_READ_POINTER = 15,
    INFO_WRITE_POINTER = 16,
    POINTERS_MINOR = 31,
    KFD_BY_ENGINE = 4,
    KFD_BY_ENGINE_MINOR = 17,
    PRIORITY = 15,
};

struct desc {
    uint16_t version, flags;
    uint8_t engine_type, reserved_header[3];
    uint32_t queue_size_bytes, priority;
    void (*callback)(hsa_status_t status, hsa_queue_t *source, void *data);
    void *callback_data;
    hsa_queue_t *queue;
    uint32_t sdma_engine_id, reserved_sdma[7];
    uint32_t traffic_class;
    uint8_t reserved[20];
};
_Static_assert(sizeof(struct desc) == 96, "version 1");

struct create {
    uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
    uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
    uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
    uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad;
};

struct queue {
    hsa_queue_t queue; /* the caller has its address */
    amd_signal_t signal;
    struct queue *next;
    uint32_t engine;
    HSA_QUEUEID id;
    char *pointers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues;
static uint32_t turn;

static int minor;

/* An invalid value ends the process, as in config.c. */
__attribute__((constructor)) static void read_minor(void)
{
    const char *text = getenv("EMU_ROCR_MINOR");
    char *end = NULL;
    minor = text ? (int)strtol(text, &end, 10) : 0;
    if (minor < 1 || minor > 99 || *end) {
        fprintf(stderr, "emulated node: EMU_ROCR_MINOR=%s is not something it understands\n", text ? text : "");
        exit(2);
    }
}

static void *memory_for(uint32_t node, size_t bytes)
{
    HsaMemFlags flags = {.Value = 0};
    HSAuint64 alternate;
    void *memory;
    flags.ui32.HostAccess = flags.ui32.NonPaged = flags.ui32.ExecuteAccess = flags.ui32.Uncached = 1;
    if (hsaKmtAllocMemory(0, bytes, flags, &memory) != HSAKMT_STATUS_SUCCESS)
        return NULL;
    if (hsaKmtMapMemoryToGPUNodes(memory, bytes, &alternate, (HsaMemMapFlags){.Value = 0}, 1, &node) !=
        HSAKMT_STATUS_SUCCESS) {
        hsaKmtFreeMemory(memory, bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    return memory;
}

static void free_memory(void *memory, size_t bytes)
{
    if (memory) {
        hsaKmtUnmapMemoryToGPU(memory);
        hsaKmtFreeMemory(memory, bytes);
    }
}

/* Returns 0 or an errno. */
static int make(struct queue *q, const void *caller, uint32_t gpu_id)
{
    struct create args = {.ring_base_address = (uintptr_t)q->queue.base_address,
                          .write_pointer_address = (uintptr_t)q->pointers,
                          .read_pointer_address = (uintptr_t)q->pointers + READ,
                          .ring_size = q->queue.size,
                          .gpu_id = gpu_id,
                          .queue_type = KFD_BY_ENGINE,
                          .queue_percentage = 100,
                          .queue_priority = PRIORITY,
                          .sdma_engine_id = q->engine};
    static char *doorbells; /* one mapping is enough, because it has the doorbells of all GPUs */
    int error = emu_kfd_ioctl(caller, _IOWR('K', 2, struct create), &args);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    if (!doorbells) {
        void *at = emu_kfd_map(NULL, DOORBELLS, PROT_READ | PROT_WRITE, MAP_SHARED,
                               args.doorbell_offset & -(uint64_t)DOORBELLS);
        doorbells = at == MAP_FAILED ? NULL : at;
    }
    q->signal.hardware_doorbell_ptr = doorbells ? (uint64_t *)(doorbells + args.doorbell_offset % DOORBELLS) : NULL;
    pthread_mutex_unlock(&lock);
    q->signal.kind = AMD_SIGNAL_KIND_DOORBELL;
    q->queue.doorbell_signal.handle = (uintptr_t)&q->signal;
    q->queue.type = HSA_QUEUE_TYPE_SINGLE;
    q->id = q->queue.id = args.queue_id;
    return 0;
}

static void drop(struct queue *q)
{
    free_memory(q->queue.base_address, q->queue.size);
    free_memory(q->pointers, PAGE);
    free(q);
}

static bool is_zero(const void *at, size_t bytes)
{
    const unsigned char *byte = at;
    while (bytes > 0 && byte[bytes - 1] == 0)
        bytes--;
    return bytes == 0;
}

static bool is_valid(const struct desc *d, uint32_t engines)
{
    return d->version == 1 && d->flags == 0 && d->engine_type == ENGINE_SDMA && is_zero(d->reserved_header, 3) &&
           d->queue_size_bytes >= PAGE && (d->queue_size_bytes & (d->queue_size_bytes - 1)) == 0 &&
           d->priority <= HSA_AMD_QUEUE_PRIORITY_HIGH && d->traffic_class == 0 &&
           (d->sdma_engine_id < engines || d->sdma_engine_id == (uint32_t)ANY_ENGINE) &&
           is_zero(d->reserved_sdma, sizeof d->reserved_sdma) && is_zero(d->reserved, sizeof d->reserved);
}

static bool names_engines(const void *caller)
{
    uint32_t version[2];
    return emu_kfd_ioctl(caller, _IOR('K', 1, uint32_t[2]), version) == 0 && version[1] >= KFD_BY_ENGINE_MINOR;
}

static hsa_status_t create_one(const void *caller, uint32_t node, struct desc *desc)
{
    HsaNodeProperties properties;
    desc->queue = NULL;
    if (!names_engines(caller))
        return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
    if (hsaKmtGetNodeProperties(node, &properties) != HSAKMT_STATUS_SUCCESS)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    uint32_t engines = properties.NumSdmaEngines + properties.NumSdmaXgmiEngines;
    if (!is_valid(desc, engines))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct queue *q = calloc(1, sizeof *q);
    if (!q)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    q->queue.size = desc->queue_size_bytes;
    q->queue.base_address = memory_for(node, desc->queue_size_bytes);
    q->pointers = memory_for(node, PAGE);
    pthread_mutex_lock(&lock);
    q->engine = desc->sdma_engine_id == (uint32_t)ANY_ENGINE ? turn++ % engines : desc->sdma_engine_id;
    pthread_mutex_unlock(&lock);
    if (!q->queue.base_address || !q->pointers || make(q, caller, emu_gpu_id(node)) != 0) {
        drop(q);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    pthread_mutex_lock(&lock);
    q->next = queues;
    queues = q;
    pthread_mutex_unlock(&lock);
    desc->queue = &q->queue;
    return HSA_STATUS_SUCCESS;
}

EXPORT hsa_status_t hsa_amd_queue_create(hsa_agent_t agent, struct desc *descs, uint32_t count);
EXPORT hsa_status_t hsa_amd_queue_create(hsa_agent_t agent, struct desc *descs, uint32_t count)
{
    uint32_t node;
    hsa_status_t first = HSA_STATUS_SUCCESS;
    hsa_status_t status = hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &node);
    if (status != HSA_STATUS_SUCCESS)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        status = create_one(__builtin_return_address(0), node, &descs[i]);
        first = first == HSA_STATUS_SUCCESS ? status : first;
    }
    return first;
}

/* With the lock: returns the place of a queue in the list, or NULL if it is not a queue of this library. */
static struct queue **find(const hsa_queue_t *queue)
{
    struct queue **link = &queues;
    while (*link && &(*link)->queue != queue)
        link = &(*link)->next;
    return *link ? link : NULL;
}

EXPORT hsa_status_t hsa_amd_queue_get_info(hsa_queue_t *queue, uint32_t what, void *value);
EXPORT hsa_status_t hsa_amd_queue_get_info(hsa_queue_t *queue, uint32_t what, void *value)
{
    pthread_mutex_lock(&lock);
    struct queue **link = find(queue);
    const struct queue *q = link ? *link : NULL;
    hsa_status_t status = q ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_QUEUE;
    if (q && what == INFO_ENGINE_TYPE)
        *(uint32_t *)value = ENGINE_SDMA;
    else if (q && what == INFO_ENGINE_ID)
        *(uint32_t *)value = q->engine;
    else if (q && (what == INFO_READ_POINTER || what == INFO_WRITE_POINTER) && minor >= POINTERS_MINOR)
        *(uint64_t *)value = (uintptr_t)q->pointers + (what == INFO_READ_POINTER ? READ : 0);
    else if (q)
        status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_mutex_unlock(&lock);
    return status;
}

typedef hsa_status_t destroy_fn(hsa_queue_t *queue);
typedef hsa_status_t info_fn(hsa_system_info_t what, void *value);

EXPORT hsa_status_t hsa_queue_destroy(hsa_queue_t *queue)
{
    pthread_mutex_lock(&lock);
    struct queue **link = find(queue), *q = link ? *link : NULL;
    if (q)
        *link = q->next;
    pthread_mutex_unlock(&lock);
    if (!q)
        return ((destroy_fn *)dlsym(RTLD_NEXT, "hsa_queue_destroy"))(queue);
    hsaKmtDestroyQueue(q->id);
    drop(q);
    return HSA_STATUS_SUCCESS;
}

EXPORT hsa_status_t hsa_system_get_info(hsa_system_info_t what, void *value)
{
    if ((int)what != EXT_MAJOR && (int)what != EXT_MINOR)
        return ((info_fn *)dlsym(RTLD_NEXT, "hsa_system_get_info"))(what, value);
    *(uint16_t *)value = (uint16_t)((int)what == EXT_MAJOR ? 1 : minor);
    return HSA_STATUS_SUCCESS;
}
