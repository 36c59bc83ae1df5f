/*
 * timed CALLS BYTES [nonblocking|die|late MS]: all-gathers on MPI_COMM_WORLD. Every rank prints the time that it has spent in them,
 * in microseconds, as "rank R spent US". trace.sh compares it with the trace. nonblocking: four are under way at a time.
 * die: the last rank kills itself in the middle. late: rank 1 comes MS milliseconds late to every tenth call.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 4 };

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int calls = argc > 1 ? atoi(argv[1]) : 10, bytes = argc > 2 ? atoi(argv[2]) : 64;
    const char *how = argc > 3 ? argv[3] : "";
    size_t all = (size_t)bytes * (size_t)size;
    char *send = calloc(1, (size_t)bytes), *recv = calloc(AT_ONCE, all);
    double spent = 0;
    for (int call = 0; call < calls; call++) {
        MPI_Request requests[AT_ONCE];
        double begin;

        if (!strcmp(how, "late") && rank == 1 && call % 10 == 9) {
            usleep((useconds_t)(argc > 4 ? atoi(argv[4]) : 0) * 1000);
        }
        begin = MPI_Wtime();

        if (!strcmp(how, "nonblocking")) {
            for (int i = 0; i < AT_ONCE; i++) {
                MPI_Iallgather(send, bytes, MPI_BYTE, recv + (size_t)i * all, bytes, MPI_BYTE, MPI_COMM_WORLD,
                               &requests[i]);
            }
            MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
        } else {
            MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
        }
        spent += call ? MPI_Wtime() - begin : 0; /* the first call sets the communicator up */
        if (!strcmp(how, "die") && rank == size - 1 && call == calls / 2) {
            kill(getpid(), SIGKILL);
        }
    }
    printf("rank %d spent %.3f\n", rank, 1e6 * spent);
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
