/*
 * A rank that comes late: the last one sleeps before its second all-gather.
 *
 *     late SECONDS [BYTES]
 *
 * The last line is "late: data right" or, on rank 0, the error class that the call returned.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, nranks, code, class, wrong = 0;
    int bytes = argc > 2 ? atoi(argv[2]) : 8;
    char *send, *recv;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    send = malloc((size_t)bytes);
    recv = malloc((size_t)bytes * (size_t)nranks);
    memset(send, rank + 1, (size_t)bytes);

    MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    if (rank == nranks - 1 && argc > 1) {
        usleep((useconds_t)(atof(argv[1]) * 1e6));
    }
    code = MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    for (int r = 0; r < nranks; r++) {
        wrong += recv[(size_t)r * (size_t)bytes] != r + 1 || recv[(size_t)(r + 1) * (size_t)bytes - 1] != r + 1;
    }
    if (0 == rank) {
        MPI_Error_class(code, &class);
        if (MPI_SUCCESS != class) {
            printf("late: error class %d\n", class);
        } else {
            printf("late: data %s\n", wrong ? "WRONG" : "right");
        }
    }
    free(send);
    free(recv);
    /* After an error the peers may be gone, and freeing the communicator would wait for them. */
    MPI_Finalize();
    return wrong && MPI_SUCCESS == code;
}
