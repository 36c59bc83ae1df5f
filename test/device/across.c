/*
 * The way of the bytes of device memory when a communicator spans nodes, from the statistics of the emulated node:
 *
 *   mpirun -n N across BLOCK_BYTES       hosts with equal numbers of ranks, at least 2
 *
 * All-gather and all-to-all, out of place and in place, on device memory. In each call the engines must have written to
 * other GPUs exactly what the ranks of a node have for each other, and all queues of the process must have written to host
 * memory exactly what goes to other nodes. So nothing between ranks of a node went through the host. The memory that the
 * process takes for itself is sampled during the calls: it must not grow with the blocks. Every byte is checked.
 *
 * Rank 0 prints what it has seen. The exit status is 1 if something is not as it should be.
 */
#include "hip.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory for the slots in use, and for the network. Blocks must be so large that copies of the buffers would be more. */
enum { MOST_ANON = 12 << 20 };

typedef struct {
    int rank, n, here; /* ranks of this node */
    size_t block;
    unsigned char *send, *recv, *host;
} job_t;

static unsigned char byte_of(int from, int to, int call, size_t at)
{
    return (unsigned char)(from * 37 + to * 11 + call * 5 + at * 3 + (at >> 8) * 7 + (at >> 16) * 13);
}

static void fill(const job_t *j, bool gathers, bool in_place, int call)
{
    for (int to = 0; to < j->n; to++) {
        for (size_t i = 0; i < j->block; i++) {
            j->host[(size_t)to * j->block + i] = byte_of(j->rank, gathers ? 0 : to, call, i);
        }
    }
    if (!in_place) {
        hip_copy(j->send, j->host, (size_t)(gathers ? 1 : j->n) * j->block);
    } else if (gathers) {
        hip_copy(j->recv + (size_t)j->rank * j->block, j->host, j->block);
    } else {
        hip_copy(j->recv, j->host, (size_t)j->n * j->block);
    }
}

static bool is_right(const job_t *j, bool gathers, int call)
{
    hip_copy(j->host, j->recv, (size_t)j->n * j->block);
    for (int from = 0; from < j->n; from++) {
        for (size_t i = 0; i < j->block; i++) {
            if (j->host[(size_t)from * j->block + i] != byte_of(from, gathers ? 0 : j->rank, call, i)) {
                fprintf(stderr, "across: rank %d, call %d: byte %zu of rank %d is wrong\n", j->rank, call, i, from);
                return false;
            }
        }
    }
    return true;
}

static void collective(const job_t *j, bool gathers, bool in_place)
{
    const void *send = in_place ? MPI_IN_PLACE : j->send;
    int bytes = (int)j->block;

    if (gathers) {
        MPI_Allgather(send, bytes, MPI_BYTE, j->recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        MPI_Alltoall(send, bytes, MPI_BYTE, j->recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    }
}

/* ---- memory ---- */

static _Atomic bool sampling;
static long most_anon;

/* Bytes of memory that belong to this process alone. The memory of the emulated GPUs belongs to a file. */
static long anon_now(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (file && fgets(line, sizeof(line), file) && sscanf(line, "RssAnon: %ld", &kib) != 1) {
    }
    if (file) {
        fclose(file);
    }
    return kib << 10;
}

static void *sample(void *arg)
{
    while (atomic_load(&sampling)) {
        long now = anon_now();

        most_anon = now > most_anon ? now : most_anon;
        usleep(300);
    }
    return arg;
}

/* ---- calls ---- */

static bool expect(const job_t *j, const char *what, bool gathers, bool in_place, long got, long wanted, bool halves)
{
    long sums[2] = {got, wanted};

    /* in exchanges in place either rank of a pair may do it: the sum over all ranks */
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    sums[1] /= halves ? 2 : 1; /* of two blocks that are exchanged, the rank that does it writes one to its own GPU */
    if (j->rank == 0) {
        printf("%s %s: %ld bytes %s, expected %ld\n", gathers ? "all-gather" : "all-to-all",
               in_place ? "in place" : "out of place", sums[0], what, sums[1]);
    }
    return sums[0] == sums[1];
}

static bool measured(const job_t *j, bool gathers, bool in_place, int call)
{
    int nodes = j->n / j->here;
    long block = (long)j->block, inside = (j->here - 1) * block * (gathers ? nodes : 1);
    long outside = (gathers ? nodes - 1 : j->n - j->here) * block;
    hip_stats_t before, after;
    bool good;

    fill(j, gathers, in_place, call);
    if (!hip_stats(&before)) {
        return false;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    collective(j, gathers, in_place);
    if (!hip_stats(&after)) {
        return false;
    }
    good = is_right(j, gathers, call);
    good =
        expect(j, "to other GPUs", gathers, in_place, after.to_peers - before.to_peers, inside, in_place && !gathers) &&
        good;
    return expect(j, "to host memory", gathers, in_place, after.to_host - before.to_host, outside, false) && good;
}

static bool all_calls(const job_t *j)
{
    bool good = true;
    pthread_t sampler;
    long anon;

    memset(j->host, 1, (size_t)j->n * j->block);
    for (int i = 0; i < 4; i++) {
        fill(j, i & 1, i & 2, i);
    }
    most_anon = anon = anon_now();
    sampling = true;
    pthread_create(&sampler, NULL, sample, NULL);
    for (int i = 0; i < 4; i++) { /* opens memory, makes queues and slots */
        fill(j, i & 1, i & 2, i);
        collective(j, i & 1, i & 2);
        good = is_right(j, i & 1, i) && good;
    }
    sampling = false;
    pthread_join(sampler, NULL);
    if (j->rank == 0) {
        printf("memory taken in calls of %ld KiB: %ld KiB\n", (long)((size_t)j->n * j->block >> 10),
               (most_anon - anon) >> 10);
    }
    good = most_anon - anon <= MOST_ANON && good;
    for (int i = 0; i < 4; i++) {
        good = measured(j, i & 1, i & 2, 100 + i) && good;
    }
    return good;
}

int main(int argc, char **argv)
{
    job_t j = {.block = argc > 1 ? (size_t)atol(argv[1]) : 0};
    MPI_Comm node;
    int devices = 0, local;
    int good;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.n);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_size(node, &j.here);
    if (!j.block || !hip_open(&devices)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(local % devices));
    j.send = hip_take((size_t)j.n * j.block);
    j.recv = hip_take((size_t)j.n * j.block);
    j.host = malloc((size_t)j.n * j.block);
    good = all_calls(&j);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return !good;
}
