/*
 * Prints the counters of coll/dma that some collectives change: the performance variables coll_dma_* of MPI_T. A tool does
 * the same from outside of the program. Exits with 1 if a counter is missing or wrong.
 *
 *     mpirun -n 2 --mca coll dma ./counters
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1024, CALLS = 5 };

int main(int argc, char **argv)
{
    static MPI_T_pvar_handle handles[MOST];
    static char names[MOST][128];
    int provided, variables, rank, n = 0, mine = 1, all[64], calls = -1;
    MPI_T_pvar_session session;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && n < MOST; i++) {
        char help[1024];
        int length = sizeof names[n], help_length = sizeof help, level, class, bind, readonly, continuous, atomic,
            count;
        MPI_Datatype type;
        MPI_T_enum values;

        MPI_T_pvar_get_info(i, names[n], &length, &level, &class, &type, &values, help, &help_length, &bind, &readonly,
                            &continuous, &atomic);
        if (!strncmp(names[n], "coll_dma_", 9) && bind == MPI_T_BIND_NO_OBJECT) {
            MPI_T_pvar_handle_alloc(session, i, NULL, &handles[n++], &count);
        }
    }
    for (int i = 0; i < CALLS; i++) { /* from here on calls are counted, because the handles exist */
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    }
    for (int i = 0; i < n; i++) {
        unsigned long long value = 0;

        MPI_T_pvar_read(session, handles[i], &value);
        if (rank == 0 && value) {
            printf("%-40s %llu\n", names[i], value);
        }
        calls = strcmp(names[i], "coll_dma_calls_blocking_allgather") ? calls : (int)value;
        MPI_T_pvar_handle_free(session, &handles[i]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return calls != CALLS;
}
