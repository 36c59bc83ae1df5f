/*
 * lacking RANK FORM: this rank of MPI_COMM_WORLD has not loaded coll/dma; -1: all have. The first collective is of FORM: blocking,
 * nonblocking or persistent, or in-vain (see posted_in_vain). No call hangs: the communicators of that rank go to the next component, in all forms, and those of the
 * others do not. Non-blocking barriers of another component are between the calls, because the order of such calls gives them their
 * tags.
 */
#include "../device/pvar.h"
#include "forms.h"

enum { INTS = 5, FORM_BLOCKING, FORM_NONBLOCKING, FORM_PERSISTENT, PATIENCE = 120 };

static int rank, lacking;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle left, below;

static long read_counter(MPI_T_pvar_handle handle)
{
    return pvar_value(session, handle);
}

static void open_counters(void)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    left = pvar_open(session, "coll_dma_reason_rank_not_loaded", MPI_T_PVAR_CLASS_COUNTER);
    below = pvar_open(session, "coll_dma_calls_below", MPI_T_PVAR_CLASS_COUNTER);
}

static void complete(call_t *call, int form, int salt)
{
    for (int start = 0; start < (FORM_PERSISTENT == form ? 3 : 1); start++) {
        if (FORM_PERSISTENT == form) {
            forms_fill(call, salt + start);
            VERIFY(MPI_SUCCESS == MPI_Start(&call->request));
        }
        VERIFY(MPI_SUCCESS == MPI_Wait(&call->request, MPI_STATUS_IGNORE));
        VERIFY(forms_right(call));
    }
    if (FORM_PERSISTENT == form) {
        MPI_Request_free(&call->request);
    }
}

/* Two calls with barriers before, between and behind them. */
static void calls(MPI_Comm comm, int form, op_t op, int salt)
{
    MPI_Request barriers[3];
    call_t *two[2];

    verify_where = op_names[op];
    for (int i = 0; i < 2; i++) {
        two[i] = forms_make(comm, op, INTS, FORM_BLOCKING == form && i, FORM_PERSISTENT != form && i);
        forms_fill(two[i], salt + i);
        MPI_Ibarrier(comm, &barriers[i]);
        VERIFY(MPI_SUCCESS == (FORM_BLOCKING == form      ? forms_run(two[i], comm)
                               : FORM_NONBLOCKING == form ? forms_post(two[i], comm)
                                                          : forms_init(two[i], comm)));
    }
    MPI_Ibarrier(comm, &barriers[2]);
    for (int i = 1; i >= 0; i--) {
        complete(two[i], form, salt + i);
        forms_free(two[i]);
    }
    MPI_Waitall(3, barriers, MPI_STATUSES_IGNORE);
}

/* Every form as the first one of a communicator, and then the others. */
static void all_forms(MPI_Comm comm)
{
    for (int form = FORM_BLOCKING; form <= FORM_PERSISTENT; form++) {
        MPI_Comm dup;

        MPI_Comm_dup(comm, &dup);
        for (int next = 0; next < 3; next++) {
            for (op_t op = 0; op < OPS; op++) {
                calls(dup, FORM_BLOCKING + (form - FORM_BLOCKING + next) % 3, op, 10 * form + next);
            }
        }
        MPI_Comm_free(&dup);
    }
}

/* The first collective is posted where not all ranks can know that one has not loaded coll/dma: it fails on all others. */
static void posted_in_vain(void)
{
    MPI_Request request;
    int all[64], rc;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rc = MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &request);
    VERIFY(MPI_SUCCESS == rc && MPI_SUCCESS != MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    const char *name = getenv("OMPI_COMM_WORLD_RANK"), *form = argc > 2 ? argv[2] : "";
    bool is_one, some;
    MPI_Comm others;
    double began;
    long before;
    int status;

    lacking = argc > 1 ? atoi(argv[1]) : -1;
    is_one = name && atoi(name) == lacking;
    some = lacking >= 0;
    if (is_one) {
        setenv("OMPI_MCA_coll", "^dma", 1);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!is_one) {
        open_counters();
    }
    if ('i' == form[0]) {
        if (!is_one) {
            posted_in_vain();
        }
        status = verify_summary("lacking", MPI_COMM_WORLD);
        MPI_Finalize();
        return status;
    }
    began = MPI_Wtime();
    calls(MPI_COMM_WORLD,
          'b' == form[0]   ? FORM_BLOCKING
          : 'n' == form[0] ? FORM_NONBLOCKING
                           : FORM_PERSISTENT,
          ALLGATHER, 1);
    VERIFY(MPI_Wtime() - began < PATIENCE);
    VERIFY(is_one || (read_counter(left) == (some ? 1 : 0) && (read_counter(below) > 0) == (some && 'p' != form[0])));
    all_forms(MPI_COMM_WORLD);
    VERIFY(is_one || read_counter(left) == (some ? 4 : 0));
    /* the others have coll/dma */
    MPI_Comm_split(MPI_COMM_WORLD, is_one, 0, &others); /* calls an all-gather */
    before = is_one ? 0 : read_counter(below);
    all_forms(others);
    MPI_Comm_free(&others);
    VERIFY(is_one || (read_counter(left) == (some ? 4 : 0) && read_counter(below) == before));
    status = verify_summary("lacking", MPI_COMM_WORLD);
    MPI_Finalize();
    return status;
}
