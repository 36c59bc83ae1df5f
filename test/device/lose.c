/*
 * Jobs in device memory that lose something: a process, the device, an engine.
 *
 *   mpirun -n N lose MODE
 *     loop    blocking and persistent calls until ROUNDS are over or one fails: for what the node injects
 *     kill    rank 1 kills itself among them, with programs armed
 *     abort   rank 1 calls MPI_Abort; exit: all ranks leave without MPI_Finalize; both with programs armed
 *     reset   all ranks reset their device, then finalize
 *     again   all ranks reset their device: then calls with device memory fail, also on a new communicator
 *     one     rank 1 resets its device: the same
 *     fork    no device memory: no process may load HIP, and a child can be forked and works
 *
 * A call that succeeds has the right data. Otherwise the exit status is 1 and a line says "wrong". After a call that fails,
 * the rank's loop ends, with a line "error" and MPI_Abort, as in most applications.
 */
#include "hip.h"

#include "../mpi/verify.h"

#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 20000, ROUNDS = 60 };

static int rank, n;
static MPI_Comm comm = MPI_COMM_WORLD;
static unsigned char *send, *recv, *host;

static unsigned char byte_of(int from, int to, int round, int at)
{
    return (unsigned char)(from * 37 + to * 11 + round * 5 + at * 3);
}

static void fill(int round)
{
    for (int at = 0; at < n * BLOCK; at++) {
        host[at] = byte_of(rank, at / BLOCK, round, at % BLOCK);
    }
    hip_copy(send, host, (size_t)n * BLOCK);
}

static void check(int round)
{
    hip_copy(host, recv, (size_t)n * BLOCK);
    for (int at = 0; at < n * BLOCK; at++) {
        if (host[at] != byte_of(at / BLOCK, rank, round, at % BLOCK)) {
            fprintf(stderr, "lose: rank %d, round %d: byte %d is wrong\n", rank, round, at);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void must(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "lose: rank %d: error: %s: %s\n", rank, what, text);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

/* One round of both forms. When it is over, the next start is armed. */
static void round_of(int round, MPI_Request *request)
{
    fill(round);
    must("MPI_Alltoall", MPI_Alltoall(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm));
    check(round);
    fill(round + 1);
    must("MPI_Start", MPI_Start(request));
    must("MPI_Wait", MPI_Wait(request, MPI_STATUS_IGNORE));
    check(round + 1);
}

static void make_request(MPI_Request *request)
{
    must("MPI_Alltoall_init",
         PERSISTENT(Alltoall)(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, comm, MPI_INFO_NULL, request));
}

static bool succeeds(void *from, void *to, MPI_Comm on)
{
    return MPI_Alltoall(from, BLOCK, MPI_BYTE, to, BLOCK, MPI_BYTE, on) == MPI_SUCCESS;
}

/* What was allocated, opened or registered before the reset is gone. Calls with device memory fail on all communicators; those with
 * host memory go on. */
static void after_reset(bool reset)
{
    unsigned char *mine = calloc((size_t)n, BLOCK);
    if (reset) {
        hip_must("hipDeviceReset", hip.hipDeviceReset());
        send = hip_take((size_t)n * BLOCK);
        recv = hip_take((size_t)n * BLOCK);
    }
    for (int i = 0; i < 3; i++) {
        MPI_Comm on = MPI_COMM_WORLD;
        if (i > 0) {
            must("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &on));
            MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
        }
        if (i < 2 ? succeeds(send, recv, on) : !succeeds(mine, host, on)) {
            fprintf(stderr, "lose: rank %d: call %d after the reset is wrong\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (i > 0) {
            must("MPI_Comm_free", MPI_Comm_free(&on));
        }
    }
    free(mine);
}

static bool hip_is_loaded(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        found |= strstr(line, "libamdhip64") || strstr(line, "libhsa-runtime64");
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

/* Only host memory. Some builds of UCX load HIP in MPI_Init. */
static int without_device(void)
{
    int *all = malloc((size_t)n * sizeof(*all)), status = 1;
    bool theirs = hip_is_loaded();
    must("MPI_Allgather", MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    bool right = all[n - 1] == n - 1 && (theirs || !hip_is_loaded());
    pid_t child = fork();
    if (child == 0) {
        _exit(all[0] == 0 ? 0 : 1);
    }
    right &= child > 0 && waitpid(child, &status, 0) == child && status == 0;
    must("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD));
    MPI_Finalize();
    free(all);
    fprintf(stderr, "lose: rank %d: %s\n", rank, right ? "no HIP" : "wrong");
    return !right;
}

int main(int argc, char **argv)
{
    const char *mode = argc == 2 ? argv[1] : "";
    MPI_Request request;
    int devices;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(mode, "fork") == 0) {
        return without_device();
    }
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    send = hip_take((size_t)n * BLOCK);
    recv = hip_take((size_t)n * BLOCK);
    host = malloc((size_t)n * BLOCK);
    make_request(&request);
    srand((unsigned)time(NULL));
    int last = strcmp(mode, "loop") == 0 ? ROUNDS : 1 + rand() % 8;
    /* The same on all ranks, which may have come here in different seconds. */
    must("MPI_Bcast", MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD));
    for (int round = 0; round < last; round++) {
        round_of(round, &request);
    }
    if (rank == 1 && strcmp(mode, "kill") == 0) {
        usleep((useconds_t)(rand() % 3000));
        kill(getpid(), SIGKILL);
    }
    if (rank == 1 && strcmp(mode, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    if (strcmp(mode, "exit") == 0) {
        exit(0);
    }
    if (strcmp(mode, "kill") == 0 || strcmp(mode, "abort") == 0) {
        for (int round = 0;; round++) { /* until the job is ended */
            round_of(round, &request);
        }
    }
    must("MPI_Request_free", MPI_Request_free(&request));
    if (strcmp(mode, "reset") == 0) {
        hip_must("hipDeviceReset", hip.hipDeviceReset());
    }
    if (strcmp(mode, "again") == 0 || strcmp(mode, "one") == 0) {
        after_reset(rank == 1 || mode[0] == 'a');
    }
    MPI_Finalize();
    if (rank == 0) {
        printf("lose: done\n");
    }
    return 0;
}
