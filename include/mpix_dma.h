/*
 * Queues for persistent collectives: communication in the order of a stream. Below: partitioned collectives, of which parts are
 * sent as soon as they are ready.
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

/*
 * Partitioned collectives: parts of a block are sent as soon as the program or a kernel has made them, and used as soon as they
 * have come.
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
 * The block that a rank sends has `sparts` partitions of `scount` elements; in an all-to-all that is the block for each rank,
 * and partition p of all blocks is sent together. Each block that is received has `rparts` partitions of `rcount` elements.
 * Partition p of the block of rank s has the number s * rparts + p. Both blocks have the same number of bytes, on all ranks;
 * the number of partitions may differ between ranks, and between the two sides. With MPI_IN_PLACE as `sb`, `sparts` partitions
 * of the blocks in `rb` are sent, and `scount` and `st` are not used.
 *
 * The request is a persistent request of MPI: MPI_Start, MPI_Test, MPI_Wait, their variants for several requests, and
 * MPIX_Enqueue_start take it. It cannot be cancelled. A round lasts from the start until all partitions of this rank have been
 * sent and all of the others have come.
 *
 * Without MPI_THREAD_MULTIPLE a round gets on only in MPIX_Parrived, MPIX_Test, MPIX_Wait and the functions of queues, so the
 * program must not call MPI_Wait for such a request, except when MPIX_Test has said that it is complete.
 *
 * Words. Instead of calling functions, a kernel or a thread may store and load words of 32 bits. To store `ready_value` to
 * ready[p], with release and for the whole system, is the same as MPIX_Pready(p). arrived[i] is `arrived_value` when partition
 * number i has come, and MPIX_PARRIVED_FAILED if it cannot come any more; it is to be loaded with acquire. Who waits until it
 * is at least `arrived_value` waits for both. There are two banks of words, and successive rounds use them by turns:
 *
 *   - The words of a round are all 0 when the round before is complete. From then on partitions may be made ready, also before
 *     MPI_Start.
 *   - They stay as they are until the next round is complete. So who looks at the words of one round never sees those of the
 *     next, and must have stopped when the next but one may be started.
 *   - The addresses of both banks stay the same as long as the request lives.
 *
 * Up to 64 groups of partitions are sent on their own; if there are more partitions, neighbours are sent together. If numbers
 * of partitions differ, groups are as small as their common divisors allow. A partition of one rank arrives no later than all
 * ranks have made theirs of the same number ready.
 *
 * With coll/dma and memory of HIP on all ranks, the engines of the GPUs wait for the ready words themselves where they can
 * (docs/user/queues.md): a store of a kernel or of the host starts the transfer, and the partition arrives on its own. Engines
 * send the groups of a rank in their order. If one that is ready waits behind one that is not for more than
 * coll_dma_parts_patience seconds, the library sends the rest of the round, in any order.
 */
enum { MPIX_PARRIVED_FAILED = 2 };

typedef struct MPIX_Prequest {
    uint32_t *ready;
    const uint32_t *arrived;
    uint32_t ready_value, arrived_value; /* 1 */
    int nready, narrived;                /* `sparts`; ranks of the communicator times `rparts` */
} MPIX_Prequest;

/*
 * Collective, and may wait. An argument that is wrong on one rank is an error on all, if they have the same communicator of one
 * group (MPI_ERR_COMM). MPI_ERR_COUNT: blocks differ in size. `info` is for MPI_Allgatherv_init and MPI_Alltoallv_init.
 */
int MPIX_Pallgather_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                         MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPIX_Palltoall_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                        MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request);

/* Stores a word and calls nothing of MPI: any thread may call it at any time, whatever level of threads MPI has given. */
int MPIX_Pready(int part, MPI_Request request);

/* `part` counts through all blocks. True if the request is not active. Returns the error of a partition that has failed. */
int MPIX_Parrived(MPI_Request request, int part, int *flag);

/* MPI_Test and MPI_Wait of any request; of a partitioned one, they get on with the round and return its first error. */
int MPIX_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPIX_Wait(MPI_Request *request, MPI_Status *status);

/*
 * Frees any request. If a round of a partitioned one is under way, partitions that are not ready are sent as they are, so that no
 * rank waits for ever, and the call waits until the round is complete. MPI_Request_free frees the handle only: the rest
 * is freed when this process makes its next partitioned request, or in MPI_Finalize.
 */
int MPIX_Request_free(MPI_Request *request);

/*
 * The words of the round that is under way, or of the next one. To be called before MPI_Start or by who has started. They are
 * valid as long as the request, on the host, and in kernels of CUDA if the thread that made the request had a context, of HIP if
 * one of the buffers is memory of HIP. MPI_ERR_UNSUPPORTED_OPERATION: that is so, and they are valid on the host only.
 */
int MPIX_Prequest_create(MPI_Request request, MPIX_Prequest *p);
/* Goes on to the words of the round after. */
int MPIX_Prequest_next(MPIX_Prequest *p);
/* Forgets them. The words belong to the request. */
int MPIX_Prequest_free(MPIX_Prequest *p);

/*
 * How many partitions are worth it, if the parts of a computation are carried out beside those of a partitioned all-gather or
 * all-to-all: before it or after it, the answer is the same. More partitions overlap more, and each costs a start and a
 * completion, and the computation some of its efficiency. The arguments are measured or estimated by the caller:
 */
typedef struct MPIX_Overlap {
    double bytes;   /* of a block: what a rank sends to each of the others */
    int ranks;      /* of the communicator */
    int tiles;      /* the number of partitions must divide it, e.g. rows of a block by rows of a tile */
    double compute; /* seconds of the whole computation of a rank, in one go */
    double loss;    /* seconds that each further part adds: twice the time of half of the computation, less `compute` */
    double latency; /* seconds of the collective with very little data */
    double bandwidth; /* bytes per second that a rank receives with much data */
} MPIX_Overlap;

/*
 * The best number of partitions, of two that are as good the smaller; at most 64. `seconds`, if not NULL: of the whole, predicted.
 * May be called at any time, also before MPI_Init. All ranks get the same if their arguments are the same. MPI_ERR_ARG: there is a
 * negative or infinite argument, less than one rank or tile, or data and no bandwidth.
 */
int MPIX_Partitions_advised(const MPIX_Overlap *overlap, int *parts, double *seconds);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
