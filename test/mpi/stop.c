/*
 * stop [BYTES]: all-gathers whose data change from call to call and are checked in every call, until rank 0 receives
 * SIGUSR1. The last byte of its block tells the others. stop.sh stops a rank in between. The last line of rank 0 is "N
 * calls, data right".
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

static unsigned char value(long call, int rank, int at)
{
    return (unsigned char)(call * 31 + rank * 7 + at);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    signal(SIGUSR1, on_signal);
    int bytes = argc > 1 ? atoi(argv[1]) : 64;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned char *send = malloc((size_t)bytes), *recv = malloc((size_t)bytes * (size_t)size);
    printf("rank %d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("looping\n");
        fflush(stdout);
    }
    long calls = 0, wrong = 0;
    for (int last = 0; !last; calls++) {
        for (int i = 0; i < bytes; i++) {
            send[i] = value(calls, rank, i);
        }
        send[bytes - 1] = (unsigned char)ended; /* counts from rank 0 only */
        int code = MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
        wrong += code != MPI_SUCCESS;
        last = recv[bytes - 1];
        for (int block = 0; block < size; block++) {
            for (int i = 0; i < bytes - 1; i++) {
                wrong += recv[(size_t)block * (size_t)bytes + (size_t)i] != value(calls, block, i);
            }
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%ld calls, %s\n", calls, wrong ? "WRONG DATA" : "data right");
    }
    MPI_Finalize();
    return wrong != 0;
}
