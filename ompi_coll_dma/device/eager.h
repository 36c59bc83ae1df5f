/* Eager starts of a persistent call: functions of eager.c, for a channel. */
#ifndef DMA_DEVICE_EAGER_H
#define DMA_DEVICE_EAGER_H

#include "device/device.h"

/* Shall this prepared call have eager starts, as far as this rank sees? `largest`: bytes of the largest block of all ranks. */
bool dma_device_eager_wanted(dma_comm_t *comm, const dma_task_t *task, uint64_t largest);
/* Collective and blocking, if all ranks want them, after the call was prepared: if all ranks can, all starts are eager. An error is
 * one of the exchange. */
dma_status_t dma_device_eager_init(dma_comm_t *comm, uint64_t largest);

/* With the communicator's lock from here on. A start by the host begins; its phases. */
dma_status_t dma_device_eager_begin(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_device_advance_eager_try(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_device_advance_eager(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_device_advance_eager_end(dma_comm_t *comm, dma_task_t *task);
/* A start of this epoch in a stream of the application, and the event `copied` behind it. DMA_UNSUPPORTED: nothing has been
 * submitted. */
dma_status_t dma_device_eager_enqueue(dma_comm_t *comm, uint32_t epoch, const dma_gpu_app_stream_t *app);
/* Blocks of threads that the device runs at once; 0: it is not known. */
unsigned dma_device_eager_blocks(const dma_comm_t *comm);

/* The communicator has failed or ends: kernels do not wait any more. False: one launched by the host may still be at work. */
bool dma_device_eager_stop(dma_comm_t *comm);
/* No kernel is at work any more: the words of the host are not registered from now on. */
void dma_device_eager_unregister(dma_comm_t *comm);
/* The communicator is destroyed. */
void dma_device_eager_destroy(dma_comm_t *comm);

#endif
