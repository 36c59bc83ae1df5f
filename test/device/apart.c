/*
 * Ranks that do not arrive together: rank 0 posts a collective on device memory and computes, and the others come later. The
 * program says whether the others got their data while rank 0 was computing.
 *
 *     apart FORM ROUNDS       FORM: post (MPI_Iallgather and MPI_Ialltoall in turn), two (two of them, one behind the other),
 *                             start (MPI_Start of a persistent all-gather)
 *
 * The last line of rank 0 is "apart: N of M rounds overlapped, data right". Rank 0 computes until the others are done, but
 * not longer than PATIENCE seconds in all.
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mpi/verify.h"
#include "hip.h"

enum { BLOCK = 70000, LATE_US = 20000, PATIENCE = 20, CALLS = 2 };

static int rank, n;
static double waited; /* rank 0 waits for others at most so long, in all rounds */
static unsigned char *host;
static char *send[CALLS], *recv[CALLS];
static _Atomic int *done; /* in memory that all ranks share: the ranks that have their data in this round */

static unsigned char byte_of(int from, int to, int round, size_t at)
{
    return (unsigned char)(from * 37 + to * 11 + round * 5 + (int)at * 3 + (int)(at >> 8));
}

static bool gathers(int round)
{
    return round % 2 == 0;
}

static void fill(int call, int round)
{
    for (int to = 0; to < n; to++) {
        for (size_t at = 0; at < BLOCK; at++) {
            host[(size_t)to * BLOCK + at] = byte_of(rank, gathers(round) ? 0 : to, round + call, at);
        }
    }
    hip_copy(send[call], host, (size_t)n * BLOCK);
    memset(host, 0xee, (size_t)n * BLOCK);
    hip_copy(recv[call], host, (size_t)n * BLOCK);
}

static bool is_right(int call, int round)
{
    hip_copy(host, recv[call], (size_t)n * BLOCK);
    for (int from = 0; from < n; from++) {
        for (size_t at = 0; at < BLOCK; at++) {
            if (host[(size_t)from * BLOCK + at] != byte_of(from, gathers(round) ? 0 : rank, round + call, at)) {
                return false;
            }
        }
    }
    return true;
}

static void post(int call, int round, MPI_Request *request)
{
    if (gathers(round)) {
        MPI_Iallgather(send[call], BLOCK, MPI_BYTE, recv[call], BLOCK, MPI_BYTE, MPI_COMM_WORLD, request);
    } else {
        MPI_Ialltoall(send[call], BLOCK, MPI_BYTE, recv[call], BLOCK, MPI_BYTE, MPI_COMM_WORLD, request);
    }
}

/* Rank 0 makes no MPI call here. */
static bool compute_until_others_are_done(int round)
{
    for (; waited < PATIENCE && atomic_load(done) < (round + 1) * (n - 1); waited += 0.001) {
        usleep(1000);
    }
    return atomic_load(done) == (round + 1) * (n - 1);
}

static void share_counter(MPI_Win *window)
{
    MPI_Aint bytes;
    int unit;

    MPI_Win_allocate_shared(rank ? 0 : sizeof(*done), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &done, window);
    MPI_Win_shared_query(*window, 0, &bytes, &unit, &done);
    if (rank == 0) {
        atomic_store(done, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *form = argc == 3 ? argv[1] : "";
    int rounds = argc == 3 ? atoi(argv[2]) : 0, calls = strcmp(form, "two") ? 1 : CALLS, overlapped = 0, devices;
    bool starts = !strcmp(form, "start");
    MPI_Request requests[CALLS];
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    share_counter(&window);
    host = malloc((size_t)n * BLOCK);
    for (int call = 0; call < CALLS; call++) {
        send[call] = hip_take((size_t)n * BLOCK);
        recv[call] = hip_take((size_t)n * BLOCK);
    }
    if (starts) {
        PERSISTENT(Allgather)
        (send[0], BLOCK, MPI_BYTE, recv[0], BLOCK, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    }
    for (int call = 0; call < CALLS;
         call++) { /* so that the set-up of the communicator has ended, and the buffers are known */
        MPI_Allgather(send[call], BLOCK, MPI_BYTE, recv[call], BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    }
    for (int round = 0; round < rounds; round++) {
        int at = starts ? 2 * round : round;

        for (int call = 0; call < calls; call++) {
            fill(call, at);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank) {
            usleep(LATE_US);
        }
        for (int call = 0; call < calls; call++) {
            if (starts) {
                MPI_Start(&requests[0]);
            } else {
                post(call, at, &requests[call]);
            }
        }
        overlapped += rank == 0 && compute_until_others_are_done(round);
        MPI_Waitall(calls, requests, MPI_STATUSES_IGNORE);
        if (rank) {
            atomic_fetch_add(done, 1);
        }
        for (int call = 0; call < calls; call++) {
            VERIFY(is_right(call, at));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (starts) {
        MPI_Request_free(&requests[0]);
    }
    if (rank == 0) {
        printf("apart: %d of %d rounds overlapped, data %s\n", overlapped, rounds, verify_failed ? "WRONG" : "right");
    }
    MPI_Win_free(&window);
    devices = verify_summary("apart", MPI_COMM_WORLD);
    MPI_Finalize();
    return devices;
}
