/* leave [MIB]: a rank that has completed a call ends MPI while others are still in the call. Rank 0 of an all-to-all-v
 * sends and receives nothing. Each other rank exchanges MIB with the rank before it and the rank after it. Run with
 * async_mpi_finalize, because otherwise MPI_Finalize waits for the others. Three ranks or more. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, rc, bad = 0, mib = argc > 1 ? atoi(argv[1]) : 32, bytes = mib << 20;
    int *counts, *displs, *ranks;
    char *send, *recv;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 3 || !(counts = calloc(3 * (size_t)size, sizeof(*counts))) || !(send = malloc((size_t)bytes * 2)) ||
        !(recv = malloc((size_t)bytes * 2))) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    displs = counts + size;
    ranks = displs + size;
    memset(send, 'a' + rank, (size_t)bytes * 2);
    memset(recv, 0, (size_t)bytes * 2);
    for (int i = 0; rank && i < 2; i++) {
        int peer = 1 + (rank - 1 + (i ? 1 : size - 2)) % (size - 1);

        displs[peer] = i * bytes;
        counts[peer] = peer == rank ? 0 : bytes;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* what a communicator needs first from all ranks */
    rc = MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Alltoallv(send, counts, displs, MPI_BYTE, recv, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
    }
    for (int peer = 0; rc == MPI_SUCCESS && peer < size; peer++) {
        for (int i = 0; i < counts[peer]; i++) {
            bad += recv[displs[peer] + i] != 'a' + peer;
        }
    }
    if (rc != MPI_SUCCESS || bad) {
        printf("leave: rank %d: class %d, %d bytes wrong\n", rank, rc, bad);
        fflush(stdout);
    }
    MPI_Finalize();
    free(counts);
    free(send);
    free(recv);
    return rc != MPI_SUCCESS || bad;
}
