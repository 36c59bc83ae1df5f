/*
 * What a call costs that goes to the module below us: all-gathers on two communicators side by side, one that we have
 * stepped aside on and one that an info key has kept us out of. Run it with a parameter that makes us step aside:
 *
 *     mpirun -n 2 --mca coll dma --mca coll_dma_arena_bytes 0 aside [BYTES [PASSES]]
 *
 * Prints the median over the passes of both times and of their difference, in nanoseconds a call, on rank 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 5000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double per_call(MPI_Comm comm, const char *send, char *recv, int bytes)
{
    double start;

    MPI_Barrier(comm);
    start = MPI_Wtime();
    for (int call = 0; call < CALLS; call++) {
        MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    }
    return (MPI_Wtime() - start) / CALLS * 1e9;
}

int main(int argc, char **argv)
{
    int bytes = argc > 1 ? atoi(argv[1]) : 8, passes = argc > 2 ? atoi(argv[2]) : 31, rank, nranks;
    double *aside = calloc((size_t)passes, sizeof(*aside)), *below = calloc((size_t)passes, sizeof(*below));
    double *more = calloc((size_t)passes, sizeof(*more));
    MPI_Comm with, without;
    MPI_Info info;
    char *send, *recv;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    send = calloc(1, (size_t)bytes);
    recv = calloc((size_t)nranks, (size_t)bytes);
    MPI_Comm_dup(MPI_COMM_WORLD, &with);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", "^dma");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &without);
    MPI_Info_free(&info);

    per_call(with, send, recv, bytes);
    per_call(without, send, recv, bytes);
    for (int pass = 0; pass < passes; pass++) {
        /* The order changes from pass to pass: the second of two is warmer. */
        if (pass % 2) {
            aside[pass] = per_call(with, send, recv, bytes);
            below[pass] = per_call(without, send, recv, bytes);
        } else {
            below[pass] = per_call(without, send, recv, bytes);
            aside[pass] = per_call(with, send, recv, bytes);
        }
        more[pass] = aside[pass] - below[pass];
    }
    if (0 == rank) {
        double difference = median(more, passes), direct = median(below, passes);

        printf("aside: %d ranks, %d bytes: %.1f ns, directly %.1f ns, difference %+.1f ns (%+.2f %%)\n", nranks, bytes,
               median(aside, passes), direct, difference, 100 * difference / direct);
    }
    MPI_Comm_free(&with);
    MPI_Comm_free(&without);
    MPI_Finalize();
    free(send);
    free(recv);
    free(aside);
    free(below);
    free(more);
    return 0;
}
