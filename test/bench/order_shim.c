/*
 * A tool that can be preloaded into a benchmark. When MPI is finalized, rank 0 writes the order of its calls to
 * $DMA_TEST_ORDER. C is a collective of any form, or a start of one, W a wait, B a barrier. coll_dma_bench must have the
 * same order as OSU's programs.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    char text[1 << 20];
    size_t n;
} order;

static void note(char what)
{
    if (order.n < sizeof(order.text)) {
        order.text[order.n++] = what;
    }
}

int MPI_Barrier(MPI_Comm comm)
{
    note('B');
    return PMPI_Barrier(comm);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    note('W');
    return PMPI_Wait(request, status);
}

int MPI_Start(MPI_Request *request)
{
    note('C');
    return PMPI_Start(request);
}

int MPI_Allgather(const void *send, int count, MPI_Datatype type, void *recv, int got, MPI_Datatype as, MPI_Comm comm)
{
    note('C');
    return PMPI_Allgather(send, count, type, recv, got, as, comm);
}

int MPI_Alltoallv(const void *send, const int *counts, const int *displs, MPI_Datatype type, void *recv, const int *got,
                  const int *at, MPI_Datatype as, MPI_Comm comm)
{
    note('C');
    return PMPI_Alltoallv(send, counts, displs, type, recv, got, at, as, comm);
}

int MPI_Iallgather(const void *send, int count, MPI_Datatype type, void *recv, int got, MPI_Datatype as, MPI_Comm comm,
                   MPI_Request *request)
{
    note('C');
    return PMPI_Iallgather(send, count, type, recv, got, as, comm, request);
}

int MPI_Finalize(void)
{
    const char *path = getenv("DMA_TEST_ORDER");
    FILE *file;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && path && (file = fopen(path, "w"))) {
        fwrite(order.text, 1, order.n, file);
        fclose(file);
    }
    return PMPI_Finalize();
}
