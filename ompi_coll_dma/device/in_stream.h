/* Starts in a stream of the application: functions of in_stream.c for the rest of the route, with the communicator's lock. What the
 * component calls is in dma/comm.h. */
#ifndef DMA_DEVICE_IN_STREAM_H
#define DMA_DEVICE_IN_STREAM_H

#include "device/device.h"

/* Has a stream starts of the communicator that have not ended? */
bool dma_device_is_in_stream(const dma_comm_t *comm);
/* A member of the route. */
bool dma_device_may_report(dma_comm_t *comm);
/* The communicator has failed: its task is gone. True: a stream may still be at work. */
bool dma_device_in_stream_leave(dma_comm_t *comm);
/* No stream has starts of the communicator any more. */
void dma_device_in_stream_give_back(dma_comm_t *comm);

/* app_stream.c: makes the handle of a stream, if that is one of the device. */
dma_reason_t dma_device_adopt_stream(const dma_gpu_runtime_t *rt, int device, dma_app_stream_t *stream);

#endif
