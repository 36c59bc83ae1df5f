/*
 * Blocking collectives among non-blocking ones and point-to-point messages, in orders that MPI allows. They hang if a
 * collective waits where it must not: above all in the first collective of a communicator, which sets it up.
 */
#include "forms.h"

enum { ROUNDS = 20, MAX_RANKS = 32 };

static int rank, nranks;

static void gather(MPI_Comm comm, int round)
{
    int mine = 100 * round + rank, all[MAX_RANKS];

    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int r = 0; r < nranks; r++) {
        VERIFY(all[r] == 100 * round + r);
    }
}

/* A call of any operation. */
static call_t *any_call(MPI_Comm comm, int round)
{
    op_t op = (op_t)(round % OPS);
    call_t *call = forms_make(comm, op, 1 + round, false, round / OPS % 2);

    verify_where = op_names[op];
    forms_fill(call, round);
    return call;
}

/* Rank 0 enters the collective. It then needs rank 1, which enters it only after a message of rank 0. */
static void overtake(MPI_Comm comm, int round)
{
    call_t *call = any_call(comm, round);
    int token = round;

    if (1 == rank) {
        MPI_Recv(&token, 1, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
        VERIFY(token == round);
    }
    forms_post(call, comm);
    if (0 == rank) {
        MPI_Ssend(&token, 1, MPI_INT, 1, 5, comm);
    }
    MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    VERIFY(forms_right(call));
    forms_free(call);
}

/* Rank 0 waits in a blocking collective for rank 1, which first needs a message that rank 0 has only posted. The message
 * is so large that it needs rank 0's progress. */
static void serve_while_waiting(MPI_Comm comm, int round)
{
    enum { LARGE = 1 << 18 };
    static int out[LARGE], in[LARGE];
    MPI_Request request = MPI_REQUEST_NULL;
    call_t *call = any_call(comm, round);

    if (0 == rank) {
        out[LARGE - 1] = round;
        MPI_Isend(out, LARGE, MPI_INT, 1, 6, comm, &request);
    } else if (1 == rank) {
        MPI_Recv(in, LARGE, MPI_INT, 0, 6, comm, MPI_STATUS_IGNORE);
        VERIFY(in[LARGE - 1] == round);
    }
    forms_run(call, comm);
    VERIFY(forms_right(call));
    forms_free(call);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Receives with any source and any tag, posted before the set-up of a communicator, must not see the messages of the
 * set-up. */
static void wildcards(MPI_Comm comm, int round)
{
    int token = -1, left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    gather(comm, round);
    MPI_Send(&round, 1, MPI_INT, right, 9, comm);
    MPI_Wait(&request, &status);
    VERIFY(token == round && status.MPI_SOURCE == left && status.MPI_TAG == 9);
}

int main(int argc, char **argv)
{
    void (*const orders[])(MPI_Comm, int) = {overtake, serve_while_waiting, wildcards};
    int outcome;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks < 2 || nranks > MAX_RANKS) {
        fprintf(stderr, "overtake: wants 2 to %d ranks\n", MAX_RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
            /* On a new communicator the order meets its set-up. Then the same again. */
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            orders[i](comm, round);
            gather(comm, round);
            orders[i](comm, round + 1);
            gather(comm, round + 1);
            MPI_Comm_free(&comm);
        }
        gather(MPI_COMM_WORLD, round);
    }

    outcome = verify_summary("overtake", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
