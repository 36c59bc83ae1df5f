/*
 * Queues: persistent collectives in the order of a stream. The second part of this file has partitioned collectives, which send
 * parts of a block as soon as they are ready.
 *
 * A program enqueues a kernel, a start, a waitall and the next kernel on one stream of HIP or CUDA. The start waits for the
 * work that is before it in the stream; the work behind the waitall sees the data that have been received. No call in between
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
 * The library calls MPI_Start and MPI_Test. So a queue takes any persistent request, of any communicator and memory, with or
 * without coll/dma. If MPIX_DMA_IN_STREAM is 1 in the environment, coll/dma puts starts for which it can do so into the stream of
 * CUDA itself. The rest of this comment is about the other starts; docs/user/queues.md has the conditions.
 *
 * Progress. If MPI_Init_thread has given MPI_THREAD_MULTIPLE, a thread of the library carries out the operations of queues,
 * from the first MPIX_Queue_init to MPI_Finalize. Otherwise a queue of type MPIX_QUEUE_THREAD makes progress in the functions
 * of this library only, and MPIX_Queue_wait completes it.
 *
 * A queue of HIP or CUDA is asynchronous if all these conditions hold:
 *   - the library has that thread;
 *   - the runtime has memory operations of streams;
 *   - the stream was created as non-blocking (hipStreamNonBlocking, CU_STREAM_NON_BLOCKING). A copy in the null stream waits
 *     for all other streams, so a copy of MPI there would wait for the stream that waits for MPI;
 *   - MPIX_DMA_WAITING_STREAMS in the environment allows it: the number of streams that may wait at once. By default none may,
 *     because only the program can know that nothing keeps MPI from submitting copies while a stream waits for them: no call of
 *     the runtime that waits for the whole device, and no lack of queues of the device (docs/user/queues.md).
 * If a condition does not hold, the results are the same, and the host waits: MPIX_Enqueue_start for the stream,
 * MPIX_Enqueue_waitall for the collectives. With MPIX_DMA_VERBOSE=1 in the environment, a line on stderr says why.
 *
 * Order. The operations of one queue are carried out in order. Queues do not wait for each other. Ranks may enqueue to several
 * queues in different orders if these are asynchronous on all ranks or of type MPIX_QUEUE_THREAD.
 *
 * Errors. Functions return MPI error classes. They call no error handler for errors that they detect themselves. If a
 * collective fails, MPI calls the error handler in the library's thread. If the handler returns, the queue carries out its
 * other operations, so that no stream waits for ever. The next MPIX_Queue_wait or MPIX_Queue_free returns the first error. Work
 * behind the waitall has run without the data.
 *
 * Threads. All functions may be called by several threads at once, except that a queue must not be freed while it is in
 * use. With MPIX_DMA_IN_STREAM, MPIX_Queue_wait holds up other threads that enqueue to the same queue. No function of this
 * header may be called in an error handler, or in a host function of a stream.
 */
#ifndef MPIX_DMA_H
#define MPIX_DMA_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct MPIX_Queue_s *MPIX_Queue;

#define MPIX_QUEUE_NULL ((MPIX_Queue)0)

enum { MPIX_QUEUE_THREAD, MPIX_QUEUE_HIP, MPIX_QUEUE_CUDA };

/*
 * Makes a queue. `stream` is the address of a hipStream_t or cudaStream_t (CUstream), whose device is the current one; with
 * MPIX_QUEUE_THREAD it is not used, and a start waits only for the operations before it in the queue.
 * MPI_ERR_UNSUPPORTED_OPERATION: the program has not loaded HIP or CUDA.
 */
int MPIX_Queue_init(MPIX_Queue *queue, int type, void *stream);

/*
 * Does what MPIX_Queue_wait does, and frees the queue. The stream may still have other work, which is not waited for, and may have been
 * destroyed.
 */
int MPIX_Queue_free(MPIX_Queue *queue);

/*
 * Waits until all operations of the queue are complete, including starts that are not followed by a waitall. Returns the first
 * error since the last call, and clears it.
 */
int MPIX_Queue_wait(MPIX_Queue queue);

/*
 * Checks that a request is ready for a start. MPI_ERR_REQUEST: it is active. A collective of coll/dma needs no set-up after
 * MPI_*_init. Set-up that other parts of MPI leave to the first start is not done here.
 */
int MPIX_Match(MPI_Request *request, MPI_Status *status);

/*
 * Enqueues the start of a persistent request. Until the next waitall of the queue, the request must not be enqueued again
 * (MPI_ERR_REQUEST). Until MPIX_Queue_wait, the program must not start, test, wait for or free it. The handle is copied.
 */
int MPIX_Enqueue_start(MPIX_Queue queue, MPI_Request *request);
int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]);

/* Later operations of the queue, and later work of the stream, wait for all requests that were started in this queue. */
int MPIX_Enqueue_waitall(MPIX_Queue queue);

/*
 * Partitioned collectives: parts of a block are sent as soon as the program or a kernel has written them, and can be used as
 * soon as they have arrived.
 *
 *     MPIX_Pallgather_init(send, 8, n, type, recv, 8, n, type, comm, info, &request);
 *     for (...) {
 *         MPI_Start(&request);
 *         for (int p = 0; p < 8; p++) {
 *             produce(send + p * n);
 *             MPIX_Pready(p, request);
 *         }
 *         for (int p = 0; p < 8 * ranks; p++) {
 *             do {
 *                 MPIX_Parrived(request, p, &flag);
 *             } while (!flag);
 *             consume(recv + p * n);
 *         }
 *         MPIX_Wait(&request, MPI_STATUS_IGNORE);
 *     }
 *     MPIX_Request_free(&request);
 *
 * A block that a rank sends has `sparts` partitions of `scount` elements. In an all-to-all there is a block for each rank, and
 * partition p of all these blocks is sent together. A block that a rank receives has `rparts` partitions of `rcount` elements;
 * partition p of the block of rank s has the number s * rparts + p. All blocks have the same number of bytes, on all ranks. The
 * number of partitions may differ between ranks, and between blocks sent and received. With MPI_IN_PLACE as `sb`, `sparts`
 * partitions of the blocks in `rb` are sent, and `scount` and `st` are not used.
 *
 * The request is a persistent request of MPI: MPI_Start, MPI_Test, MPI_Wait, their variants for several requests, and
 * MPIX_Enqueue_start take it. It cannot be cancelled. A round lasts from the start until all partitions of this rank have been
 * sent and all partitions of the others have arrived.
 *
 * Without MPI_THREAD_MULTIPLE a round makes progress only in MPIX_Parrived, MPIX_Test, MPIX_Wait and the functions of queues.
 * So the program must not call MPI_Wait for such a request, unless MPIX_Test has said that it is complete.
 *
 * Words. Instead of calling functions, a kernel or a thread may store and load words of 32 bits. A store of `ready_value` to
 * ready[p], with release order at system scope, has the same effect as MPIX_Pready(p). arrived[i] is `arrived_value` when
 * partition number i has arrived, and MPIX_PARRIVED_FAILED if it cannot arrive. Load it with acquire order. A wait until it is
 * at least `arrived_value` ends in both cases. There are two banks of words. Rounds use them alternately:
 *
 *   - When a round is complete, the words of the next round are 0. From then on, partitions of the next round may be made
 *     ready, even before MPI_Start.
 *   - The words of a round do not change until the next round is complete. So a consumer may read the words of round n while
 *     round n + 1 is under way. It must have finished before round n + 2 is started.
 *   - The addresses of both banks do not change as long as the request exists.
 *
 * Up to 64 groups of partitions are sent separately. If there are more partitions, neighbouring ones form a group. If ranks
 * have different numbers of partitions, a group is the smallest part of a block that consists of whole partitions of every
 * sender, and of whole elements of every receiver. A group arrives at the latest when all ranks have made their partitions of
 * this group ready.
 *
 * With coll/dma and HIP memory on all ranks, the DMA engines of the GPUs wait for the ready words themselves where they can
 * (docs/user/queues.md). Then a store of a kernel or of the host starts the transfer, and each partition arrives on its own.
 * Engines send the groups of a rank in ascending order. If a ready group waits for coll_dma_parts_patience seconds behind one
 * that is not ready, the CPU sends the rest of the round, in any order.
 */
enum { MPIX_PARRIVED_FAILED = 2 };

typedef struct MPIX_Prequest {
    uint32_t *ready;
    const uint32_t *arrived;
    uint32_t ready_value, arrived_value; /* 1 */
    int nready, narrived;                /* `sparts`; ranks of the communicator times `rparts` */
} MPIX_Prequest;

/*
 * Collective; may wait for other ranks. A wrong argument on one rank is an error on all ranks. The exception is `comm`, which
 * must be an intracommunicator (MPI_ERR_COMM). MPI_ERR_COUNT: blocks differ in size. `info` is passed to MPI_Allgatherv_init or
 * MPI_Alltoallv_init.
 */
int MPIX_Pallgather_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                         MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPIX_Palltoall_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                        MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request);

/* Stores a word and calls no MPI function: any thread may call it at any time, at any level of thread support. */
int MPIX_Pready(int part, MPI_Request request);

/* `part` is s * rparts + p. *flag is true if the request is not active. Returns the error of a partition that has failed. */
int MPIX_Parrived(MPI_Request request, int part, int *flag);

/* MPI_Test and MPI_Wait for any request. For a partitioned one they also advance the round and return its first error. */
int MPIX_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPIX_Wait(MPI_Request *request, MPI_Status *status);

/*
 * Frees any request. If a round of a partitioned one is under way, partitions that are not ready are sent as they are, so that
 * no rank waits for ever, and the call waits until the round is complete. MPI_Request_free frees the handle only: the library
 * frees the rest when this process makes its next partitioned request, or in MPI_Finalize.
 */
int MPIX_Request_free(MPI_Request *request);

/*
 * The words of the round that is under way, or of the next one. Call it before MPI_Start, or in the thread that has called
 * MPI_Start. The host can use the words as long as the request exists. Kernels of CUDA can use them, too, if the thread that
 * made the request had a context, and kernels of HIP if one of the buffers is HIP memory. MPI_ERR_UNSUPPORTED_OPERATION: in one
 * of these cases, the runtime refuses, and only the host can use them.
 */
int MPIX_Prequest_create(MPI_Request request, MPIX_Prequest *p);
/* Replaces the words in the structure by those of the next round. */
int MPIX_Prequest_next(MPIX_Prequest *p);
/* Clears the structure. The words belong to the request. */
int MPIX_Prequest_free(MPIX_Prequest *p);

/*
 * For the best number of partitions, if a computation runs in parts beside a partitioned all-gather or all-to-all, before it or
 * after it. More partitions overlap more. Each costs a start and a completion, and smaller parts of the computation are less
 * efficient. The caller measures or estimates:
 */
typedef struct MPIX_Overlap {
    double bytes;   /* of a block: what a rank sends to each of the others */
    int ranks;      /* of the communicator */
    int tiles;      /* the number of partitions must divide it, e.g. rows of a block by rows of a tile */
    double compute; /* seconds of the whole computation of a rank, in one go */
    double loss; /* seconds that each further part adds: twice the time of half of the computation, minus `compute` */
    double latency;   /* seconds of the collective with very little data */
    double bandwidth; /* bytes per second that a rank receives with much data */
} MPIX_Overlap;

/*
 * The number of partitions with the shortest predicted time, at most 64; of two with the same time, the smaller one. *seconds,
 * if `seconds` is not NULL: that time. May be called at any time, also before MPI_Init. Equal arguments give equal results, so
 * ranks need not communicate. MPI_ERR_ARG: an argument is negative or infinite, there is less than one rank or tile, or there
 * are data and no bandwidth.
 */
int MPIX_Partitions_advised(const MPIX_Overlap *overlap, int *parts, double *seconds);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
