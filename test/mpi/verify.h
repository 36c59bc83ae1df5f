/* Shared by the MPI test programs: counts checks, prints which failed, and computes the result of the whole job. */
#ifndef DMA_TEST_VERIFY_H
#define DMA_TEST_VERIFY_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../include/mpi_names.h"

static long verify_done, verify_failed;
static const char *verify_where __attribute__((unused)) = "";

#define VERIFY(condition)                                                                                              \
    do {                                                                                                               \
        verify_done++;                                                                                                 \
        if (!(condition) && verify_failed++ < 10) {                                                                    \
            fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, verify_where, #condition);                \
        }                                                                                                              \
    } while (0)

/* Collective over comm: one line on rank 0, and the exit status of the program. */
static inline int verify_summary(const char *program, MPI_Comm comm)
{
    long mine[2] = {verify_done, verify_failed}, all[2];
    int rank;

    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, comm);
    MPI_Comm_rank(comm, &rank);
    if (0 == rank) {
        printf("%s: %ld checks, %ld failed\n", program, all[0], all[1]);
    }
    return all[1] ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
