/*
 * What a collective costs on the engines: packets by kind and completions, read from the statistics of the emulated node before
 * and after each call, and doorbells, from coll/dma's own counters.
 *
 *   mpirun -n N counts {OPERATION PLACE FORM MOVES COMPLETIONS POLLS CONDITIONS DOORBELLS}...
 *     OPERATION  allgather or alltoall; PLACE  in or out; FORM  blocking, persistent, or unarmed: persistent and not armed
 *     the rest   what one call takes on all ranks together, and in brackets on the rank with the most: "56(7)". MOVES: packets
 *                that move data; COMPLETIONS: fences; POLLS and CONDITIONS: packets that wait and that skip. "?" for any:
 *                rank 0 prints such a row as it was seen
 *
 * The first calls make queues and open memory; after them every call must be alike. A persistent call must be armed, unless
 * FORM says otherwise: behind MPI_Start engines run programs to their ends although MPI is not called any more. MPI_Start writes
 * the packets of the next start, and MPI_Wait writes none. Rank 0 says what it has seen; the exit status is 1 if a count or a
 * byte is wrong.
 */
#include "../mpi/verify.h"
#include "hip.h"
#include "pvar.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, WARM_UP = 2, CALLS = 2, PATIENCE = 5000, WORDS = 8 };

/* What is counted, in the order of the arguments. */
enum { MOVES, COMPLETIONS, POLLS, CONDITIONS, DOORBELLS, COUNTS };
static const char *const names[COUNTS] = {"packets that move data", "completions", "waits", "conditions", "doorbells"};

static MPI_T_pvar_session session;
static MPI_T_pvar_handle packets_counter, doorbells_counter, nudges_counter;

typedef struct {
    bool gathers, in_place, persistent, armed;
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

/* What this process has written. A nudge, which a slow node gets, is a doorbell and no packet that counts. */
typedef struct {
    long packets, doorbells;
} written_t;

static written_t written(void)
{
    return (written_t){.packets = pvar_value(session, packets_counter),
                       .doorbells = pvar_value(session, doorbells_counter) - pvar_value(session, nudges_counter)};
}

static bool is_same(const written_t *a, const written_t *b)
{
    return a->packets == b->packets && a->doorbells == b->doorbells;
}

static long most(long n)
{
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    return n;
}

static long sum(long n)
{
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return n;
}

/* What is armed needs no processor behind MPI_Start: without another call of MPI the engines come to their ends. */
static bool runs_alone(const hip_stats_t *before)
{
    hip_stats_t now = {0};
    for (int i = 0; i < PATIENCE && now.fences <= before->fences; i++) {
        usleep(1000);
        hip_stats(&now);
    }
    return now.fences > before->fences;
}

/* A start and its wait. `warm`: every start is like this one. */
static const char *start_and_wait(MPI_Request *request, bool warm, const hip_stats_t *before)
{
    written_t first = written(), started, ended;
    const char *wrong = NULL;

    MPI_Start(request);
    started = written();
    if (warm && !runs_alone(before)) {
        wrong = "nothing runs by itself";
    }
    MPI_Wait(request, MPI_STATUS_IGNORE);
    ended = written();
    if (warm && is_same(&first, &started)) {
        wrong = "MPI_Start has armed nothing";
    }
    if (warm && !is_same(&started, &ended)) {
        wrong = "MPI_Wait has written packets";
    }
    return wrong;
}

/* One call, and what it took on this rank. */
static bool measure(const job_t *j, MPI_Request *request, int call, bool warm, long counts[COUNTS])
{
    hip_stats_t before, after;
    written_t first, last;
    const char *wrong = NULL;
    fill(j, call);
    before = stats();
    first = written();
    if (j->persistent) {
        wrong = start_and_wait(request, warm && j->armed, &before);
    } else if (call_blocking(j) != MPI_SUCCESS) {
        wrong = "the call failed";
    }
    if (wrong) {
        fprintf(stderr, "counts: rank %d, call %d: %s\n", j->rank, call, wrong);
    }
    last = written();
    after = stats();
    counts[MOVES] = after.copies + after.broadcasts + after.swaps - before.copies - before.broadcasts - before.swaps;
    counts[COMPLETIONS] = after.fences - before.fences;
    counts[POLLS] = after.polls - before.polls; /* that have ended */
    counts[CONDITIONS] = after.conditions - before.conditions;
    counts[DOORBELLS] = last.doorbells - first.doorbells;
    return !wrong & is_right(j, call);
}

static bool is_any(const char *word)
{
    return strcmp(word, "?") == 0;
}

static void show(char **words, char seen[COUNTS][32])
{
    bool any = false;
    for (int i = 0; i < COUNTS; i++) {
        any = any || is_any(words[3 + i]);
    }
    if (any) {
        printf("%s %s %s %s %s %s %s %s\n", words[0], words[1], words[2], seen[MOVES], seen[COMPLETIONS], seen[POLLS],
               seen[CONDITIONS], seen[DOORBELLS]);
    }
}

/* One row of expected counts. Returns how often the counts differed. */
static long row(job_t *j, char **words)
{
    char seen[COUNTS][32] = {""};
    long counts[COUNTS], wrong = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    j->gathers = strcmp(words[0], "allgather") == 0;
    j->in_place = strcmp(words[1], "in") == 0;
    j->persistent = strcmp(words[2], "blocking") != 0;
    j->armed = strcmp(words[2], "persistent") == 0;
    if (j->persistent && make_persistent(j, &request) != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int call = 0; call < WARM_UP + CALLS; call++) {
        wrong += !measure(j, &request, call, call >= WARM_UP, counts);
        for (int i = 0; i < COUNTS; i++) {
            long all = sum(counts[i]), one = most(counts[i]);
            snprintf(seen[i], sizeof(seen[i]), one ? "%ld(%ld)" : "%ld", all, one);
            wrong += call >= WARM_UP && !is_any(words[3 + i]) && strcmp(seen[i], words[3 + i]) != 0;
        }
    }
    for (int i = 0; j->rank == 0 && i < COUNTS; i++) {
        if (!is_any(words[3 + i]) && strcmp(seen[i], words[3 + i]) != 0) {
            printf("counts: %s %s place, %s: %s %s, expected %s\n", words[0], words[1], words[2], seen[i], names[i],
                   words[3 + i]);
        }
    }
    if (j->rank == 0) {
        show(words, seen);
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    job_t j = {0};
    int devices, provided;
    long wrong = 0;
    if (argc <= WORDS || argc % WORDS != 1) {
        fprintf(stderr, "usage: counts {allgather|alltoall in|out blocking|persistent|unarmed "
                        "MOVES COMPLETIONS POLLS CONDITIONS DOORBELLS}...\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    packets_counter = pvar_open(session, "coll_dma_packets", MPI_T_PVAR_CLASS_COUNTER);
    doorbells_counter = pvar_open(session, "coll_dma_doorbells", MPI_T_PVAR_CLASS_COUNTER);
    nudges_counter = pvar_open(session, "coll_dma_nudges", MPI_T_PVAR_CLASS_COUNTER);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.n);
    if (!hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(j.rank % devices));
    j.send = hip_take((size_t)j.n * BLOCK);
    j.recv = hip_take((size_t)j.n * BLOCK);
    j.host = malloc((size_t)j.n * BLOCK);
    for (int i = 1; i < argc; i += WORDS) {
        wrong += row(&j, argv + i);
    }
    wrong = most(wrong);
    hip_must("hipFree", hip.hipFree(j.send));
    hip_must("hipFree", hip.hipFree(j.recv));
    free(j.host);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
