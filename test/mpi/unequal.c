/*
 * unequal [OURS THEIRS]: ranks that call an all-gather, of any form, with different numbers of bytes. Every rank gets an
 * error of class MPI_ERR_TRUNCATE or MPI_ERR_OTHER, no byte outside the receive buffers is written, later calls on that
 * communicator fail as well (a persistent call fails by itself), and other communicators still work. Stock Open MPI
 * promises none of this.
 *
 * Tries many sizes, or only OURS bytes against THEIRS. Rank 0 ends with "N passed, N failed".
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

enum { GUARD = 4096, GUARD_BYTE = 0x5C };

typedef enum { BLOCKING, NONBLOCKING, PERSISTENT_FORM, FORMS } form_t;
static const char *const form_names[] = {"blocking", "non-blocking", "persistent"};

static int rank, size, passed, failed;

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
    fprintf(stderr, "unequal: rank %d of %d, %s: %s (%s)\n", rank, size, verify_where, what, text);
}

static int gather(form_t form, const void *send, void *recv, int bytes, MPI_Comm comm)
{
    MPI_Request request;
    int code, class;

    if (form == BLOCKING) {
        return MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm);
    }
    if (form == NONBLOCKING) {
        code = MPI_Iallgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
    code = PERSISTENT(Allgather)(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, comm, MPI_INFO_NULL, &request);
    for (int start = 0; code == MPI_SUCCESS && start < 2; start++) {
        MPI_Start(&request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    /* Open MPI frees a request with an error. */
    MPI_Error_class(code, &class);
    if (class == MPI_SUCCESS) {
        MPI_Request_free(&request);
    }
    return code;
}

/* An all-gather of `bytes`, whose buffers lie between guards. Returns whether the guards are whole; *code its result. */
static bool call(form_t form, MPI_Comm comm, int bytes, int *code)
{
    size_t room = (size_t)bytes * (size_t)size;
    unsigned char *send = malloc((size_t)bytes + 1), *recv = malloc(room + 2 * GUARD);
    memset(send, rank + 1, (size_t)bytes);
    memset(recv, GUARD_BYTE, room + 2 * GUARD);
    *code = gather(form, send, recv + GUARD, bytes, comm);
    bool whole = true;
    for (size_t i = 0; i < GUARD; i++) {
        whole &= recv[i] == GUARD_BYTE && recv[GUARD + room + i] == GUARD_BYTE;
    }
    for (size_t i = 0; *code == MPI_SUCCESS && i < room; i++) {
        whole &= recv[GUARD + i] == (int)(i / (size_t)bytes) + 1;
    }
    free(send);
    free(recv);
    return whole;
}

/* `warm` calls that go well, then one where `odd` brings `theirs` bytes and the others `ours`. */
static bool unequal(form_t form, int warm, int odd, int ours, int theirs)
{
    MPI_Comm comm;
    int code;
    bool good = true;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < warm; i++) {
        good &= call(BLOCKING, comm, ours, &code) && code == MPI_SUCCESS;
    }
    if (!call(form, comm, rank == odd ? theirs : ours, &code)) {
        problem("wrote outside the buffer", code);
        good = false;
    }
    if (!is_failure(code)) {
        problem("no error", code);
        good = false;
    }
    for (int i = 0; i < 2 && form != PERSISTENT_FORM; i++) {
        if (!call(i == 0 ? BLOCKING : NONBLOCKING, comm, ours, &code) || !is_failure(code)) {
            problem("no error in a later call", code);
            good = false;
        }
    }
    if (!call(form, MPI_COMM_WORLD, ours, &code) || code != MPI_SUCCESS) {
        problem("another communicator does not work", code);
        good = false;
    }
    MPI_Comm_free(&comm);
    return good;
}

static void on_alarm(int signal)
{
    (void)signal;
    char line[200];
    int n = snprintf(line, sizeof(line), "unequal: rank %d of %d hangs: %s\n", rank, size, verify_where);
    if (write(STDERR_FILENO, line, (size_t)n) > 0) {
        sleep(1);
    }
    _exit(1);
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
    for (size_t i = 0; i < npairs; i++) {
        for (int odd = 0; odd<size; odd += size> 1 ? size - 1 : 1) {
            for (form_t form = BLOCKING; form < FORMS; form++) {
                char name[100];
                snprintf(name, sizeof(name), "%s, %d bytes, but %d on rank %d", form_names[form], pairs[i][0],
                         pairs[i][1], odd);
                verify_where = name;
                alarm(10);
                int good = unequal(form, (int)(i % 3), odd, pairs[i][0], pairs[i][1]);
                MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
                passed += good;
                failed += !good;
            }
        }
    }
    if (rank == 0) {
        printf("%d passed, %d failed\n", passed, failed);
    }
    MPI_Finalize();
    return failed != 0;
}
