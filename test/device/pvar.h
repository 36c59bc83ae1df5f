/*
 * Counters of coll/dma in tests, as performance variables of MPI_T. The caller has created the session.
 */
#ifndef TEST_DEVICE_PVAR_H
#define TEST_DEVICE_PVAR_H

#include <mpi.h>
#include <stdio.h>

/* Ends the job if there is no such variable. */
static inline MPI_T_pvar_handle pvar_open(MPI_T_pvar_session session, const char *name, int class)
{
    MPI_T_pvar_handle made = MPI_T_PVAR_HANDLE_NULL;
    int index, count;

    if (MPI_T_pvar_get_index(name, class, &index) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &made, &count) != MPI_SUCCESS) {
        fprintf(stderr, "there is no variable %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return made;
}

static inline long pvar_value(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long count = 0;

    MPI_T_pvar_read(session, handle, &count);
    return (long)count;
}

#endif
