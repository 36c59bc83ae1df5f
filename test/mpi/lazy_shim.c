/* Collectives that succeed and move nothing, to prove that programs that check their results notice. Preloaded. */
#include <stdlib.h>

#include "../../include/mpi_names.h"

/* As many counts as a communicator has ranks. Never freed, because calls may be under way. */
static int *zeros(MPI_Comm comm)
{
    int ranks;

    PMPI_Comm_size(comm, &ranks);
    return calloc((size_t)ranks, sizeof(int));
}

int MPI_Allgather(const void *send, int n, MPI_Datatype type, void *recv, int count, MPI_Datatype recv_type,
                  MPI_Comm comm)
{
    (void)n;
    (void)count;
    return PMPI_Allgather(send, 0, send == MPI_IN_PLACE ? type : recv_type, recv, 0, recv_type, comm);
}

int MPI_Iallgather(const void *send, int n, MPI_Datatype type, void *recv, int count, MPI_Datatype recv_type,
                   MPI_Comm comm, MPI_Request *request)
{
    (void)n;
    (void)count;
    return PMPI_Iallgather(send, 0, type, recv, 0, recv_type, comm, request);
}

int PERSISTENT(Allgather)(const void *send, int n, MPI_Datatype type, void *recv, int count, MPI_Datatype recv_type,
                          MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    (void)n;
    (void)count;
    return PERSISTENT_PROFILE(Allgather)(send, 0, type, recv, 0, recv_type, comm, info, request);
}

int PERSISTENT(Allgatherv)(const void *send, int n, MPI_Datatype type, void *recv, const int *counts, const int *at,
                           MPI_Datatype recv_type, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    (void)n;
    (void)counts;
    return PERSISTENT_PROFILE(Allgatherv)(send, 0, type, recv, zeros(comm), at, recv_type, comm, info, request);
}

/* Small blocks are moved, because counts are data of the program (moe tells others how many tokens it sends). Larger
 * blocks are not. */
int MPI_Alltoall(const void *send, int n, MPI_Datatype type, void *recv, int count, MPI_Datatype recv_type,
                 MPI_Comm comm)
{
    int bytes;

    PMPI_Type_size(type, &bytes);
    bytes *= n;
    return PMPI_Alltoall(send, bytes > 4 ? 0 : n, type, recv, bytes > 4 ? 0 : count, recv_type, comm);
}

int MPI_Alltoallv(const void *send, const int *n, const int *at, MPI_Datatype type, void *recv, const int *counts,
                  const int *recv_at, MPI_Datatype recv_type, MPI_Comm comm)
{
    (void)n;
    (void)counts;
    return PMPI_Alltoallv(send, zeros(comm), at, type, recv, zeros(comm), recv_at, recv_type, comm);
}

int MPI_Ialltoallv(const void *send, const int *n, const int *at, MPI_Datatype type, void *recv, const int *counts,
                   const int *recv_at, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    (void)n;
    (void)counts;
    return PMPI_Ialltoallv(send, zeros(comm), at, type, recv, zeros(comm), recv_at, recv_type, comm, request);
}
