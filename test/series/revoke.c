/*
 * revoke: rank 0 is in a collective that rank 1 never enters. Instead, rank 1 revokes the communicator (MPI with fault
 * tolerance, mpirun --with-ft ulfm). Rank 0 must return with MPIX_ERR_REVOKED. Status 77: this Open MPI cannot do that.
 */
#include <mpi.h>

#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MPIX_ERR_REVOKED

int main(int argc, char **argv)
{
    int rank, ranks, *all, class = MPIX_ERR_REVOKED;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    all = calloc((size_t)ranks, sizeof(*all));
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    if (ranks > 1 && rank == 0) {
        MPI_Error_class(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm), &class);
        printf("revoke: class %d, revoked is %d: %d failed\n", class, MPIX_ERR_REVOKED, class != MPIX_ERR_REVOKED);
    } else if (rank == 1) {
        usleep(300000);
        MPIX_Comm_revoke(comm);
    } else {
        usleep(600000);
    }
    MPI_Comm_free(&comm);
    free(all);
    MPI_Finalize();
    return class != MPIX_ERR_REVOKED;
}

#else

int main(void)
{
    return 77;
}

#endif
