/*
 * HIP: detection of device resets by the application.
 *
 * hipDeviceReset destroys streams and memory without notice. HIP identifies a stream by its address only: a call with a
 * destroyed stream crashes, or acts on a new stream of the application that has the same address. Memory that is freed
 * after a reset may belong to the application, too. So every device on which we have objects has a marker, a small
 * allocation. HIP gives each allocation a unique id, so a changed id at the marker's address shows a reset. The marker
 * is checked when memory of the application is seen for the first time (after a reset all its device memory is new),
 * when an object of ours is created, and before one is released. Without a marker (the device is full) resets are not
 * detected.
 */
#include <pthread.h>
#include <stdlib.h>

#include "gpu/hip/hip.h"

#define MARKER_BYTES 64 /* never accessed; any small size does */

typedef struct allocations {
    struct allocations *next;
    uint64_t addr;
    int device;
    unsigned resets;
} allocation_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the markers and the list of allocations */
static struct {
    uint64_t addr, id; /* addr 0: no marker */
} markers[DMA_GPU_MAX_DEVICES];
static allocation_t *allocations;
static atomic_uint resets[DMA_GPU_MAX_DEVICES];

static bool is_tracked_device(int device)
{
    return device >= 0 && device < DMA_GPU_MAX_DEVICES;
}

unsigned dma_hip_resets(int device)
{
    /* acquire: a thread that sees the new count uses no object from before the reset */
    return is_tracked_device(device) ? atomic_load_explicit(&resets[device], memory_order_acquire) : 0;
}

static void detect(void)
{
    uint64_t id;

    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        if (markers[i].addr && (!dma_hip_buffer_id(markers[i].addr, &id) || id != markers[i].id)) {
            markers[i].addr = 0;
            atomic_fetch_add_explicit(&resets[i], 1, memory_order_release);
        }
    }
}

void dma_hip_detect_resets(void)
{
    pthread_mutex_lock(&lock);
    detect();
    pthread_mutex_unlock(&lock);
}

/* With the lock and the device current. */
static void add_marker(int device)
{
    void *made = NULL;
    uint64_t id;

    detect();
    if (!is_tracked_device(device) || markers[device].addr || DMA_HIP_TRY(hipMalloc, &made, MARKER_BYTES) != DMA_OK) {
        return;
    }
    if (dma_hip_buffer_id((uintptr_t)made, &id)) {
        markers[device].addr = (uintptr_t)made;
        markers[device].id = id;
    } else {
        (void)DMA_HIP_TRY(hipFree, made);
    }
}

unsigned dma_hip_watch_resets(int device)
{
    unsigned now;

    pthread_mutex_lock(&lock);
    add_marker(device);
    now = dma_hip_resets(device);
    pthread_mutex_unlock(&lock);
    return now;
}

void dma_hip_unwatch_resets(void)
{
    pthread_mutex_lock(&lock);
    detect();
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        if (markers[i].addr) {
            (void)DMA_HIP_TRY(hipFree, (void *)(uintptr_t)markers[i].addr);
            markers[i].addr = 0;
        }
    }
    pthread_mutex_unlock(&lock);
}

dma_status_t dma_hip_memory_add(uint64_t addr)
{
    allocation_t *o = malloc(sizeof(*o));
    int device;

    if (!o) {
        return DMA_ERR_NOMEM;
    }
    if (DMA_HIP(hipGetDevice, &device) != DMA_OK) {
        device = -1;
    }
    pthread_mutex_lock(&lock);
    add_marker(device);
    *o = (allocation_t){.next = allocations, .addr = addr, .device = device, .resets = dma_hip_resets(device)};
    allocations = o;
    pthread_mutex_unlock(&lock);
    return DMA_OK;
}

bool dma_hip_memory_is_valid(uint64_t addr)
{
    allocation_t *o;
    bool ours;

    pthread_mutex_lock(&lock);
    detect();
    for (o = allocations; o && o->addr != addr; o = o->next) {
    }
    ours = o && o->resets == dma_hip_resets(o->device);
    pthread_mutex_unlock(&lock);
    return ours;
}

void dma_hip_memory_remove(uint64_t addr)
{
    allocation_t **link, *o;

    pthread_mutex_lock(&lock);
    for (link = &allocations; *link && (*link)->addr != addr; link = &(*link)->next) {
    }
    if ((o = *link)) {
        *link = o->next;
        free(o);
    }
    pthread_mutex_unlock(&lock);
}
