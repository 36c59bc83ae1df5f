/*
 * Wrong arguments: prints the error class of each call, one line per case, so that two runs can be compared. No call may
 * start a collective on one rank only: an argument is wrong on all ranks.
 */
#include "verify.h"

static int rank;

static void show(const char *what, int code)
{
    int class;

    MPI_Error_class(code, &class);
    if (0 == rank) {
        printf("%s: class %d\n", what, class);
    }
}

/* The outcome of a call with a request. */
static void posted(const char *what, int code, MPI_Request *request)
{
    show(what, code);
    if (MPI_SUCCESS == code) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    if (MPI_REQUEST_NULL != *request) {
        MPI_Request_free(request);
    }
}

static void others(MPI_Comm comm, MPI_Datatype uncommitted)
{
    int send[128] = {0}, recv[128] = {0}, counts[64] = {0}, negative[64] = {0, -1}, displs[64] = {0};
    int ones[64];
    MPI_Datatype ints[64], none[64], empty_types[64], empty;
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);

    show("all-to-all, negative count", MPI_Alltoall(send, 1, MPI_INT, recv, -1, MPI_INT, comm));
    show("all-to-all, no receive type", MPI_Alltoall(send, 1, MPI_INT, recv, 1, MPI_DATATYPE_NULL, comm));
    show("all-to-all, nothing", MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
    show("all-to-all-v, negative count",
         MPI_Alltoallv(send, counts, displs, MPI_INT, recv, negative, displs, MPI_INT, comm));
    show("all-to-all-v, no displacements",
         MPI_Alltoallv(send, counts, displs, MPI_INT, recv, counts, NULL, MPI_INT, comm));
    show("all-to-all-v, nothing", MPI_Alltoallv(NULL, counts, displs, MPI_INT, NULL, counts, displs, MPI_INT, comm));
    for (int r = 0; r < 64; r++) {
        ones[r] = 1;
        ints[r] = MPI_INT;
        none[r] = MPI_DATATYPE_NULL;
        empty_types[r] = empty;
    }
    show("all-to-all-w, negative count", MPI_Alltoallw(send, counts, displs, ints, recv, negative, displs, ints, comm));
    show("all-to-all-w, no receive type", MPI_Alltoallw(send, counts, displs, ints, recv, counts, displs, none, comm));
    show("all-to-all-w, no array of types",
         MPI_Alltoallw(send, counts, displs, NULL, recv, counts, displs, ints, comm));
    show("all-to-all-w, nothing", MPI_Alltoallw(NULL, counts, displs, ints, NULL, counts, displs, ints, comm));
    show("all-to-all-w, nothing in place",
         MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, recv, counts, displs, ints, comm));
    show("all-to-all-w, types of no size",
         MPI_Alltoallw(send, ones, displs, empty_types, recv, counts, displs, ints, comm));
    show("all-gather-v, nothing", MPI_Allgatherv(NULL, 0, MPI_INT, NULL, counts, displs, MPI_INT, comm));
    posted("non-blocking, negative count", MPI_Iallgather(send, 1, MPI_INT, recv, -1, MPI_INT, comm, &request),
           &request);
    posted("non-blocking, type not committed", MPI_Ialltoall(send, 1, uncommitted, recv, 2, MPI_INT, comm, &request),
           &request);
    posted("non-blocking, nothing", MPI_Iallgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm, &request), &request);
    posted("persistent, negative count",
           PERSISTENT(Allgather)(send, 1, MPI_INT, recv, -1, MPI_INT, comm, MPI_INFO_NULL, &request), &request);
    posted("persistent, never started",
           PERSISTENT(Alltoall)(send, 1, MPI_INT, recv, 1, MPI_INT, comm, MPI_INFO_NULL, &request), &request);
    posted("non-blocking, a receive type is missing",
           MPI_Ialltoallw(send, counts, displs, ints, recv, counts, displs, none, comm, &request), &request);
    posted("persistent, types of no size",
           PERSISTENT(Alltoallw)(send, ones, displs, empty_types, recv, counts, displs, ints, comm, MPI_INFO_NULL,
                                 &request),
           &request);
    MPI_Type_free(&empty);
}

/* The same cases on an unused communicator and on a used one. */
static void cases(MPI_Comm comm, const char *which)
{
    int send[4] = {0}, recv[128] = {0};
    MPI_Datatype uncommitted;

    if (0 == rank) {
        printf("%s communicator\n", which);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(2, 1, 2, MPI_INT, &uncommitted);
    show("negative receive count", MPI_Allgather(send, 1, MPI_INT, recv, -1, MPI_INT, comm));
    show("negative send count", MPI_Allgather(send, -1, MPI_INT, recv, 1, MPI_INT, comm));
    show("no send type", MPI_Allgather(send, 1, MPI_DATATYPE_NULL, recv, 1, MPI_INT, comm));
    show("no receive type", MPI_Allgather(send, 1, MPI_INT, recv, 1, MPI_DATATYPE_NULL, comm));
    show("type not committed", MPI_Allgather(send, 1, uncommitted, recv, 2, MPI_INT, comm));
    show("receive in place", MPI_Allgather(send, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
    show("nothing from nowhere", MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
    show("nothing in place", MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, NULL, 0, MPI_INT, comm));
    show("no send type in place", MPI_Allgather(MPI_IN_PLACE, 1, MPI_DATATYPE_NULL, recv, 1, MPI_INT, comm));
    others(comm, uncommitted);
    MPI_Type_free(&uncommitted);
}

int main(int argc, char **argv)
{
    int one = 1, all[128];
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    cases(comm, "a fresh");
    MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, comm);
    cases(comm, "a used");
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
