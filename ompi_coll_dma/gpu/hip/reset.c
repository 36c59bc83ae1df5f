/*
 * AMD: has the application reset a device?
 *
 * hipDeviceReset takes streams and memory along and tells nobody. HIP knows a stream by its address alone: it crashes with one
 * that is gone, or takes it for the application's new one that has got the address; memory that is given back then may be the
 * application's, too. So every device that we have something of holds a mark: a small allocation, by whose number, which HIP
 * gives once, a reset is seen. The mark is looked at where memory of the application is seen for the first time (after a
 * reset all its device memory is new), where something of ours is made, and before something is given back. No mark (the
 * device is full): no reset is seen.
 */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/hip/hip.h"

#define MARK_BYTES 64

typedef struct owned {
    struct owned *next;
    uint64_t addr;
    int device;
    unsigned resets;
} owned_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards marks and what is owned */
static struct {
    uint64_t addr, id; /* addr 0: none */
} marks[DMA_GPU_MAX_DEVICES];
static owned_t *owned;
static atomic_uint resets[DMA_GPU_MAX_DEVICES];

static bool is_known(int device)
{
    return device >= 0 && device < DMA_GPU_MAX_DEVICES;
}

unsigned dma_hip_resets(int device)
{
    /* acquire: who has seen a reset uses nothing from before it */
    return is_known(device) ? atomic_load_explicit(&resets[device], memory_order_acquire) : 0;
}

static void look(void)
{
    uint64_t id;

    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        if (marks[i].addr && (!dma_hip_id(marks[i].addr, &id) || id != marks[i].id)) {
            marks[i].addr = 0;
            atomic_fetch_add_explicit(&resets[i], 1, memory_order_release);
        }
    }
}

void dma_hip_look_for_resets(void)
{
    pthread_mutex_lock(&lock);
    look();
    pthread_mutex_unlock(&lock);
}

/* With the lock and the device current. */
static void mark(int device)
{
    void *made = NULL;
    uint64_t id;

    look();
    if (!is_known(device) || marks[device].addr || DMA_HIP_TRY(hipMalloc, &made, MARK_BYTES) != DMA_OK) {
        return;
    }
    if (dma_hip_id((uintptr_t)made, &id)) {
        marks[device].addr = (uintptr_t)made;
        marks[device].id = id;
    } else {
        (void)DMA_HIP_TRY(hipFree, made);
    }
}

unsigned dma_hip_mark(int device)
{
    unsigned now;

    pthread_mutex_lock(&lock);
    mark(device);
    now = dma_hip_resets(device);
    pthread_mutex_unlock(&lock);
    return now;
}

void dma_hip_unmark(void)
{
    pthread_mutex_lock(&lock);
    look();
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        if (marks[i].addr) {
            (void)DMA_HIP_TRY(hipFree, (void *)(uintptr_t)marks[i].addr);
            marks[i].addr = 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

dma_status_t dma_hip_own(uint64_t addr)
{
    owned_t *o = malloc(sizeof(*o));
    int device;

    if (!o) {
        return DMA_ERR_NOMEM;
    }
    if (DMA_HIP(hipGetDevice, &device) != DMA_OK) {
        device = -1;
    }
    pthread_mutex_lock(&lock);
    mark(device);
    *o = (owned_t){.next = owned, .addr = addr, .device = device, .resets = dma_hip_resets(device)};
    owned = o;
    pthread_mutex_unlock(&lock);
    return DMA_OK;
}

bool dma_hip_is_ours(uint64_t addr)
{
    owned_t *o;
    bool ours;

    pthread_mutex_lock(&lock);
    look();
    for (o = owned; o && o->addr != addr; o = o->next) {
    }
    ours = o && o->resets == dma_hip_resets(o->device);
    pthread_mutex_unlock(&lock);
    return ours;
}

void dma_hip_disown(uint64_t addr)
{
    owned_t **link, *o;

    pthread_mutex_lock(&lock);
    for (link = &owned; *link && (*link)->addr != addr; link = &(*link)->next) {
    }
    if ((o = *link)) {
        *link = o->next;
        free(o);
    }
    pthread_mutex_unlock(&lock);
}
