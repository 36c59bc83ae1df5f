/*
 * An all-gather in the order of a stream. Each turn writes a block, gathers the blocks of all ranks, and reads them. If
 * streams may wait for MPI, all turns are enqueued at once, and the host waits only at the end. The functions MPIX_* are those
 * of libmpix_dma, which is installed with coll/dma (docs/user/queues.md).
 *
 * On the host there is no stream: each turn computes beside its all-gather, and waits for the queue.
 *
 *     mpicc -O2 queue.c -o queue -lmpix_dma -ldl && mpirun -n 4 ./queue [--device]
 */
/* Lets a thread of the library carry out what the stream has reached. */
#define EXAMPLE_THREADS MPI_THREAD_MULTIPLE
#include "example.h"

#include <mpix_dma.h>

enum { BLOCK = 2048, TURNS = 20, NON_BLOCKING = 1 };

static struct {
    void *handle;
    int (*copy_hip)(void *to, const void *from, size_t bytes, int kind, void *stream);
    int (*copy_cuda)(void *to, const void *from, size_t bytes, void *stream);
    int (*wait)(void *handle);
} stream;

/* Copies in the null stream wait for other streams, and MPI may make such copies. So this stream is one that they do not
 * wait for. */
static void open_stream(void)
{
    void *all = dlopen(NULL, RTLD_NOW);
    int hip = device.copy_hip != NULL;
    int (*create)(void **, unsigned) = NULL;

    *(void **)&create = call_of(all, hip ? "hipStreamCreateWithFlags" : "cuStreamCreate");
    fail_if(create(&stream.handle, NON_BLOCKING), "no stream");
    *(void **)(hip ? (void **)&stream.copy_hip : (void **)&stream.copy_cuda) =
        call_of(all, hip ? "hipMemcpyAsync" : "cuMemcpyAsync");
    *(void **)&stream.wait = call_of(all, hip ? "hipStreamSynchronize" : "cuStreamSynchronize");
}

/* In place of a kernel: it runs when the stream reaches it. */
static void enqueue_copy(void *to, const void *from, size_t bytes)
{
    fail_if(stream.copy_hip ? stream.copy_hip(to, from, bytes, 4, stream.handle)
                            : stream.copy_cuda(to, from, bytes, stream.handle),
            "copy in the stream");
}

static double value(int turn, int from, int i)
{
    return turn + from * 1e-3 + i * 1e-9;
}

static long wrong_in(const double *all, int turn)
{
    long wrong = 0;

    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong += all[i] != value(turn, i / BLOCK, i % BLOCK);
    }
    return wrong;
}

static long in_stream(MPIX_Queue queue, MPI_Request *request, double *send, double *recv)
{
    size_t block = BLOCK * sizeof(double), all = (size_t)ranks * block;
    double *written = example_alloc(TURNS * block), *seen = example_alloc(TURNS * all);
    double *host = malloc(TURNS * all);
    long wrong = 0;

    for (int i = 0; i < TURNS * BLOCK; i++) {
        host[i] = value(i / BLOCK, rank, i % BLOCK);
    }
    example_copy(written, host, TURNS * block);
    for (int turn = 0; turn < TURNS; turn++) {
        enqueue_copy(send, written + turn * BLOCK, block);
        fail_if(MPIX_Enqueue_start(queue, request), "start");
        fail_if(MPIX_Enqueue_waitall(queue), "waitall");
        enqueue_copy(seen + (size_t)turn * ranks * BLOCK, recv, all);
    }
    fail_if(MPIX_Queue_wait(queue), "an all-gather has failed");
    fail_if(stream.wait(stream.handle), "the stream has failed");
    example_copy(host, seen, TURNS * all);
    for (int turn = 0; turn < TURNS; turn++) {
        wrong += wrong_in(host + (size_t)turn * ranks * BLOCK, turn);
    }
    free(host);
    example_free(written);
    example_free(seen);
    return wrong;
}

static long on_host(MPIX_Queue queue, MPI_Request *request, double *send, const double *recv)
{
    volatile double beside = 0;
    long wrong = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < BLOCK; i++) {
            send[i] = value(turn, rank, i);
        }
        fail_if(MPIX_Enqueue_start(queue, request), "start");
        fail_if(MPIX_Enqueue_waitall(queue), "waitall");
        for (int i = 0; i < 100000; i++) {
            beside += i;
        }
        fail_if(MPIX_Queue_wait(queue), "an all-gather has failed");
        wrong += wrong_in(recv, turn);
    }
    return wrong + (beside < 0);
}

int main(int argc, char **argv)
{
    double *send, *recv;
    MPI_Request request;
    MPIX_Queue queue;
    long wrong;

    example_begin(argc, argv);
    send = example_alloc(BLOCK * sizeof(double));
    recv = example_alloc((size_t)ranks * BLOCK * sizeof(double));
    MPI_Allgather_init(send, BLOCK, MPI_DOUBLE, recv, BLOCK, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (device.alloc) {
        open_stream();
        fail_if(MPIX_Queue_init(&queue, device.copy_hip ? MPIX_QUEUE_HIP : MPIX_QUEUE_CUDA, &stream.handle), "queue");
    } else {
        fail_if(MPIX_Queue_init(&queue, MPIX_QUEUE_THREAD, NULL), "queue");
    }
    fail_if(MPIX_Match(&request, MPI_STATUS_IGNORE), "match");
    wrong = device.alloc ? in_stream(queue, &request, send, recv) : on_host(queue, &request, send, recv);
    fail_if(MPIX_Queue_free(&queue), "free");
    MPI_Request_free(&request);
    example_free(send);
    example_free(recv);
    return example_end("queue", (long)TURNS * ranks * BLOCK, wrong);
}
