/*
 * sessions [PARTS]: one after the other (1), two at once (2), last one beside MPI_Init (i); all by default.
 *
 * Open MPI 5.0 and later close everything with the last session, and open it again with the next one. coll/dma must work
 * again then. Every form of a call, in sessions that follow each other, in two sessions at a time, and in one beside
 * MPI_Init.
 *
 * Open MPI 5.0.7 sometimes hangs where a session begins or ends, with and without coll/dma: a rank waits for PMIx, alone. A
 * rank that is there for too long says so and ends the job with status 75; with status 1 if a call of coll/dma is on the
 * stack.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../mpi/forms.h"

#if HAVE_SESSIONS

enum { CYCLES = 4, TOO_LONG = 60, DEPTH = 64 };

static const char *volatile setting_up;

static void hangs(int signal)
{
    void *frames[DEPTH];
    int depth = backtrace(frames, DEPTH);
    bool ours = false;
    Dl_info where;

    (void)signal;
    for (int i = 0; i < depth; i++) {
        ours = ours || (dladdr(frames[i], &where) && where.dli_fname && strstr(where.dli_fname, "mca_coll_dma"));
    }
    dprintf(STDOUT_FILENO, "sessions: %.*s hangs%s\n", (int)strcspn(setting_up, "("), setting_up,
            ours ? " in coll/dma" : " without coll/dma");
    _exit(ours ? 1 : 75);
}

/* Around Open MPI's own calls. */
#define SET_UP(call)                                                                                                   \
    do {                                                                                                               \
        setting_up = #call;                                                                                            \
        alarm(TOO_LONG);                                                                                               \
        call;                                                                                                          \
        alarm(0);                                                                                                      \
    } while (0)

/* Every form on a communicator of a session, and on a communicator that is made from it. */
static void use(MPI_Comm comm, int salt)
{
    MPI_Comm copy;

    for (op_t op = ALLGATHER; op < OPS; op++) {
        call_t *call = forms_make(comm, op, 100 + salt, false, salt % 2);

        forms_fill(call, salt);
        forms_run(call, comm);
        VERIFY(forms_right(call));
        forms_fill(call, salt + 1);
        forms_post(call, comm);
        MPI_Wait(&call->request, MPI_STATUS_IGNORE);
        VERIFY(forms_right(call));
        forms_init(call, comm);
        for (int start = 0; start < 2; start++) {
            forms_fill(call, salt + 2 + start);
            MPI_Start(&call->request);
            MPI_Wait(&call->request, MPI_STATUS_IGNORE);
            VERIFY(forms_right(call));
        }
        MPI_Request_free(&call->request);
        forms_free(call);
    }
    MPI_Comm_dup(comm, &copy);
    for (int round = 0; round < 2; round++) {
        call_t *call = forms_make(copy, ALLTOALL, 50, false, false);

        forms_fill(call, salt + round);
        forms_run(call, copy);
        VERIFY(forms_right(call));
        forms_free(call);
    }
    MPI_Comm_free(&copy);
}

static MPI_Comm open_session(MPI_Session *session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;

    SET_UP(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session));
    MPI_Group_from_session_pset(*session, "mpi://WORLD", &group);
    SET_UP(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    MPI_Group_free(&group);
    return comm;
}

static void close_session(MPI_Session *session, MPI_Comm *comm)
{
    MPI_Comm_free(comm);
    SET_UP(MPI_Session_finalize(session));
}

static void one_after_the_other(void)
{
    MPI_Session session;
    MPI_Comm comm;

    verify_where = "one after the other";
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        comm = open_session(&session, "first");
        use(comm, cycle);
        close_session(&session, &comm);
    }
}

static void two_at_once(void)
{
    MPI_Session session[2];
    MPI_Comm comm[2];

    verify_where = "two at once";
    comm[0] = open_session(&session[0], "first");
    comm[1] = open_session(&session[1], "second");
    use(comm[0], 10);
    use(comm[1], 11);
    close_session(&session[0], &comm[0]);
    use(comm[1], 12);
    close_session(&session[1], &comm[1]);
}

/* Also collects the results of the others. */
static int beside_init(int argc, char **argv)
{
    MPI_Session session;
    MPI_Comm comm;
    int outcome;

    verify_where = "beside MPI_Init";
    SET_UP(MPI_Init(&argc, &argv));
    use(MPI_COMM_WORLD, 20);
    comm = open_session(&session, "beside");
    use(comm, 21);
    close_session(&session, &comm);
    use(MPI_COMM_WORLD, 22);
    outcome = verify_summary("sessions", MPI_COMM_WORLD);
    SET_UP(MPI_Finalize());
    return outcome;
}

int main(int argc, char **argv)
{
    const char *parts = argc > 1 ? argv[1] : "12i";
    void *frame;

    /* Loads its libraries now, because a signal handler should not. */
    backtrace(&frame, 1);
    signal(SIGALRM, hangs);
    for (; *parts && 'i' != *parts; parts++) {
        if ('1' == *parts) {
            one_after_the_other();
        } else {
            two_at_once();
        }
    }
    return beside_init(argc, argv);
}

#else

int main(void)
{
    printf("this Open MPI has no sessions\n");
    return 77;
}

#endif
