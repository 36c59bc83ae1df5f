/* Starts in a stream of the application: functions of in_stream.c, for a channel, with its lock. */
#ifndef DMA_DEVICE_IN_STREAM_H
#define DMA_DEVICE_IN_STREAM_H

#include "device/device.h"

/* DMA_UNSUPPORTED: nothing has happened, and the start can be made by the host. The first start makes the task and posts it.
 * *operations: that the stream has got, about. */
dma_status_t dma_device_in_stream_start(dma_comm_t *comm, dma_task_t *task, void *arrays, dma_app_stream_t *stream,
                                        unsigned *operations);
/* The same on a communicator of one rank. */
dma_status_t dma_device_in_stream_alone(dma_comm_t *comm, const dma_call_t *call, void *arrays,
                                        dma_app_stream_t *stream);
/* The stream has done everything: the task ends when it is advanced. */
void dma_device_in_stream_end(dma_comm_t *comm);
/* Both without a lock. Has the stream reached the start of this epoch? Streams with starts of communicators that have failed
 * wait for nothing. */
bool dma_device_in_stream_has_begun(const dma_comm_t *comm, uint32_t epoch);
void dma_device_in_stream_push_on(void);
/* DMA_OK: the stream has done everything of the communicator. DMA_AGAIN: not yet. Else the device has failed. Does not use the stream. */
dma_status_t dma_device_in_stream_look(const dma_comm_t *comm, const dma_app_stream_t *stream);
/* Has a stream starts of the communicator that have not ended? */
bool dma_device_is_in_stream(const dma_comm_t *comm);
/* app_stream.c: makes the handle of a stream, if that is one of the device. */
dma_reason_t dma_device_adopt_stream(const dma_gpu_runtime_t *rt, int device, dma_app_stream_t *stream);
/* Without a lock. */
void dma_device_in_stream_forget(const dma_gpu_runtime_t *rt, dma_app_stream_t *stream);
/* For the task. */
/* A member of the route. */
bool dma_device_may_report(dma_comm_t *comm);
/* The communicator has failed and is poisoned: the stream does not wait any more. True: it may still be at work. */
bool dma_device_in_stream_release(dma_comm_t *comm);
/* The communicator is destroyed. */
void dma_device_in_stream_destroy(dma_comm_t *comm);
/* No stream has starts of the communicator any more. */
void dma_device_in_stream_give_back(dma_comm_t *comm);

#endif
