/*
 * What a collective costs on the engines: copy packets, fences and doorbells of each rank's queues, from the statistics of
 * the emulated node before and after each call.
 *
 *   mpirun -n N counts {OPERATION PLACE FORM COPIES FENCES}...
 *     OPERATION  allgather or alltoall; PLACE  in or out; FORM  blocking or persistent
 *     COPIES     packets that move data, in one call, of the rank with the most; FENCES likewise, only completions
 *
 * The first calls make queues and open memory. After them every call must cost the same. A persistent call must be armed:
 * after MPI_Start the engines run programs to their ends, although no doorbell is rung and MPI is not called any more. Rank
 * 0 prints what it has seen. The exit status is 1 if a count or a byte is wrong.
 */
#include "../mpi/verify.h"
#include "hip.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, WARM_UP = 3, CALLS = 4, PATIENCE = 5000 };

typedef struct {
    bool gathers, in_place, persistent;
    int rank, n;
    unsigned char *send, *recv, *host; /* host: for pictures */
} job_t;

static unsigned char byte_of(const job_t *j, int from, int to, int call, int at)
{
    return (unsigned char)(from * 37 + (j->gathers ? 0 : to * 11) + call * 5 + at * 3);
}

static void fill(const job_t *j, int call)
{
    for (int to = 0; to < j->n; to++) {
        for (int i = 0; i < BLOCK; i++) {
            j->host[to * BLOCK + i] = byte_of(j, j->rank, to, call, i);
        }
    }
    if (!j->in_place) {
        hip_copy(j->send, j->host, (size_t)(j->gathers ? 1 : j->n) * BLOCK);
    } else if (j->gathers) {
        hip_copy(j->recv + j->rank * BLOCK, j->host, BLOCK);
    } else {
        hip_copy(j->recv, j->host, (size_t)j->n * BLOCK);
    }
}

static bool is_right(const job_t *j, int call)
{
    hip_copy(j->host, j->recv, (size_t)j->n * BLOCK);
    for (int at = 0; at < j->n * BLOCK; at++) {
        if (j->host[at] != byte_of(j, at / BLOCK, j->rank, call, at % BLOCK)) {
            fprintf(stderr, "counts: rank %d, call %d: byte %d is wrong\n", j->rank, call, at);
            return false;
        }
    }
    return true;
}

static int call_blocking(const job_t *j)
{
    const void *send = j->in_place ? MPI_IN_PLACE : j->send;
    return j->gathers ? MPI_Allgather(send, BLOCK, MPI_BYTE, j->recv, BLOCK, MPI_BYTE, MPI_COMM_WORLD)
                      : MPI_Alltoall(send, BLOCK, MPI_BYTE, j->recv, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
}

static int make_persistent(const job_t *j, MPI_Request *request)
{
    const void *send = j->in_place ? MPI_IN_PLACE : j->send;
    return j->gathers ? PERSISTENT(Allgather)(send, BLOCK, MPI_BYTE, j->recv, BLOCK, MPI_BYTE, MPI_COMM_WORLD,
                                              MPI_INFO_NULL, request)
                      : PERSISTENT(Alltoall)(send, BLOCK, MPI_BYTE, j->recv, BLOCK, MPI_BYTE, MPI_COMM_WORLD,
                                             MPI_INFO_NULL, request);
}

static hip_stats_t stats(void)
{
    hip_stats_t s;
    /* No queue works any more, and none works yet. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (!hip_stats(&s)) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return s;
}

static long moves(const hip_stats_t *s)
{
    return s->copies + s->broadcasts + s->swaps;
}

static long most(long n)
{
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    return n;
}

/* Armed programs need no processor after MPI_Start: without another call of MPI the engines come to the ends. */
static bool runs_alone(const hip_stats_t *before)
{
    hip_stats_t now = {0};
    for (int i = 0; i < PATIENCE && now.fences <= before->fences; i++) {
        usleep(1000);
        hip_stats(&now);
    }
    return now.fences > before->fences && now.doorbells == before->doorbells;
}

/* One call, and what it cost; of a start, only the cost of MPI_Start itself. */
static bool measure(const job_t *j, MPI_Request *request, int call, bool warm, long *copies, long *fences)
{
    hip_stats_t before, after;
    bool right = true;
    fill(j, call);
    before = stats();
    if (j->persistent) {
        MPI_Start(request);
        right = !warm || runs_alone(&before);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    } else {
        right = call_blocking(j) == MPI_SUCCESS;
    }
    if (!right) {
        fprintf(stderr, "counts: rank %d, call %d: %s\n", j->rank, call,
                j->persistent ? "MPI_Start has rung a doorbell, or nothing runs by itself" : "the call failed");
    }
    after = stats();
    *copies = most(moves(&after) - moves(&before));
    *fences = most(after.fences - before.fences);
    return right & is_right(j, call);
}

/* One row of expected counts. Returns how often the counts differed. */
static long row(job_t *j, char **words)
{
    long copies = 0, fences = 0, wrong = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    j->gathers = strcmp(words[0], "allgather") == 0;
    j->in_place = strcmp(words[1], "in") == 0;
    j->persistent = strcmp(words[2], "persistent") == 0;
    if (j->persistent && make_persistent(j, &request) != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int call = 0; call < WARM_UP + CALLS; call++) {
        wrong += !measure(j, &request, call, call >= WARM_UP, &copies, &fences);
        wrong += call >= WARM_UP && (copies != atol(words[3]) || fences != atol(words[4]));
    }
    if (j->rank == 0) {
        printf("%s %s place, %s: %ld packets that copy, %ld completions\n", words[0], words[1], words[2], copies,
               fences);
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    job_t j = {0};
    int devices;
    long wrong = 0;
    if (argc < 6 || argc % 5 != 1) {
        fprintf(stderr, "usage: counts {allgather|alltoall in|out blocking|persistent COPIES FENCES}...\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.n);
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(j.rank % devices));
    j.send = hip_take((size_t)j.n * BLOCK);
    j.recv = hip_take((size_t)j.n * BLOCK);
    j.host = malloc((size_t)j.n * BLOCK);
    for (int i = 1; i < argc; i += 5) {
        wrong += row(&j, argv + i);
    }
    wrong = most(wrong);
    hip_must("hipFree", hip.hipFree(j.send));
    hip_must("hipFree", hip.hipFree(j.recv));
    free(j.host);
    MPI_Finalize();
    return wrong != 0;
}
