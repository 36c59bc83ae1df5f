/*
 * The counters of a communicator, read by MPI_T handles that are bound to it: calls of two communicators in all forms, and
 * the counts that remain when one of them has been freed. On 2 ranks.
 */
#include <string.h>

#include "verify.h"

#define CALLS 5

static MPI_T_pvar_session session;

/* The number of a variable. */
static int find(const char *wanted)
{
    int variables;

    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables; i++) {
        char name[128], help[8];
        int length = sizeof(name), help_length = sizeof(help), level, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum values;

        if (MPI_SUCCESS == MPI_T_pvar_get_info(i, name, &length, &level, &class, &type, &values, help, &help_length,
                                               &bind, &readonly, &continuous, &atomic) &&
            !strcmp(name, wanted)) {
            return i;
        }
    }
    fprintf(stderr, "counters: there is no variable %s\n", wanted);
    exit(2);
}

/* comm NULL: of the process. */
static MPI_T_pvar_handle handle(const char *name, MPI_Comm *comm)
{
    MPI_T_pvar_handle made = MPI_T_PVAR_HANDLE_NULL;
    char whole[128];
    int count = 0;

    snprintf(whole, sizeof(whole), "coll_dma_%s%s", comm ? "comm_" : "", name);
    if (MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, find(whole), comm, &made, &count) || count != 1) {
        fprintf(stderr, "counters: no handle of %s: %d values\n", whole, count);
        exit(2);
    }
    return made;
}

static unsigned long long value_of(MPI_T_pvar_handle made)
{
    unsigned long long value = 0;

    MPI_T_pvar_read(session, made, &value);
    return value;
}

static void gather(MPI_Comm comm, int calls)
{
    int mine = 1, all[2];

    for (int i = 0; i < calls; i++) {
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    }
}

int main(int argc, char **argv)
{
    int provided, failed, mine[2] = {1, 2}, got[2];
    MPI_T_pvar_handle of_all, of_world, of_other, posts, starts;
    MPI_Request request;
    MPI_Comm world = MPI_COMM_WORLD, other;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_Comm_dup(world, &other);
    of_all = handle("calls_blocking_allgather", NULL);
    of_world = handle("calls_blocking_allgather", &world);
    of_other = handle("calls_blocking_allgather", &other);
    posts = handle("calls_nonblocking_alltoall", &other);
    starts = handle("calls_persistent_alltoall", &other);
    gather(world, CALLS);
    gather(other, 2 * CALLS);
    VERIFY(value_of(of_all) == 3 * CALLS);   /* calls of all */
    VERIFY(value_of(of_world) == CALLS);     /* calls of one */
    VERIFY(value_of(of_other) == 2 * CALLS); /* calls of the other */
    MPI_Ialltoall(mine, 1, MPI_INT, got, 1, MPI_INT, other, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    VERIFY(value_of(posts) == 1); /* posts */
    PERSISTENT(Alltoall)(mine, 1, MPI_INT, got, 1, MPI_INT, other, MPI_INFO_NULL, &request);
    for (int i = 0; i < CALLS; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    VERIFY(value_of(starts) == CALLS); /* starts */
    MPI_Request_free(&request);
    VERIFY(value_of(starts) == CALLS); /* starts of a request that is freed */
    VERIFY(value_of(posts) == 1);      /* posts, beside starts */
    MPI_T_pvar_handle_free(session, &of_other);
    MPI_T_pvar_handle_free(session, &posts);
    MPI_T_pvar_handle_free(session, &starts);
    MPI_Comm_free(&other);
    VERIFY(value_of(of_all) == 3 * CALLS); /* calls of all, including a communicator that was freed */
    MPI_T_pvar_handle_free(session, &of_all);
    MPI_T_pvar_handle_free(session, &of_world);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    failed = verify_summary("counters", MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
