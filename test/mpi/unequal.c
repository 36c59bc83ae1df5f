/*
 * unequal [OURS THEIRS]: ranks that disagree about the bytes of a call, in every operation and form, or about the operation;
 * or a rank whose own call sends and receives different numbers. Ranks that can notice it get an error of class
 * MPI_ERR_TRUNCATE or MPI_ERR_OTHER, at the call or at the wait. The others get the right data or an error, too. No rank
 * hangs, no byte outside of the receive buffers is written, all later calls on that communicator fail on every rank, and
 * other communicators still work. Stock Open MPI promises none of this.
 *
 * Tries many sizes, or only OURS bytes against THEIRS. Rank 0 ends with "N passed, N failed".
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

enum { HANG_SECONDS = 300 }; /* of one test, however busy the machine is */
enum { GUARD = 4096, GUARD_BYTE = 0x5C, MOST_RANKS = 16 };

typedef enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, OPS } op_t;
typedef enum { BLOCKING, NONBLOCKING, PERSISTENT_FORM, FORMS } form_t;
static const char *const op_names[] = {"allgather", "allgatherv", "alltoall", "alltoallv"};
static const char *const form_names[] = {"blocking", "non-blocking", "persistent"};

static int rank, size, passed, failed;
static bool apart; /* on several nodes, an error reaches ranks that have not come to the end of the call before */
static char test_name[200];

/* How the result of a request was asked for last. */
enum { WAIT, WAITALL, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME, WAYS };
static const char *const way_names[] = {"Wait", "Waitall", "Waitany", "Waitsome",
                                        "Test", "Testall", "Testany", "Testsome"};
static unsigned way;

/* The call as this rank sees it: bytes to and from every rank. In an all-gather, to all the same. */
typedef struct {
    op_t op;
    form_t form;
    int to[MOST_RANKS], from[MOST_RANKS];
} belief_t;

typedef struct {
    unsigned char *send, *memory, *recv;
    int to_at[MOST_RANKS], from_at[MOST_RANKS], room;
} buffers_t;

static bool is_failure(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER;
}

static void problem(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "unequal: rank %d of %d, %s: %s (%s; last asked with MPI_%s)\n", rank, size, test_name, what, text,
            way_names[way]);
}

static bool gathers(op_t op)
{
    return op == ALLGATHER || op == ALLGATHERV;
}

static int value(op_t op, int source, int target)
{
    return 1 + source * MOST_RANKS + (gathers(op) ? 0 : target);
}

static void make_buffers(buffers_t *b, const belief_t *belief)
{
    int sent = 0;
    b->room = 0;
    for (int r = 0; r < size; r++) {
        b->to_at[r] = sent;
        b->from_at[r] = b->room;
        sent += belief->to[r];
        b->room += belief->from[r];
    }
    b->send = malloc((size_t)sent + 1);
    for (int r = 0; r < size; r++) {
        memset(b->send + b->to_at[r], value(belief->op, rank, r), (size_t)belief->to[r]);
    }
    b->memory = malloc((size_t)b->room + 2 * GUARD);
    memset(b->memory, GUARD_BYTE, (size_t)b->room + 2 * GUARD);
    b->recv = b->memory + GUARD;
}

static bool whole(const buffers_t *b)
{
    for (int i = 0; i < GUARD; i++) {
        if (b->memory[i] != GUARD_BYTE || b->recv[b->room + i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

static bool received(const buffers_t *b, const belief_t *belief)
{
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < belief->from[r]; i++) {
            if (b->recv[b->from_at[r] + i] != value(belief->op, r, rank)) {
                return false;
            }
        }
    }
    return true;
}

#define CALL(name, iname, ...)                                                                                         \
    (belief->form == BLOCKING      ? MPI_##name(__VA_ARGS__, comm)                                                     \
     : belief->form == NONBLOCKING ? MPI_##iname(__VA_ARGS__, comm, request)                                           \
                                   : PERSISTENT(name)(__VA_ARGS__, comm, MPI_INFO_NULL, request))

static int post(const belief_t *belief, const buffers_t *b, MPI_Comm comm, MPI_Request *request)
{
    switch (belief->op) {
    case ALLGATHER:
        return CALL(Allgather, Iallgather, b->send, belief->to[0], MPI_BYTE, b->recv, belief->from[0], MPI_BYTE);
    case ALLGATHERV:
        return CALL(Allgatherv, Iallgatherv, b->send, belief->to[0], MPI_BYTE, b->recv, belief->from, b->from_at,
                    MPI_BYTE);
    case ALLTOALL:
        return CALL(Alltoall, Ialltoall, b->send, belief->to[0], MPI_BYTE, b->recv, belief->from[0], MPI_BYTE);
    default:
        return CALL(Alltoallv, Ialltoallv, b->send, belief->to, b->to_at, MPI_BYTE, b->recv, belief->from, b->from_at,
                    MPI_BYTE);
    }
}

/* The result of a request, asked for in another way each time. All ways must report an error. */
static int result_of(MPI_Request *request)
{
    static unsigned turn;
    MPI_Status status = {.MPI_ERROR = MPI_SUCCESS}, *told = turn / WAYS % 2 ? MPI_STATUS_IGNORE : &status;
    int code = MPI_SUCCESS, at, done = 0;
    way = turn++ % WAYS;
    if (way == WAITALL && !HAVE_WAITALL_ERRORS) {
        way = WAIT;
    }
    while (code == MPI_SUCCESS && !done) {
        switch (way) {
        case TEST:
            code = MPI_Test(request, &done, told);
            break;
        case TESTALL:
            code = MPI_Testall(1, request, &done, told);
            break;
        case TESTANY:
            code = MPI_Testany(1, request, &at, &done, told);
            break;
        case TESTSOME:
            code = MPI_Testsome(1, request, &done, &at, told);
            break;
        default:
            code = way == WAITALL    ? MPI_Waitall(1, request, told)
                   : way == WAITANY  ? MPI_Waitany(1, request, &at, told)
                   : way == WAITSOME ? MPI_Waitsome(1, request, &done, &at, told)
                                     : MPI_Wait(request, told);
            done = 1;
        }
    }
    if (code == MPI_ERR_IN_STATUS) {
        code = told ? status.MPI_ERROR : MPI_ERR_OTHER;
    }
    return code != MPI_SUCCESS ? code : status.MPI_ERROR;
}

/* One call in the form of the belief. A persistent one is started twice, and *later is the result of the second start. */
static bool call(const belief_t *belief, MPI_Comm comm, int *code, int *later)
{
    buffers_t b;
    MPI_Request request = MPI_REQUEST_NULL;
    make_buffers(&b, belief);
    *code = post(belief, &b, comm, &request);
    *later = MPI_SUCCESS;
    if (*code == MPI_SUCCESS && belief->form == PERSISTENT_FORM) {
        *code = MPI_Start(&request);
    }
    if (*code == MPI_SUCCESS && belief->form != BLOCKING) {
        *code = result_of(&request);
    }
    bool good = *code != MPI_SUCCESS || received(&b, belief);
    if (!good) {
        problem("wrong data", *code);
    }
    if (request != MPI_REQUEST_NULL) {
        *later = MPI_Start(&request);
        *later = *later == MPI_SUCCESS ? result_of(&request) : *later;
        /* Open MPI frees a request that has failed. */
        int freed = request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Request_free(&request);
        if (freed != MPI_SUCCESS) {
            problem("the request cannot be freed", freed);
            good = false;
        }
    }
    if (!whole(&b)) {
        problem("wrote outside the buffer", *code);
        good = false;
    }
    free(b.send);
    free(b.memory);
    return good;
}

static void agree(belief_t *belief, op_t op, form_t form, int bytes)
{
    belief->op = op;
    belief->form = form;
    for (int r = 0; r < size; r++) {
        belief->to[r] = belief->from[r] = bytes;
    }
}

/* Rank `odd` has other sizes than the others. Returns whether this rank can notice that. */
static bool disagree(belief_t *belief, int odd, int theirs)
{
    int victim = (odd + 1) % size;
    switch (belief->op) {
    case ALLGATHER:
    case ALLTOALL:
        if (rank == odd) {
            agree(belief, belief->op, belief->form, theirs);
        }
        return true;
    case ALLGATHERV: /* about its own block */
        if (rank == odd) {
            for (int r = 0; r < size; r++) {
                belief->to[r] = theirs;
            }
            belief->from[odd] = theirs;
        }
        return rank != odd;
    default: /* about one of its blocks */
        if (rank == odd) {
            belief->to[victim] = theirs;
        }
        return rank == victim;
    }
}

/* The communicator must not work any more, in any form. */
static bool is_dead(MPI_Comm comm, const belief_t *first)
{
    belief_t belief;
    int code, later;
    bool good = true;
    for (form_t form = BLOCKING; form < FORMS; form++) {
        agree(&belief, (op_t)((first->op + form) % OPS), form, first->to[0]);
        if (!call(&belief, comm, &code, &later) || (form != PERSISTENT_FORM && !is_failure(code))) {
            problem("a later call works", code);
            good = false;
        }
        if (form == NONBLOCKING) {
            break; /* a new persistent call may have memory of its own */
        }
    }
    return good;
}

static bool is_alive(MPI_Comm comm)
{
    belief_t belief;
    int code, later;
    agree(&belief, ALLGATHER, BLOCKING, 8);
    if (!call(&belief, comm, &code, &later) || code != MPI_SUCCESS) {
        problem("another communicator does not work", code);
        return false;
    }
    return true;
}

/* `warm` calls without errors, then the call in question. */
static bool unequal(MPI_Comm comm, belief_t *belief, int warm, bool sees)
{
    belief_t equal;
    int code, later;
    bool good = true;
    for (int i = 0; i < warm; i++) {
        agree(&equal, ALLTOALL, i % 2 ? BLOCKING : NONBLOCKING, 40);
        if (!call(&equal, comm, &code, &later) || code != MPI_SUCCESS) {
            problem("fails before", code);
            good = false;
        }
    }
    if (apart) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    good = call(belief, comm, &code, &later) && good;
    if (sees ? !is_failure(code) : code != MPI_SUCCESS && !is_failure(code)) {
        problem("no error", code);
        good = false;
    }
    if (belief->form == PERSISTENT_FORM) {
        /* each has memory of its own: only this request must fail */
        if (!is_failure(code) && !is_failure(later)) {
            problem("a persistent request works again", later);
            good = false;
        }
        return good;
    }
    return is_dead(comm, belief) && good;
}

static void on_alarm(int signal)
{
    (void)signal;
    char line[300];
    int n = snprintf(line, sizeof(line), "unequal: rank %d of %d hangs: %s\n", rank, size, test_name);
    if (write(STDERR_FILENO, line, (size_t)n) > 0) {
        sleep(1);
    }
    _exit(1);
}

static void run(belief_t *belief, int warm, bool sees)
{
    MPI_Comm comm;
    alarm(HANG_SECONDS);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int good = unequal(comm, belief, warm, sees);
    good = is_alive(MPI_COMM_WORLD) && good;
    MPI_Comm_free(&comm);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    passed += good;
    failed += !good;
}

static void bytes_differ(op_t op, form_t form, int ours, int theirs, int odd, int warm)
{
    belief_t belief;
    snprintf(test_name, sizeof(test_name), "%s %s of %d bytes, but %d on rank %d, after %d calls", form_names[form],
             op_names[op], ours, theirs, odd, warm);
    agree(&belief, op, form, ours);
    bool sees = disagree(&belief, odd, theirs);
    run(&belief, warm, sees);
}

static void operations_differ(op_t op, op_t other, form_t form, int bytes)
{
    belief_t belief;
    snprintf(test_name, sizeof(test_name), "%s %s of %d bytes, but %s on rank 1", form_names[form], op_names[op], bytes,
             op_names[other]);
    agree(&belief, rank == 1 ? other : op, form, bytes);
    run(&belief, 1, true);
}

/* The call of rank `odd` sends itself other bytes than it receives. So it never posts the call, which may be the
 * communicator's first. All ranks must be told. `early`: the rank also frees the communicator before it asks for the
 * result of the call. */
static void wrong_in_itself(op_t op, form_t form, int odd, int warm, bool early)
{
    belief_t belief;
    snprintf(test_name, sizeof(test_name), "%s %s, which rank %d gets wrong, after %d calls%s", form_names[form],
             op_names[op], odd, warm, early ? ", freed at once" : "");
    agree(&belief, op, form, 1000);
    for (int r = 0; rank == odd && r < size; r++) {
        belief.to[r] = 600;
    }
    if (!early) {
        run(&belief, warm, true);
        return;
    }
    MPI_Comm comm;
    MPI_Request request = MPI_REQUEST_NULL;
    buffers_t b;
    alarm(HANG_SECONDS);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    make_buffers(&b, &belief);
    int code = post(&belief, &b, comm, &request);
    MPI_Comm_free(&comm);
    if (code == MPI_SUCCESS) {
        code = result_of(&request);
    }
    int good = is_failure(code) && whole(&b);
    if (!good) {
        problem("no error, or wrote outside the buffer", code);
    }
    good = is_alive(MPI_COMM_WORLD) && good;
    free(b.send);
    free(b.memory);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    passed += good;
    failed += !good;
}

static bool on_several_nodes(void)
{
    MPI_Comm node;
    int here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    return here != size;
}

int main(int argc, char **argv)
{
    int pairs[][2] = {{8, 16},      {64, 32},     {16, 100},       {100, 4000},    {4000, 100},
                      {2000, 4000}, {64, 50000},  {50000, 64},     {50000, 60000}, {100000, 99999},
                      {8, 1000000}, {1000000, 8}, {300000, 400000}};
    size_t npairs = sizeof(pairs) / sizeof(pairs[0]);
    if (argc == 3) {
        npairs = 1;
        pairs[0][0] = atoi(argv[1]);
        pairs[0][1] = atoi(argv[2]);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    signal(SIGALRM, on_alarm);
    apart = on_several_nodes();
    for (form_t form = BLOCKING; form < FORMS; form++) {
        for (op_t op = ALLGATHER; op < OPS; op++) {
            for (size_t i = 0; i < npairs; i++) {
                int odd = (i + op) % 2 ? size - 1 : 0;
                bytes_differ(op, form, pairs[i][0], pairs[i][1], odd, (int)(i % 3));
            }
        }
        for (op_t op = ALLGATHER; argc != 3 && op < OPS; op++) {
            operations_differ(op, (op_t)((op + 1) % OPS), form, 24);
            operations_differ(op, (op_t)((op + 3) % OPS), form, 5000);
            operations_differ(op, (op_t)((op + 2) % OPS), form, 200000);
            for (int warm = 0; warm < 2 && gathers(op); warm++) { /* Open MPI itself refuses such an all-to-all */
                wrong_in_itself(op, form, op % 2 ? size - 1 : 0, warm, false);
            }
            if (form == NONBLOCKING && gathers(op)) {
                wrong_in_itself(op, form, op % 2 ? size - 1 : 0, 0, true);
            }
        }
    }
    if (rank == 0) {
        printf("%d passed, %d failed\n", passed, failed);
    }
    MPI_Finalize();
    return failed != 0;
}
