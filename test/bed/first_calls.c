/*
 * The first calls of communicators over several nodes; except for "few", with coll_dma_net_first_calls 1:
 *
 *     first_calls once [ucx]   one all-gather, then another one: what is counted, and when UCX is loaded. With "ucx" something
 *                              else may have loaded it before
 *     first_calls forms [-d]   every operation in every form as the first call of a communicator, and calls behind it. Only if
 *                              the first one blocks, the next component carries it out. -d: in device memory
 *     first_calls comms        communicators of some ranks, of one node and of all, several at once; freed before their set-up
 *     first_calls fails        two ranks: one gets an error from the next component in a first call, and the calls behind it work
 *     first_calls few [ucx]    with the default: communicators are split and make few calls without UCX. "ucx": as above
 *
 * Every int of every receive buffer is checked. The exit status is 1 if something is not as it should be.
 */
#include <unistd.h>

#include "../device/hip.h"
#include "../device/pvar.h"
#include "../mpi/forms.h"

enum { INTS = 7, KINDS = 5 };

static MPI_T_pvar_session session;

/* What this process has counted. */
enum { LEFT, BELOW, MESSAGES, NODES, SETUPS };
static MPI_T_pvar_handle handles[KINDS];
static long before[KINDS];

static void open_counters(void)
{
    static const char *const names[KINDS] = {[LEFT] = "coll_dma_reason_net_first_calls",
                                             [BELOW] = "coll_dma_calls_below",
                                             [MESSAGES] = "coll_dma_calls_messages",
                                             [NODES] = "coll_dma_calls_nodes",
                                             [SETUPS] = "coll_dma_setups"};
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    for (int k = 0; k < KINDS; k++) {
        handles[k] = pvar_open(session, names[k], MPI_T_PVAR_CLASS_COUNTER);
    }
}

/* How much has been counted since the last look. */
static long counted(int kind)
{
    long now = pvar_value(session, handles[kind]), more = now - before[kind];

    before[kind] = now;
    return more;
}

static void look(long *counts)
{
    for (int k = 0; k < KINDS; k++) {
        counts[k] = counted(k);
    }
}

static bool has_ucx(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    bool found = false;

    while (maps && fgets(line, sizeof(line), maps)) {
        found = found || strstr(line, "/libucp.so");
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

/* ---- calls, in host or device memory ---- */

typedef struct buffers {
    int *send, *recv; /* of the call on the host, while it has others on the device; else NULL */
} buffers_t;

static bool on_device;

static void move(call_t *call, buffers_t *host)
{
    size_t bytes = (size_t)call->room * sizeof(int);

    *host = (buffers_t){NULL, NULL};
    if (on_device) {
        *host = (buffers_t){call->send, call->recv};
        call->send = hip_take(bytes);
        call->recv = hip_take(bytes);
        hip_copy(call->send, host->send, bytes);
        hip_copy(call->recv, host->recv, bytes);
    }
}

static void move_back(call_t *call, const buffers_t *host)
{
    if (host->send) {
        hip_copy(host->recv, call->recv, (size_t)call->room * sizeof(int));
        hip_must("hipFree", hip.hipFree(call->send));
        hip_must("hipFree", hip.hipFree(call->recv));
        call->send = host->send;
        call->recv = host->recv;
    }
}

typedef struct flight {
    call_t *call;
    buffers_t host;
} flight_t;

static flight_t begin(MPI_Comm comm, op_t op, bool blocking, bool in_place, bool spaced, int salt)
{
    flight_t f = {.call = forms_make(comm, op, INTS, in_place, spaced)};

    forms_fill(f.call, salt);
    move(f.call, &f.host);
    verify_where = op_names[op];
    VERIFY(MPI_SUCCESS == (blocking ? forms_run(f.call, comm) : forms_post(f.call, comm)));
    return f;
}

static void end(flight_t *f)
{
    VERIFY(MPI_SUCCESS == MPI_Wait(&f->call->request, MPI_STATUS_IGNORE));
    move_back(f->call, &f->host);
    verify_where = op_names[f->call->op];
    VERIFY(forms_right(f->call));
    forms_free(f->call);
}

/* ---- one all-gather, and another ---- */

static void once(bool ucx_before)
{
    flight_t f;
    long counts[KINDS];

    VERIFY(ucx_before || !has_ucx());
    look(counts);
    f = begin(MPI_COMM_WORLD, ALLGATHER, true, false, false, 1);
    end(&f);
    look(counts);
    VERIFY(1 == counts[LEFT] && 1 == counts[BELOW] && 0 == counts[NODES] && 0 == counts[SETUPS]);
    VERIFY(ucx_before || !has_ucx());
    f = begin(MPI_COMM_WORLD, ALLGATHER, true, false, false, 2);
    end(&f);
    look(counts);
    VERIFY(0 == counts[LEFT] && 0 == counts[BELOW] && 1 == counts[NODES] && 0 < counts[SETUPS]);
    VERIFY(has_ucx());
}

/* ---- every form ---- */

/* A first call and two behind it; the first two are open together if they do not block. Bits of `form`: the first call is in
 * place, has a derived type, blocks; the second blocks. */
static void three_calls(op_t op, int form)
{
    bool in_place = form & 1, spaced = form & 2, blocking = form & 4;
    flight_t first, second, third;
    long counts[KINDS];
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    look(counts);
    first = begin(comm, op, blocking, in_place, spaced, form);
    VERIFY((blocking ? 1 : 0) == counted(LEFT));
    if (form & 16) {
        end(&first);
    }
    second = begin(comm, (op + 1) % OPS, form & 8, in_place, false, form + 100);
    third = begin(comm, (op + 2) % OPS, false, false, spaced, form + 200);
    if (form & 32) {
        MPI_Comm_free(&comm); /* its requests keep it */
    }
    end(&third);
    end(&second);
    if (!(form & 16)) {
        end(&first);
    }
    look(counts);
    VERIFY(0 == counts[LEFT] && 0 < counts[SETUPS] && (blocking ? 1 : 0) == counts[BELOW] && 0 == counts[MESSAGES] &&
           (blocking ? 2 : 3) == counts[NODES]);
    if (!(form & 32)) {
        MPI_Comm_free(&comm);
    }
}

/* Persistent calls begin the set-up: as the first call of a communicator, and behind another one. */
static void persistent(op_t op, bool behind)
{
    call_t *call;
    flight_t first = {0};
    buffers_t host;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    counted(LEFT);
    if (behind) {
        first = begin(comm, op, true, false, false, 5);
    }
    call = forms_make(comm, op, INTS, false, false);
    forms_fill(call, 6);
    move(call, &host);
    VERIFY(MPI_SUCCESS == forms_init(call, comm));
    VERIFY((behind ? 1 : 0) == counted(LEFT));
    MPI_Start(&call->request);
    MPI_Wait(&call->request, MPI_STATUS_IGNORE);
    MPI_Request_free(&call->request);
    move_back(call, &host);
    VERIFY(forms_right(call));
    forms_free(call);
    if (behind) {
        end(&first);
    }
    MPI_Comm_free(&comm);
}

static void forms(void)
{
    for (op_t op = 0; op < OPS; op++) {
        for (int form = on_device ? (int)op : 0; form < 64; form += on_device ? 13 : 1) {
            three_calls(op, form);
        }
        persistent(op, false);
        persistent(op, true);
    }
}

/* ---- communicators ---- */

enum { COMMS = 6 };

/* Communicators with ranks of several nodes have first calls, and those of one node have none. */
static void several_comms(int rank, int round)
{
    MPI_Comm comms[COMMS], node;
    flight_t first[COMMS], second[COMMS], inside;
    long left;

    for (int c = 0; c < COMMS; c++) {
        if (c & 1) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
        } else {
            MPI_Comm_split(MPI_COMM_WORLD, rank & 1, c & 2 ? rank : -rank, &comms[c]);
        }
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    counted(LEFT);
    for (int c = 0; c < COMMS; c++) {
        first[c] = begin(comms[c], (op_t)(c % OPS), true, false, false, round + c);
    }
    VERIFY(COMMS == counted(LEFT));
    inside = begin(node, ALLTOALL, false, false, false, round);
    for (int c = 0; c < COMMS / 2; c++) { /* the others end before their set-up */
        second[c] = begin(comms[c], (op_t)((c + round) % OPS), false, false, false, round + c + 50);
    }
    end(&inside);
    left = counted(LEFT);
    VERIFY(0 == left);
    for (int c = COMMS; c-- > 0;) {
        if (c >= COMMS / 2) {
            MPI_Comm_free(&comms[c]);
        } else {
            end(&second[c]);
        }
        end(&first[c]);
    }
    for (int c = 0; c < COMMS / 2; c++) {
        MPI_Comm_free(&comms[c]);
    }
    MPI_Comm_free(&node);
}

/* ---- an error in a first call ---- */

/* Rank 1 has no room for what it receives. */
static void fails(int rank)
{
    int buffer[2 * INTS] = {0}, rc, class;
    long counts[KINDS];
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    look(counts);
    rc = MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, buffer, rank ? INTS / 2 : INTS, MPI_INT, comm);
    MPI_Error_class(rc, &class);
    VERIFY((rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS) == class);
    for (int i = 0; i < OPS; i++) {
        flight_t f = begin(comm, (op_t)i, i != 1, false, false, i);

        end(&f);
    }
    look(counts);
    VERIFY(1 == counts[LEFT] && 1 == counts[BELOW] && OPS == counts[NODES]);
    MPI_Comm_free(&comm);
}

/* ---- the default ---- */

enum { SPLITS = 10, BY_DEFAULT = 64 };

static void gather_once(MPI_Comm comm, int salt)
{
    flight_t f = begin(comm, ALLGATHER, true, false, false, salt);

    end(&f);
}

static void few(int rank, bool ucx_before)
{
    long counts[KINDS];

    look(counts);
    for (int i = 0; i < SPLITS; i++) {
        MPI_Comm split;

        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &split); /* an all-gather on MPI_COMM_WORLD */
        gather_once(split, i);
        MPI_Comm_free(&split);
    }
    look(counts);
    VERIFY(2 * SPLITS == counts[LEFT] && 0 == counts[SETUPS] && (ucx_before || !has_ucx()));
    for (int i = 0; i < BY_DEFAULT - SPLITS; i++) {
        gather_once(MPI_COMM_WORLD, i);
    }
    look(counts);
    VERIFY(BY_DEFAULT - SPLITS == counts[LEFT] && 0 == counts[SETUPS] && (ucx_before || !has_ucx()));
    gather_once(MPI_COMM_WORLD, 1);
    look(counts);
    VERIFY(0 == counts[LEFT] && 1 == counts[NODES] && 0 < counts[SETUPS]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rank, devices, outcome;

    on_device = argc > 2 && 0 == strcmp(argv[2], "-d");
    if (on_device && !hip_open(&devices)) {
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    open_counters();
    if (on_device) {
        hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    }
    if (0 == strcmp(what, "once")) {
        once(argc > 2);
    } else if (0 == strcmp(what, "forms")) {
        forms();
    } else if (0 == strcmp(what, "fails")) {
        fails(rank);
    } else if (0 == strcmp(what, "few")) {
        few(rank, argc > 2);
    } else {
        MPI_Comm split;

        counted(LEFT);
        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &split); /* an all-gather of Open MPI's own counts */
        VERIFY(1 == counted(LEFT));
        MPI_Comm_free(&split);
        for (int round = 0; round < 5; round++) {
            several_comms(rank, round);
        }
    }
    verify_where = "";
    outcome = verify_summary(what, MPI_COMM_WORLD);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return outcome;
}
