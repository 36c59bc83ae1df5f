/*
 * events: the events of MPI_T that coll/dma raises, against its counters: as many begins and ends as calls of each form and
 * operation, with the right bytes, in order, and none when nobody listens any more. Status 77: this Open MPI has no events.
 */
#include "../mpi/verify.h"

#if HAVE_EVENTS
#include <string.h>

enum { FORMS = 3, OPERATIONS = 4, MOST = 8, CALLS = 7 };

typedef struct call {
    unsigned long long communicator, sequence, bytes, predicted_ns, ns;
    int operation, form, variant, status;
} call_t;

/* What listeners have seen. */
typedef struct seen {
    int calls[FORMS][OPERATIONS];
    unsigned long long bytes;
    int wrong, predicted;
    call_t last;
} seen_t;

static seen_t begins, ends;
static unsigned long long last_bytes;
static int ranks;

static void note(MPI_T_event_instance event, void *seen_by, int is_end)
{
    seen_t *seen = seen_by;
    call_t call;

    if (MPI_T_event_copy(event, &call) != MPI_SUCCESS || call.form < 0 || call.form >= FORMS || call.operation < 0 ||
        call.operation >= OPERATIONS || call.status || !call.communicator || (call.ns != 0) != is_end ||
        call.bytes != last_bytes ||
        (is_end && ((call.variant < 0) != (ranks == 1) || call.sequence != begins.last.sequence))) {
        seen->wrong++;
        return;
    }
    seen->calls[call.form][call.operation]++;
    seen->bytes += call.bytes;
    seen->predicted += call.predicted_ns > 0;
    seen->last = call;
}

static void at_begin(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg)
{
    (void)handle, (void)safety;
    note(event, arg, 0);
}

static void at_end(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg)
{
    (void)handle, (void)safety;
    note(event, arg, 1);
}

/* Open MPI and the standard differ in whether this type is a pointer. */
typedef void listener_t(MPI_T_event_instance event, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *arg);

static MPI_T_event_registration listen_to(const char *name, listener_t *listener, void *arg)
{
    MPI_T_event_registration handle = NULL;
    int index = -1;

    VERIFY(MPI_T_event_get_index(name, &index) == MPI_SUCCESS);
    VERIFY(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &handle) == MPI_SUCCESS);
    VERIFY(MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, arg, listener) ==
           MPI_SUCCESS);
    return handle;
}

/* ---- the counters ---- */

static MPI_T_pvar_session session;

static MPI_T_pvar_handle counter(const char *form, const char *operation)
{
    MPI_T_pvar_handle made = MPI_T_PVAR_HANDLE_NULL;
    char name[128];
    int index, count;

    snprintf(name, sizeof(name), "coll_dma_calls_%s_%s", form, operation);
    VERIFY(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    VERIFY(MPI_T_pvar_handle_alloc(session, index, NULL, &made, &count) == MPI_SUCCESS);
    return made;
}

/* ---- calls ---- */

static void calls(MPI_Comm comm)
{
    static char send[MOST * 1000], recv[MOST * 1000];
    MPI_Request request;

    for (int i = 0; i < CALLS; i++) {
        last_bytes = (unsigned long long)(10 * i + 8);
        MPI_Allgather(send, 10 * i + 8, MPI_BYTE, recv, 10 * i + 8, MPI_BYTE, comm);
        MPI_Alltoall(send, 10 * i + 8, MPI_BYTE, recv, 10 * i + 8, MPI_BYTE, comm);
        MPI_Iallgather(send, 10 * i + 8, MPI_BYTE, recv, 10 * i + 8, MPI_BYTE, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    last_bytes = 500;
    PERSISTENT(Alltoall)(send, 500, MPI_BYTE, recv, 500, MPI_BYTE, comm, MPI_INFO_NULL, &request);
    for (int i = 0; i < CALLS; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    static const char *const forms[] = {"blocking", "nonblocking", "persistent"};
    static const char *const operations[] = {"allgather", "allgatherv", "alltoall", "alltoallv"};
    MPI_T_pvar_handle counters[FORMS][OPERATIONS];
    MPI_T_event_registration begin, end;
    MPI_Comm comm;
    int provided, failed, all = 0;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_T_pvar_session_create(&session);
    for (int f = 0; f < FORMS; f++) {
        for (int c = 0; c < OPERATIONS; c++) {
            counters[f][c] = counter(forms[f], operations[c]);
        }
    }
    begin = listen_to("ompi.coll_dma_call_begin", at_begin, &begins);
    end = listen_to("ompi.coll_dma_call_end", at_end, &ends);
    calls(comm);
    calls(MPI_COMM_WORLD);
    for (int f = 0; f < FORMS; f++) {
        for (int c = 0; c < OPERATIONS; c++) {
            unsigned long long value = 0;

            MPI_T_pvar_read(session, counters[f][c], &value);
            verify_where = forms[f];
            VERIFY(begins.calls[f][c] == (int)value);
            VERIFY(ends.calls[f][c] == (int)value);
            all += ends.calls[f][c];
        }
    }
    VERIFY(all == 2 * 4 * CALLS);
    VERIFY(begins.wrong == 0);
    VERIFY(ends.wrong == 0);
    VERIFY(ends.predicted == (ranks > 1 ? all : 0)); /* one rank copies its block: there is no choice */
    VERIFY((begins.predicted > 0) == (ranks > 1));   /* of calls whose plan is known, because an earlier call had it */
    VERIFY(begins.bytes == ends.bytes);
    MPI_T_event_handle_free(begin, NULL, NULL);
    MPI_T_event_handle_free(end, NULL, NULL);
    calls(comm);
    VERIFY(ends.calls[0][0] + ends.calls[0][2] == 4 * CALLS); /* nobody listens any more */
    MPI_Comm_free(&comm);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    failed = verify_summary("events", MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}

#else

int main(void)
{
    return 77;
}

#endif
