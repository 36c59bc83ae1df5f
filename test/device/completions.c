/*
 * Jobs in device memory on a node that loses signs of life of its engines: doorbells, read pointers, fences, interrupts.
 *
 *   mpirun -n N completions MODE ROUNDS
 *     right    no call fails, and all data are right
 *     either   a call that succeeds has the right data. If one fails, the calls of all ranks on that communicator fail, too. Then a
 *              new one is made, with new persistent requests, on which all calls succeed
 *
 * A round has every form: blocking, non-blocking, persistent (armed), out of place, in place (swaps), all-gather. The line
 * "completions: done" has the errors and the rounds that were run.
 */
#include "hip.h"

#include "../mpi/verify.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 12288, FORMS = 4 };

static int rank, n;
static MPI_Comm comm;
static MPI_Request request, gather_request;
static unsigned char *send, *recv, *host;

static unsigned char byte_of(int from, int to, int round, int at)
{
    return (unsigned char)(from * 37 + to * 11 + round * 5 + at * 3 + at / 256);
}

static void fill(unsigned char *device, int round)
{
    for (int at = 0; at < n * BLOCK; at++) {
        host[at] = byte_of(rank, at / BLOCK, round, at % BLOCK);
    }
    hip_copy(device, host, (size_t)n * BLOCK);
}

static void check(const char *what, int round, bool gathered)
{
    hip_copy(host, recv, (size_t)n * BLOCK);
    for (int at = 0; at < n * BLOCK; at++) {
        if (host[at] != byte_of(at / BLOCK, gathered ? 0 : rank, round, at % BLOCK)) {
            fprintf(stderr, "completions: rank %d, round %d, %s: byte %d is wrong\n", rank, round, what, at);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static int wait_for(MPI_Request *what, int started)
{
    return started == MPI_SUCCESS ? MPI_Wait(what, MPI_STATUS_IGNORE) : started;
}

/* One call of a form. MPI_SUCCESS: its data were right. */
static int call(int form, int round)
{
    static const char *const names[FORMS] = {"blocking", "in place", "non-blocking", "persistent"};
    MPI_Request posted;
    bool gathers = round % 3 == 1 && form != 1;
    int code;

    fill(form == 1 ? recv : send, round);
    if (form == 0) {
        code = gathers ? MPI_Allgather(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm)
                       : MPI_Alltoall(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm);
    } else if (form == 1) {
        code = MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm);
    } else if (form == 2) {
        code = wait_for(&posted, gathers ? MPI_Iallgather(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm, &posted)
                                         : MPI_Ialltoall(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm, &posted));
    } else {
        MPI_Request *which = gathers ? &gather_request : &request;

        code = wait_for(which, MPI_Start(which));
    }
    if (code == MPI_SUCCESS) {
        check(names[form], round, gathers);
    }
    return code;
}

static void must(const char *what, int code)
{
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "completions: rank %d: wrong: %s fails\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void make(void)
{
    must("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    must("MPI_Alltoall_init",
         PERSISTENT(Alltoall)(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm, MPI_INFO_NULL, &request));
    must("MPI_Allgather_init",
         PERSISTENT(Allgather)(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm, MPI_INFO_NULL, &gather_request));
}

/* A request whose start has failed may be gone. */
static void drop_request(MPI_Request *which)
{
    if (*which != MPI_REQUEST_NULL) {
        must("MPI_Request_free", MPI_Request_free(which));
    }
}

static void drop(void)
{
    drop_request(&request);
    drop_request(&gather_request);
    must("MPI_Comm_free", MPI_Comm_free(&comm));
}

/* Rounds on one communicator, until the first error of this rank. Returns the next round. */
static int run(int round, int rounds, bool *failed)
{
    *failed = false;
    for (; round < rounds && !*failed; round++) {
        for (int form = 0; form < FORMS && !*failed; form++) {
            *failed = call(form, round) != MPI_SUCCESS;
        }
    }
    return round;
}

/* Another rank has noticed an error that this rank has not: this rank's next calls return it. */
static void must_fail(int round)
{
    for (int form = 0; form < FORMS; form++) {
        if (call(form, round) != MPI_SUCCESS) {
            return;
        }
    }
    fprintf(stderr, "completions: rank %d: wrong: a call succeeds that another rank has failed\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    bool either = argc == 3 && strcmp(argv[1], "either") == 0;
    int rounds = argc == 3 ? atoi(argv[2]) : 0, devices, round = 0, errors = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    send = hip_take((size_t)n * BLOCK);
    recv = hip_take((size_t)n * BLOCK);
    host = malloc((size_t)n * BLOCK);
    while (round < rounds) {
        int all[2], mine[2];
        bool failed;

        make();
        round = run(round, rounds, &failed);
        mine[0] = failed;
        mine[1] = round;
        must("MPI_Allreduce", MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        errors += all[0];
        if (all[0] && !either) {
            must("a call", MPI_ERR_OTHER);
        }
        if (all[0] && !failed) {
            must_fail(round);
        }
        round = all[1];
        drop();
    }
    if (rank == 0) {
        printf("completions: done, %d rounds, %d errors\n", rounds, errors);
    }
    MPI_Finalize();
    return 0;
}
