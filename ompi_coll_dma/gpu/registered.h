/*
 * Host memory that devices may access.
 *
 * A process has one registration per address for all its devices. What lies inside of memory that is registered uses that
 * registration. CUDA refuses a second one. HIP accepts a second registration of the same address without an error, and then
 * the first hipHostUnregister ends both. The device address is the same for all devices. A reset of the device that has
 * registered it may destroy the registration, so the next user renews it, for all users.
 *
 * A registration that cannot end because a stream waits (runtime.h) has no user, and ends with a later call for the list. Until
 * then its memory stays mapped, or the runtime would take other memory at the same address for it.
 *
 * The caller has the lock of the list's owner.
 */
#ifndef DMA_GPU_REGISTERED_H
#define DMA_GPU_REGISTERED_H

#include <stddef.h>

#include "gpu/runtime.h"

typedef struct dma_registration dma_registration_t;

/* Registers memory, or counts one more user of the registration in which it lies. */
dma_status_t dma_registered_add(dma_registration_t **list, const dma_gpu_runtime_t *rt, int device, void *addr,
                                size_t bytes, uint64_t *device_addr);
/* One user less of the registration in which the address lies. The last one ends it. DMA_AGAIN: it will end later, so the memory
 * must stay mapped until the process ends. */
dma_status_t dma_registered_remove(dma_registration_t **list, const dma_gpu_runtime_t *rt, const void *addr);
/* The process ends: frees the list, and leaves the memory registered. */
void dma_registered_forget(dma_registration_t **list);

#endif
