/*
 * Queues for persistent collectives: communication in the order of a stream.
 *
 * A program enqueues kernel, start, waitall, kernel on one stream of HIP or CUDA, and goes on. The start waits for the work
 * that is before it in the stream; the work behind the waitall sees the data that have been received. No call in between
 * waits for the device.
 *
 *     MPI_Allgather_init(send, n, type, recv, n, type, comm, info, &request);
 *     MPIX_Queue_init(&queue, MPIX_QUEUE_HIP, &stream);
 *     MPIX_Match(&request, MPI_STATUS_IGNORE);
 *     for (...) {
 *         produce<<<..., stream>>>(send);
 *         MPIX_Enqueue_start(queue, &request);
 *         MPIX_Enqueue_waitall(queue);
 *         consume<<<..., stream>>>(recv);
 *     }
 *     MPIX_Queue_wait(queue);
 *     MPIX_Queue_free(&queue);
 *
 * Any persistent request will do, of any communicator and memory, with or without coll/dma: the library makes MPI_Start
 * and MPI_Test of them.
 *
 * Who carries this out. If MPI_Init_thread has given MPI_THREAD_MULTIPLE, a thread of the library does, from the first
 * MPIX_Queue_init to MPI_Finalize. Otherwise, nothing happens outside of this library's functions: a queue of type
 * MPIX_QUEUE_THREAD gets on in all of them, and MPIX_Queue_wait carries out what is left.
 *
 * A queue of HIP or CUDA is asynchronous if all of this is so:
 *   - there is that thread;
 *   - the runtime has memory operations of streams;
 *   - the stream was created as non-blocking (hipStreamNonBlocking, CU_STREAM_NON_BLOCKING): a copy in the null stream waits
 *     for all other streams, and one in MPI would wait for the stream that waits for MPI;
 *   - the device's queues are known to be enough: a stream that waits for MPI holds up the others that the runtime has put into
 *     the same queue of the device, and MPI's own must not be among them. CUDA: CUDA_DEVICE_MAX_CONNECTIONS in the
 *     environment is 16 or more, and a quarter of it is the number of streams that may wait. HIP: none, except as many as
 *     MPIX_DMA_WAITING_STREAMS in the environment says, which counts for CUDA, too.
 * Otherwise the results are the same, and the host waits: MPIX_Enqueue_start for the stream, MPIX_Enqueue_waitall for the
 * collectives. With MPIX_DMA_VERBOSE=1 in the environment, one line on stderr says why.
 *
 * Order. The operations of one queue are carried out in order. Queues do not wait for each other. Ranks may enqueue in
 * different orders on different queues if these are asynchronous on all ranks or of type MPIX_QUEUE_THREAD.
 *
 * Errors. Functions return MPI error classes, and call no error handler for what they find themselves. Errors of a
 * collective go to the error handler as MPI says, in the library's thread. If that returns, the queue goes on, so that no
 * stream stands still: all its operations are carried out, and the next MPIX_Queue_wait or MPIX_Queue_free returns the first
 * error. Work behind the waitall has run, and has not seen the data.
 *
 * Threads. All functions may be called by several threads at once, except that a queue must not be freed while it is in
 * use. They must not be called in an error handler, or in a host function of a stream.
 */
#ifndef MPIX_DMA_H
#define MPIX_DMA_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct MPIX_Queue_s *MPIX_Queue;

#define MPIX_QUEUE_NULL ((MPIX_Queue)0)

enum { MPIX_QUEUE_THREAD, MPIX_QUEUE_HIP, MPIX_QUEUE_CUDA };

/*
 * Makes a queue. `stream` is the address of a hipStream_t or cudaStream_t (CUstream), whose device is the current one; with
 * MPIX_QUEUE_THREAD it is not used, and a start waits only for what is before it in the queue.
 * MPI_ERR_UNSUPPORTED_OPERATION: the program has not loaded HIP or CUDA.
 */
int MPIX_Queue_init(MPIX_Queue *queue, int type, void *stream);

/* Does what MPIX_Queue_wait does, and frees the queue. The stream may still have work, and may have been destroyed. */
int MPIX_Queue_free(MPIX_Queue *queue);

/*
 * Waits until everything enqueued has been carried out. Collectives that no waitall is behind are waited for, too. Returns the
 * first error since the last call, and forgets it.
 */
int MPIX_Queue_wait(MPIX_Queue queue);

/*
 * After it, a start of the persistent request needs no more set-up. It must not be active (MPI_ERR_REQUEST). With coll/dma
 * that is so as soon as the request has been made; what MPI leaves to the first start, it still does then.
 */
int MPIX_Match(MPI_Request *request, MPI_Status *status);

/*
 * Enqueues the start of a persistent request. Until the next waitall of the queue, the request must not be enqueued again
 * (MPI_ERR_REQUEST). Until MPIX_Queue_wait, the program must not start, test, wait for or free it. The handle is copied.
 */
int MPIX_Enqueue_start(MPIX_Queue queue, MPI_Request *request);
int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]);

/* What is behind it in the queue, and in the stream, waits for all requests that were started in this queue before it. */
int MPIX_Enqueue_waitall(MPIX_Queue queue);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
