/*
 * An all-gather in parts. Threads fill the partitions of a block, and each partition is sent as soon as it is full. The main
 * thread adds up what has arrived, while the rest is being made. The functions MPIX_* are those of libmpix_dma, which is
 * installed with coll/dma (docs/user/queues.md).
 *
 * Only the main thread calls MPI. Any thread may call MPIX_Pready.
 *
 *     mpicc -O2 partitions.c -o partitions -lmpix_dma -ldl -lpthread && mpirun -n 4 ./partitions [--device]
 */
#define EXAMPLE_THREADS MPI_THREAD_FUNNELED
#include "example.h"

#include <mpix_dma.h>
#include <pthread.h>

enum { PARTS = 8, THREADS = 3, LENGTH = 1000, TURNS = 20 };

static double *send, *recv;
static MPI_Request request;
static int turn;

static double value(int from, int part, int i)
{
    return turn + from * 1e-2 + part * 1e-4 + i * 1e-9;
}

/* Thread t has the partitions t, t + THREADS, ... */
static void *fill(void *arg)
{
    for (int part = *(int *)arg; part < PARTS; part += THREADS) {
        double made[LENGTH];

        for (int i = 0; i < LENGTH; i++) {
            made[i] = value(rank, part, i);
        }
        memcpy(send + part * LENGTH, made, sizeof(made));
        fail_if(MPIX_Pready(part, request), "ready");
    }
    return NULL;
}

/* Only a thread whose current device it is can copy to a device. So such a thread fills them, too. */
static void fill_on_device(void)
{
    static double made[LENGTH];

    for (int part = PARTS - 1; part >= 0; part--) {
        for (int i = 0; i < LENGTH; i++) {
            made[i] = value(rank, part, i);
        }
        example_copy(send + part * LENGTH, made, sizeof(made));
        fail_if(MPIX_Pready(part, request), "ready");
    }
}

static long wrong_in(int number)
{
    static double come[LENGTH];
    long wrong = 0;

    example_copy(come, recv + (size_t)number * LENGTH, sizeof(come));
    for (int i = 0; i < LENGTH; i++) {
        wrong += come[i] != value(number / PARTS, number % PARTS, i);
    }
    return wrong;
}

/* Each partition as soon as it has arrived, in any order. */
static long use(char *used)
{
    long wrong = 0;
    int left = ranks * PARTS, arrived;

    memset(used, 0, (size_t)left);
    while (left > 0) {
        for (int number = 0; number < ranks * PARTS; number++) {
            if (used[number]) {
                continue;
            }
            fail_if(MPIX_Parrived(request, number, &arrived), "a partition has failed");
            if (arrived) {
                wrong += wrong_in(number);
                used[number] = 1;
                left--;
            }
        }
    }
    return wrong;
}

static long one_turn(char *used)
{
    pthread_t threads[THREADS];
    int first[THREADS];
    long wrong;

    fail_if(MPI_Start(&request), "start");
    if (device.alloc) {
        fill_on_device();
        wrong = use(used);
    } else {
        for (int t = 0; t < THREADS; t++) {
            first[t] = t;
            fail_if(pthread_create(&threads[t], NULL, fill, &first[t]), "thread");
        }
        wrong = use(used);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
        }
    }
    fail_if(MPIX_Wait(&request, MPI_STATUS_IGNORE), "wait");
    return wrong;
}

int main(int argc, char **argv)
{
    size_t bytes = PARTS * LENGTH * sizeof(double);
    long wrong = 0;
    char *used;

    example_begin(argc, argv);
    send = example_alloc(bytes);
    recv = example_alloc((size_t)ranks * bytes);
    used = malloc((size_t)ranks * PARTS);
    fail_if(MPIX_Pallgather_init(send, PARTS, LENGTH, MPI_DOUBLE, recv, PARTS, LENGTH, MPI_DOUBLE, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &request),
            "init");
    for (turn = 0; turn < TURNS; turn++) {
        wrong += one_turn(used);
    }
    fail_if(MPIX_Request_free(&request), "free");
    free(used);
    example_free(send);
    example_free(recv);
    return example_end("partitions", (long)TURNS * ranks * PARTS * LENGTH, wrong);
}
