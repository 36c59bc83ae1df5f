/*
 * All-gathers of random sizes until the job is killed. kill.sh kills a rank. Prints "rank R pid P", and on rank 0 "looping"
 * when every rank is in the loop. Now and then a communicator is made and freed, so that a kill may also hit a set-up.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 1 << 20 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    char *send = calloc(MOST, 1), *recv = malloc((size_t)MOST * (size_t)size);
    MPI_Allgather(send, 64, MPI_CHAR, recv, 64, MPI_CHAR, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("looping\n");
        fflush(stdout);
    }
    srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1); /* the same on all ranks */
    for (;;) {
        int bytes = 1 << (rand() % 21);
        MPI_Comm comm = MPI_COMM_WORLD;
        if (rand() % 50 == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        }
        MPI_Allgather(send, bytes, MPI_CHAR, recv, bytes, MPI_CHAR, comm);
        if (comm != MPI_COMM_WORLD) {
            MPI_Comm_free(&comm);
        }
    }
}
