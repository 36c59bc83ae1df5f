/*
 * Every collective of MPI in its three forms, on every kind of communicator. Whichever component serves a call, the data
 * must be right. What coll/dma does not serve must reach the component below.
 *
 *     allcoll [--mpit] [--spawn N]
 *
 * --mpit starts the tool interface before MPI_Init. Then Open MPI loads all components, whatever the selection says. --spawn
 * adds N spawned processes.
 */
#include <stdbool.h>
#include <string.h>

#include "verify.h"

enum { MAX_RANKS = 32, BLOCK = 3, MAX_INTS = MAX_RANKS * (BLOCK + 1) };

typedef enum form { BLOCKING, NONBLOCKING, PERSISTENT_FORM, FORMS } form_t;

static form_t form;

static void complete(MPI_Request *request)
{
    if (PERSISTENT_FORM == form) {
        for (int start = 0; start < 2; start++) {
            MPI_Start(request);
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(request);
    } else {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
}

/* One collective in the current form. */
#define CALL(name, iname, comm, ...)                                                                                   \
    do {                                                                                                               \
        MPI_Request request_;                                                                                          \
        verify_where = #name;                                                                                          \
        if (BLOCKING == form) {                                                                                        \
            MPI_##name(__VA_ARGS__, comm);                                                                             \
        } else if (NONBLOCKING == form) {                                                                              \
            MPI_##iname(__VA_ARGS__, comm, &request_);                                                                 \
            complete(&request_);                                                                                       \
        } else {                                                                                                       \
            PERSISTENT(name)(__VA_ARGS__, comm, MPI_INFO_NULL, &request_);                                             \
            complete(&request_);                                                                                       \
        }                                                                                                              \
    } while (0)

/* Element i of what rank `from` sends to rank `to`; to == -1: to all. */
static int value(int from, int to, int i)
{
    return (from + 1) * 10000 + (to + 1) * 100 + i;
}

static bool holds(const int *got, int count, int from, int to)
{
    for (int i = 0; i < count; i++) {
        if (got[i] != value(from, to, i)) {
            return false;
        }
    }
    return true;
}

static void put(int *out, int count, int from, int to)
{
    for (int i = 0; i < count; i++) {
        out[i] = value(from, to, i);
    }
}

static void barrier(MPI_Comm comm)
{
    MPI_Request request;

    verify_where = "Barrier";
    if (BLOCKING == form) {
        MPI_Barrier(comm);
    } else if (NONBLOCKING == form) {
        MPI_Ibarrier(comm, &request);
        complete(&request);
    } else {
        PERSISTENT(Barrier)(comm, MPI_INFO_NULL, &request);
        complete(&request);
    }
}

static void rooted(MPI_Comm comm, int rank, int nranks)
{
    int send[MAX_INTS], recv[MAX_INTS], counts[MAX_RANKS], displs[MAX_RANKS], total = 0, root = nranks - 1;

    for (int r = 0; r < nranks; r++) {
        counts[r] = r % BLOCK;
        displs[r] = total;
        total += counts[r];
    }

    memset(recv, 0, sizeof(recv));
    if (rank == root) {
        put(recv, BLOCK, root, -1);
    }
    CALL(Bcast, Ibcast, comm, recv, BLOCK, MPI_INT, root);
    VERIFY(holds(recv, BLOCK, root, -1));

    put(send, BLOCK, rank, root);
    CALL(Gather, Igather, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, root);
    for (int r = 0; rank == root && r < nranks; r++) {
        VERIFY(holds(recv + r * BLOCK, BLOCK, r, root));
    }
    CALL(Gatherv, Igatherv, comm, send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, root);
    for (int r = 0; rank == root && r < nranks; r++) {
        VERIFY(holds(recv + displs[r], counts[r], r, root));
    }

    for (int r = 0; r < nranks; r++) {
        put(send + r * BLOCK, BLOCK, root, r);
    }
    memset(recv, 0, sizeof(recv));
    CALL(Scatter, Iscatter, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, root);
    VERIFY(holds(recv, BLOCK, root, rank));
    for (int r = 0; r < nranks; r++) {
        put(send + displs[r], counts[r], root, r);
    }
    memset(recv, 0, sizeof(recv));
    CALL(Scatterv, Iscatterv, comm, send, counts, displs, MPI_INT, recv, counts[rank], MPI_INT, root);
    VERIFY(holds(recv, counts[rank], root, rank));
}

static void gathering(MPI_Comm comm, int rank, int nranks)
{
    int send[MAX_INTS], recv[MAX_INTS], counts[MAX_RANKS], displs[MAX_RANKS], total = 0;
    MPI_Datatype strided, spaced;

    for (int r = 0; r < nranks; r++) {
        counts[r] = r % BLOCK;
        displs[r] = total;
        total += counts[r] + 1;
    }

    put(send, BLOCK, rank, -1);
    memset(recv, 0, sizeof(recv));
    CALL(Allgather, Iallgather, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + r * BLOCK, BLOCK, r, -1));
    }

    memset(recv, 0, sizeof(recv));
    put(recv + rank * BLOCK, BLOCK, rank, -1);
    CALL(Allgather, Iallgather, comm, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, BLOCK, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + r * BLOCK, BLOCK, r, -1));
    }

    /* Each int of a block is at every second int of the receive buffer. */
    MPI_Type_vector(1, 1, 2, MPI_INT, &strided);
    MPI_Type_create_resized(strided, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    memset(recv, 0, sizeof(recv));
    CALL(Allgather, Iallgather, comm, send, 1, MPI_INT, recv, 1, spaced);
    for (int r = 0; r < nranks; r++) {
        VERIFY(recv[2 * r] == value(r, -1, 0) && recv[2 * r + 1] == 0);
    }
    MPI_Type_free(&spaced);
    MPI_Type_free(&strided);

    memset(recv, 0, sizeof(recv));
    CALL(Allgatherv, Iallgatherv, comm, send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + displs[r], counts[r], r, -1));
        VERIFY(recv[displs[r] + counts[r]] == 0);
    }

    memset(recv, 0, sizeof(recv));
    put(recv + displs[rank], counts[rank], rank, -1);
    CALL(Allgatherv, Iallgatherv, comm, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, counts, displs, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + displs[r], counts[r], r, -1));
    }
}

static void exchanging(MPI_Comm comm, int rank, int nranks)
{
    int send[MAX_INTS], recv[MAX_INTS], scounts[MAX_RANKS], rcounts[MAX_RANKS], displs[MAX_RANKS], bytes[MAX_RANKS];
    MPI_Datatype types[MAX_RANKS];

    for (int r = 0; r < nranks; r++) {
        put(send + r * BLOCK, BLOCK, rank, r);
        scounts[r] = rcounts[r] = (rank + r) % BLOCK;
        displs[r] = r * BLOCK;
        bytes[r] = displs[r] * (int)sizeof(int);
        types[r] = MPI_INT;
    }
    memset(recv, 0, sizeof(recv));
    CALL(Alltoall, Ialltoall, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + r * BLOCK, BLOCK, r, rank));
    }
    memset(recv, 0, sizeof(recv));
    CALL(Alltoallv, Ialltoallv, comm, send, scounts, displs, MPI_INT, recv, rcounts, displs, MPI_INT);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + displs[r], rcounts[r], r, rank));
    }
    /* The persistent ones of Open MPI itself are wrong in place. */
    if (PERSISTENT_FORM != form) {
        memcpy(recv, send, sizeof(recv));
        CALL(Alltoall, Ialltoall, comm, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, BLOCK, MPI_INT);
        for (int r = 0; r < nranks; r++) {
            VERIFY(holds(recv + r * BLOCK, BLOCK, r, rank));
        }
        memcpy(recv, send, sizeof(recv));
        CALL(Alltoallv, Ialltoallv, comm, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, recv, rcounts, displs, MPI_INT);
        for (int r = 0; r < nranks; r++) {
            VERIFY(holds(recv + displs[r], rcounts[r], r, rank));
        }
    }
    memset(recv, 0, sizeof(recv));
    CALL(Alltoallw, Ialltoallw, comm, send, scounts, bytes, types, recv, rcounts, bytes, types);
    for (int r = 0; r < nranks; r++) {
        VERIFY(holds(recv + displs[r], rcounts[r], r, rank));
    }
}

static void reducing(MPI_Comm comm, int rank, int nranks)
{
    int send[MAX_RANKS], recv[MAX_RANKS], ones[MAX_RANKS], sum = nranks * (nranks + 1) / 2, one = rank + 1, got;

    for (int r = 0; r < nranks; r++) {
        send[r] = (rank + 1) * (r + 1);
        ones[r] = 1;
    }
    got = 0;
    CALL(Reduce, Ireduce, comm, &one, &got, 1, MPI_INT, MPI_SUM, 0);
    VERIFY(0 != rank || got == sum);
    CALL(Allreduce, Iallreduce, comm, &one, &got, 1, MPI_INT, MPI_SUM);
    VERIFY(got == sum);
    CALL(Reduce_scatter_block, Ireduce_scatter_block, comm, send, &got, 1, MPI_INT, MPI_SUM);
    VERIFY(got == sum * (rank + 1));
    CALL(Reduce_scatter, Ireduce_scatter, comm, send, &got, ones, MPI_INT, MPI_SUM);
    VERIFY(got == sum * (rank + 1));
    CALL(Scan, Iscan, comm, &one, &got, 1, MPI_INT, MPI_SUM);
    VERIFY(got == (rank + 1) * (rank + 2) / 2);
    CALL(Exscan, Iexscan, comm, &one, &got, 1, MPI_INT, MPI_SUM);
    VERIFY(0 == rank || got == rank * (rank + 1) / 2);

    memcpy(recv, send, sizeof(int) * nranks);
    verify_where = "Reduce_local";
    MPI_Reduce_local(send, recv, nranks, MPI_INT, MPI_SUM);
    for (int r = 0; r < nranks; r++) {
        VERIFY(recv[r] == 2 * send[r]);
    }
}

static void neighbours(MPI_Comm comm, int rank, int nranks)
{
    int dims[1] = {nranks}, periods[1] = {1}, recv[2] = {-1, -1}, send[2] = {rank, rank + 100};
    int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
    MPI_Comm ring;

    MPI_Cart_create(comm, 1, dims, periods, 0, &ring);
    CALL(Neighbor_allgather, Ineighbor_allgather, ring, send, 1, MPI_INT, recv, 1, MPI_INT);
    VERIFY(recv[0] == left && recv[1] == right);
    /* On a ring of two ranks both neighbors are the same rank, and MPI does not say which block belongs to which side. */
    if (nranks > 2) {
        CALL(Neighbor_alltoall, Ineighbor_alltoall, ring, send, 1, MPI_INT, recv, 1, MPI_INT);
        VERIFY(recv[0] == left + 100 && recv[1] == right);
    }
    MPI_Comm_free(&ring);
}

static void intra(MPI_Comm comm)
{
    int rank, nranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    for (form = BLOCKING; form < FORMS; form++) {
        barrier(comm);
        gathering(comm, rank, nranks);
        rooted(comm, rank, nranks);
        exchanging(comm, rank, nranks);
        reducing(comm, rank, nranks);
        neighbours(comm, rank, nranks);
    }
}

static void inter(MPI_Comm comm)
{
    int rank, nremote, send[MAX_INTS], recv[MAX_INTS], sum;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_remote_size(comm, &nremote);
    for (form = BLOCKING; form < PERSISTENT_FORM; form++) {
        barrier(comm);
        put(send, BLOCK, rank, -1);
        memset(recv, 0, sizeof(recv));
        CALL(Allgather, Iallgather, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT);
        for (int r = 0; r < nremote; r++) {
            VERIFY(holds(recv + r * BLOCK, BLOCK, r, -1));
        }
        for (int r = 0; r < nremote; r++) {
            put(send + r * BLOCK, BLOCK, rank, r);
        }
        CALL(Alltoall, Ialltoall, comm, send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT);
        for (int r = 0; r < nremote; r++) {
            VERIFY(holds(recv + r * BLOCK, BLOCK, r, rank));
        }
        sum = rank + 1;
        CALL(Allreduce, Iallreduce, comm, &sum, recv, 1, MPI_INT, MPI_SUM);
        VERIFY(recv[0] == nremote * (nremote + 1) / 2);
    }
}

/* The intercommunicator, and the communicator that results when both sides are merged. */
static void inter_and_merged(MPI_Comm comm, int high)
{
    MPI_Comm merged;

    inter(comm);
    MPI_Intercomm_merge(comm, high, &merged);
    intra(merged);
    MPI_Comm_free(&merged);
}

static void split(int color, int key)
{
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm);
    intra(comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int rank, nranks, provided, nspawn = 0, outcome;
    MPI_Comm parent, comm, half;
    bool tool = false;

    for (int i = 1; i < argc; i++) {
        if (0 == strcmp(argv[i], "--mpit")) {
            tool = true;
        } else if (0 == strcmp(argv[i], "--spawn") && i + 1 < argc) {
            nspawn = atoi(argv[++i]);
        }
    }
    if (tool) {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);

    intra(MPI_COMM_WORLD);
    MPI_Comm_get_parent(&parent);
    if (MPI_COMM_NULL != parent) {
        inter_and_merged(parent, 1);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return verify_failed ? EXIT_FAILURE : EXIT_SUCCESS;
    }

    intra(MPI_COMM_SELF);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    intra(comm);
    MPI_Comm_free(&comm);
    split(0, -rank);
    split(rank, 0);
    split(rank % 2, rank);
    if (nranks > 1) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 7, &comm);
        inter_and_merged(comm, rank % 2);
        MPI_Comm_free(&comm);
        MPI_Comm_free(&half);
    }
    if (nspawn > 0) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, nspawn, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm, MPI_ERRCODES_IGNORE);
        inter_and_merged(comm, 0);
        MPI_Comm_disconnect(&comm);
    }

    outcome = verify_summary("allcoll", MPI_COMM_WORLD);
    if (tool) {
        MPI_T_finalize();
    }
    MPI_Finalize();
    return outcome;
}
