/*
 * How calls match: non-blocking and persistent calls in the orders that MPI allows, objects that are freed before others
 * that use them, and what a request refuses. Every test uses new communicators, so that the order also meets their set-up.
 *
 *     match [--aside]
 *
 * --aside: the component below serves persistent calls. What it cannot do is left out.
 */
#include "forms.h"

enum { BURST = 1000, PERSISTENTS = 8, STARTS = 5, CROSSED = 20, LARGE = 1 << 18, TAG = 3, TURNS = 1000 };

static int rank, nranks;
static bool aside;
/* For the messages of the tests themselves. */
static MPI_Comm side;

/* Rank by rank: after `before` returns, all lower ranks are in the same state. `after` lets the next one go on. */
static void before(void)
{
    if (rank > 0) {
        MPI_Recv(NULL, 0, MPI_INT, rank - 1, TAG, side, MPI_STATUS_IGNORE);
    }
}

static void after(void)
{
    if (rank < nranks - 1) {
        MPI_Send(NULL, 0, MPI_INT, rank + 1, TAG, side);
    }
}

static int class_of(int code)
{
    int class;

    MPI_Error_class(code, &class);
    return class;
}

static void finish(call_t *call)
{
    MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    VERIFY(forms_right(call));
    VERIFY(MPI_REQUEST_NULL == call->request);
    forms_free(call);
}

/* One rank posts a thousand calls before the next posts any. */
static void burst(MPI_Comm comm)
{
    static call_t *calls[BURST];
    static MPI_Request requests[BURST];

    for (int i = 0; i < BURST; i++) {
        calls[i] = forms_make(comm, (op_t)(i % OPS), 1 << i % 11, i % 3 == 0, i % 5 == 0);
        forms_fill(calls[i], i);
    }
    before();
    for (int i = 0; i < BURST; i++) {
        forms_post(calls[i], comm);
        requests[i] = calls[i]->request;
        forms_free_type(calls[i]);
    }
    after();
    MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BURST; i++) {
        VERIFY(forms_right(calls[i]));
        forms_free(calls[i]);
    }
}

/* Blocking calls among non-blocking ones match in call order. */
static void mixed(MPI_Comm comm)
{
    call_t *calls[40];

    for (int i = 0; i < 40; i++) {
        calls[i] = forms_make(comm, (op_t)(i % OPS), 10 + i * i * i, false, i % 7 == 0);
        forms_fill(calls[i], i);
        if (i % 5 == 4) {
            forms_run(calls[i], comm);
            VERIFY(forms_right(calls[i]));
        } else {
            forms_post(calls[i], comm);
        }
    }
    for (int i = 39; i >= 0; i--) {
        finish(calls[i]);
    }
}

/* In place, the persistent all-to-alls of the component below are wrong in some versions of Open MPI. */
static bool may_be_in_place(op_t op)
{
    return !aside || op == ALLGATHER || op == ALLGATHERV;
}

/* Requests are made in one order and started in another order on each rank, once one by one and once all together, with
 * calls that are not persistent in between. Their datatypes have been freed by then. */
static void persistent(MPI_Comm comm)
{
    call_t *calls[PERSISTENTS];
    MPI_Request requests[PERSISTENTS];

    for (int i = 0; i < PERSISTENTS; i++) {
        op_t op = (op_t)(i % OPS);

        calls[i] = forms_make(comm, op, i < OPS ? 3 : 3000, i % 3 == 0 && may_be_in_place(op), i % 2 == 1);
        forms_init(calls[i], comm);
        forms_free_type(calls[i]);
        VERIFY(MPI_REQUEST_NULL != calls[i]->request);
    }
    for (int start = 0; start < STARTS; start++) {
        call_t *other = forms_make(comm, (op_t)(start % OPS), 17, false, false);

        forms_fill(other, start);
        for (int i = 0; i < PERSISTENTS; i++) {
            int k = (i * 3 + rank + start) % PERSISTENTS;

            forms_fill(calls[k], start * 100 + k);
            if (start % 2 == 0) {
                MPI_Start(&calls[k]->request);
            }
            requests[i] = calls[k]->request;
            if (i == rank % PERSISTENTS) {
                forms_post(other, comm);
            }
        }
        if (start % 2 == 1) {
            MPI_Startall(PERSISTENTS, requests);
        }
        finish(other);
        MPI_Waitall(PERSISTENTS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < PERSISTENTS; i++) {
            VERIFY(forms_right(calls[i]));
            VERIFY(MPI_REQUEST_NULL != requests[i]);
        }
    }
    for (int i = 0; i < PERSISTENTS; i++) {
        MPI_Request_free(&calls[i]->request);
        VERIFY(MPI_REQUEST_NULL == calls[i]->request);
        forms_free(calls[i]);
    }
}

/* Calls on two communicators in opposite orders. */
static void crossed(MPI_Comm comm)
{
    MPI_Comm comms[2] = {comm, MPI_COMM_NULL};
    call_t *calls[2][CROSSED];

    MPI_Comm_dup(comm, &comms[1]);
    for (int i = 0; i < CROSSED; i++) {
        for (int c = 0; c < 2; c++) {
            int which = (c + rank) % 2;

            calls[which][i] = forms_make(comm, (op_t)((i + which) % OPS), 5 + 400 * i, i % 2 == 0, false);
            forms_fill(calls[which][i], 2 * i + which);
            forms_post(calls[which][i], comms[which]);
        }
    }
    for (int i = 0; i < CROSSED; i++) {
        for (int c = 0; c < 2; c++) {
            finish(calls[(c + rank / 2) % 2][rank % 2 ? i : CROSSED - 1 - i]);
        }
    }
    MPI_Comm_free(&comms[1]);
}

/* Rank 0 waits in a collective for rank 1, which first needs a message that rank 0 has only posted. The message is so
 * large that it needs rank 0's progress. */
static void serve(MPI_Comm comm)
{
    static int message[LARGE];
    MPI_Request request = MPI_REQUEST_NULL;
    call_t *call = forms_make(comm, ALLTOALL, 100, false, false);

    forms_fill(call, 1);
    if (0 == rank) {
        message[LARGE - 1] = 77;
        MPI_Isend(message, LARGE, MPI_INT, 1, TAG, comm, &request);
    } else if (1 == rank) {
        MPI_Recv(message, LARGE, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
        VERIFY(77 == message[LARGE - 1]);
    }
    forms_post(call, comm);
    finish(call);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A request of a call under way cannot be freed, cancelled or started. The attempts do not harm it. */
static void refusals(MPI_Comm comm)
{
    call_t *once = forms_make(comm, ALLGATHER, 6, false, false), *often = forms_make(comm, ALLTOALLV, 7, false, false);
    int counts[FORMS_RANKS] = {0, -1};
    MPI_Errhandler handler;
    MPI_Request none;

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    forms_init(often, comm);
    for (int i = 0; i < 3; i++) {
        forms_fill(once, i);
        forms_fill(often, i + 10);
        before();
        forms_post(once, comm);
        MPI_Start(&often->request);
        if (rank < nranks - 1) {
            VERIFY(MPI_ERR_REQUEST == class_of(MPI_Request_free(&once->request)));
            VERIFY(MPI_ERR_REQUEST == class_of(MPI_Cancel(&once->request)));
            VERIFY(MPI_ERR_REQUEST == class_of(MPI_Request_free(&often->request)));
            VERIFY(MPI_ERR_REQUEST == class_of(MPI_Cancel(&often->request)));
            VERIFY(MPI_ERR_REQUEST == class_of(MPI_Start(&once->request)));
            VERIFY(aside || MPI_ERR_REQUEST == class_of(MPI_Start(&often->request)));
        }
        after();
        MPI_Wait(&once->request, MPI_STATUS_IGNORE);
        MPI_Wait(&often->request, MPI_STATUS_IGNORE);
        VERIFY(forms_right(once) && forms_right(often));
        /* waiting for a request that has not been started again */
        VERIFY(MPI_SUCCESS == MPI_Wait(&often->request, MPI_STATUS_IGNORE));
    }
    VERIFY(MPI_SUCCESS == MPI_Request_free(&often->request));

    /* Open MPI itself does not notice these. */
    VERIFY(MPI_ERR_COUNT == class_of(MPI_Allgatherv(NULL, 0, MPI_INT, once->recv, counts, counts, MPI_INT, comm)));
    VERIFY(MPI_ERR_COUNT ==
           class_of(MPI_Iallgatherv(NULL, 0, MPI_INT, once->recv, counts, counts, MPI_INT, comm, &none)));
    VERIFY(MPI_ERR_COUNT == class_of(PERSISTENT(Allgatherv)(NULL, 0, MPI_INT, once->recv, counts, counts, MPI_INT, comm,
                                                            MPI_INFO_NULL, &none)));
    forms_free(once);
    forms_free(often);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
}

/* A communicator is freed while a call is under way on it, and before its persistent request is freed. */
static void outlive(MPI_Comm comm)
{
    MPI_Comm copy;

    for (int i = 0; i < 2 * OPS; i++) {
        call_t *once = forms_make(comm, (op_t)(i % OPS), 2000, i < OPS, true);
        call_t *often = forms_make(comm, (op_t)(i % OPS), 20, false, false);

        MPI_Comm_dup(comm, &copy);
        forms_fill(once, i);
        forms_fill(often, i + 1);
        if (i >= OPS) {
            forms_init(often, copy);
        }
        before();
        forms_post(once, copy);
        forms_free_type(once);
        MPI_Comm_free(&copy);
        after();
        finish(once);
        if (i >= OPS) {
            MPI_Start(&often->request);
            MPI_Wait(&often->request, MPI_STATUS_IGNORE);
            VERIFY(forms_right(often));
            MPI_Request_free(&often->request);
        }
        forms_free(often);
    }
}

/* A call that moves nothing completes at once, although no other rank may ever enter it. */
static void empty(MPI_Comm comm)
{
    for (int i = 0; i < 2 * OPS; i++) {
        call_t *call = forms_make(comm, (op_t)(i % OPS), 0, i >= OPS && may_be_in_place((op_t)(i % OPS)), false);

        forms_fill(call, i);
        forms_init(call, comm);
        for (int start = 0; start < 2; start++) {
            MPI_Start(&call->request);
            MPI_Wait(&call->request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&call->request);
        forms_post(call, comm);
        MPI_Wait(&call->request, MPI_STATUS_IGNORE);
        forms_run(call, comm);
        finish(call);
    }
}

/* The performance variable that counts the turns of our progress callback. */
static MPI_T_pvar_session session;
static MPI_T_pvar_handle turns_handle;

static unsigned long long turns(void)
{
    unsigned long long value = 0;

    VERIFY(MPI_SUCCESS == MPI_T_pvar_read(session, turns_handle, &value));
    return value;
}

/* Turns of coll/dma's callback in many turns of Open MPI's progress. */
static unsigned long long idle_turns(void)
{
    unsigned long long start = turns();
    int flag;

    for (int i = 0; i < TURNS; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, side, &flag, MPI_STATUS_IGNORE);
    }
    return turns() - start;
}

/* After some time there are none. In some pmls, not every probe is a turn. */
static bool comes_to_rest(void)
{
    for (int i = 0; i < TURNS; i++) {
        if (0 == idle_turns()) {
            return true;
        }
    }
    return false;
}

/* coll/dma's progress callback runs while a call is under way, and not much longer. */
static void quiet(MPI_Comm comm)
{
    call_t *call = forms_make(comm, ALLGATHER, 4, false, false);
    int provided, index, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_SUCCESS != MPI_T_pvar_get_index("coll_dma_progress_turns", MPI_T_PVAR_CLASS_COUNTER, &index)) {
        VERIFY(!"the performance variable coll_dma_progress_turns");
        goto out;
    }
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, NULL, &turns_handle, &count);
    for (int i = 0; i < 3; i++) {
        VERIFY(comes_to_rest());
        forms_fill(call, i);
        before();
        forms_post(call, comm);
        if (rank < nranks - 1) {
            VERIFY(idle_turns() > 0);
        }
        after();
        MPI_Wait(&call->request, MPI_STATUS_IGNORE);
        VERIFY(forms_right(call));
        VERIFY(idle_turns() < TURNS / 2);
    }
    VERIFY(comes_to_rest());
    MPI_T_pvar_handle_free(session, &turns_handle);
    MPI_T_pvar_session_free(&session);
out:
    MPI_T_finalize();
    forms_free(call);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(MPI_Comm comm);
    } tests[] = {
        {"burst", burst},     {"mixed", mixed}, {"persistent", persistent},
        {"crossed", crossed}, {"serve", serve}, {"refusals", refusals},
        {"outlive", outlive}, {"empty", empty}, {"quiet", quiet},
    };
    int outcome;
    MPI_Comm comm;

    aside = argc > 1 && 0 == strcmp(argv[1], "--aside");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks < 2 || nranks > FORMS_RANKS) {
        fprintf(stderr, "match: wants 2 to %d ranks\n", FORMS_RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &side);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        verify_where = tests[i].name;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        tests[i].run(comm);
        tests[i].run(comm);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&side);

    outcome = verify_summary("match", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
