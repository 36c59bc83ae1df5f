/*
 * Latency of collectives on host buffers, measured the way the OSU micro-benchmarks do it: the call is timed, an untimed
 * barrier follows, the times of all iterations are averaged per rank. One process run is one pass over all sizes.
 *
 * Prints per collective and size: name, ranks, bytes, average over the ranks (OSU's number), maximum over the ranks, both
 * in microseconds. Bytes are those of one block, as OSU counts them.
 *
 * latency [-c NAME[,NAME...]] [-b MIN:MAX] [-f FACTOR] [-i SMALL[:LARGE]] [-k CALLS] [-p] [-v]
 *     -c  collectives (default allgather); -c list prints their names. Two are none: "nothing" is the loop without a
 *         call, "bare" the least that an all-gather can be (bare.c), up to 4 KiB
 *     -b  smallest and largest block in bytes (default 4:1048576); -f the factor between sizes (default 4)
 *     -i  iterations up to 8 KiB and above (default 1000:100); a tenth of them warms up
 *     -k  calls in a row between two barriers (default 1); the times are those of one of them
 *     -p  in place
 *     -v  check the received data once per size, after the timing
 */
#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../ompi_coll_dma/component/series.h"
#include "bare.h"

enum { LARGE_ABOVE = 8192 };

typedef struct {
    const void *send;
    void *recv;
    int bytes;
    int size;                   /* of the communicator */
    const int *counts, *displs; /* of equal blocks, for those who ask */
    MPI_Request request;        /* of the persistent ones */
} call_t;

typedef struct {
    const char *name;
    bool send_all; /* the send buffer holds a block per rank */
    int (*run)(call_t *call);
    int (*init)(call_t *call); /* persistent ones: untimed, once per size */
} collective_t;

typedef struct {
    char *names;
    int min, max, factor;
    int small, large; /* iterations */
    int row;          /* calls */
    bool in_place, verify;
} options_t;

static int run_allgather(call_t *c)
{
    return MPI_Allgather(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static int run_alltoall(call_t *c)
{
    return MPI_Alltoall(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static int run_iallgather(call_t *c)
{
    MPI_Request request;
    MPI_Iallgather(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD, &request);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int run_ialltoall(call_t *c)
{
    MPI_Request request;
    MPI_Ialltoall(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD, &request);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int run_allgatherv(call_t *c)
{
    return MPI_Allgatherv(c->send, c->bytes, MPI_CHAR, c->recv, c->counts, c->displs, MPI_CHAR, MPI_COMM_WORLD);
}

static int run_alltoallv(call_t *c)
{
    return MPI_Alltoallv(c->send, c->counts, c->displs, MPI_CHAR, c->recv, c->counts, c->displs, MPI_CHAR,
                         MPI_COMM_WORLD);
}

static int init_allgather(call_t *c)
{
    return PERSISTENT(Allgather)(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &c->request);
}

static int init_alltoall(call_t *c)
{
    return PERSISTENT(Alltoall)(c->send, c->bytes, MPI_CHAR, c->recv, c->bytes, MPI_CHAR, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &c->request);
}

static int run_start(call_t *c)
{
    MPI_Start(&c->request);
    return MPI_Wait(&c->request, MPI_STATUS_IGNORE);
}

static int run_nothing(call_t *c)
{
    (void)c;
    return MPI_SUCCESS;
}

static int run_bare(call_t *c)
{
    bare_allgather(c->send, c->recv, c->bytes, c->send == MPI_IN_PLACE);
    return MPI_SUCCESS;
}

/* The p... ones are persistent: MPI_Start and MPI_Wait are timed. */
static const collective_t collectives[] = {
    {"allgather", false, run_allgather, NULL},
    {"alltoall", true, run_alltoall, NULL},
    {"allgatherv", false, run_allgatherv, NULL},
    {"alltoallv", true, run_alltoallv, NULL},
    {"iallgather", false, run_iallgather, NULL},
    {"ialltoall", true, run_ialltoall, NULL},
    {"pallgather", false, run_start, init_allgather},
    {"palltoall", true, run_start, init_alltoall},
    {"nothing", false, run_nothing, NULL},
    {"bare", false, run_bare, NULL},
};
enum { NCOLLECTIVES = sizeof(collectives) / sizeof(collectives[0]) };

static const collective_t *find_collective(const char *name)
{
    for (int i = 0; i < NCOLLECTIVES; i++) {
        if (strcmp(collectives[i].name, name) == 0) {
            return &collectives[i];
        }
    }
    return NULL;
}

static unsigned char pattern(int source, int target, size_t at)
{
    return (unsigned char)(source * 37 + target * 101 + at * 7 + at / 251);
}

/* Writes what this rank sends, in the form (in place or not) that the call will use. */
static void fill(const collective_t *c, const options_t *o, char *send, char *recv, int bytes, int rank, int size)
{
    for (int block = 0; block < (c->send_all ? size : 1); block++) {
        int slot = c->send_all ? block : rank;
        char *to = o->in_place ? recv + (size_t)slot * bytes : send + (size_t)block * bytes;
        for (int i = 0; i < bytes; i++) {
            to[i] = (char)pattern(rank, c->send_all ? block : 0, i);
        }
    }
}

static long verify(const collective_t *c, const char *recv, int bytes, int rank, int size)
{
    long wrong = 0;
    for (int source = 0; source < size; source++) {
        for (int i = 0; i < bytes; i++) {
            unsigned char got = (unsigned char)recv[(size_t)source * bytes + i];
            wrong += got != pattern(source, c->send_all ? rank : 0, i);
        }
    }
    return wrong;
}

/* Average time of one call on this rank, in microseconds. */
static double measure(const collective_t *c, call_t *call, int iterations, int row)
{
    int skip = iterations < 10 ? 1 : iterations / 10;
    double total = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < iterations + skip; i++) {
        double start = MPI_Wtime();
        for (int k = 0; k < row; k++) {
            c->run(call);
        }
        double stop = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        if (i >= skip) {
            total += stop - start;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return total * 1e6 / iterations / row;
}

/* Returns the number of wrong bytes over all ranks (0 without -v). */
static long bench_size(const collective_t *c, const options_t *o, char *send, char *recv, int bytes)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *counts = malloc(2 * (size_t)size * sizeof(int)), *displs = counts + size;
    for (int i = 0; i < size; i++) {
        counts[i] = bytes;
        displs[i] = i * bytes;
    }
    call_t call = {.send = o->in_place ? MPI_IN_PLACE : send,
                   .recv = recv,
                   .bytes = bytes,
                   .size = size,
                   .counts = counts,
                   .displs = displs};
    if (c->init) {
        c->init(&call);
    }
    double mine = measure(c, &call, bytes > LARGE_ABOVE ? o->large : o->small, o->row);

    double sum, max;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%-12s %3d %8d %10.3f %10.3f\n", c->name, size, bytes, sum / size, max);
        fflush(stdout);
    }
    long wrong = 0;
    if (o->verify) {
        fill(c, o, send, recv, bytes, rank, size);
        c->run(&call);
        long here = verify(c, recv, bytes, rank, size);
        MPI_Allreduce(&here, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (wrong && rank == 0) {
            printf("%s: %ld wrong bytes with blocks of %d\n", c->name, wrong, bytes);
        }
    }
    if (c->init) {
        MPI_Request_free(&call.request);
    }
    free(counts);
    return wrong;
}

static int usage(void)
{
    fprintf(stderr, "usage: latency [-c NAME[,NAME...]] [-b MIN:MAX] [-f FACTOR] [-i SMALL[:LARGE]] [-k CALLS] "
                    "[-p] [-v]\n");
    return 2;
}

static bool parse(int argc, char **argv, options_t *o)
{
    static char default_name[] = "allgather";
    *o = (options_t){
        .names = default_name, .min = 4, .max = 1 << 20, .factor = 4, .small = 1000, .large = 100, .row = 1};
    for (int opt; (opt = getopt(argc, argv, "c:b:f:i:k:pv")) != -1;) {
        switch (opt) {
        case 'c':
            o->names = optarg;
            break;
        case 'b':
            if (sscanf(optarg, "%d:%d", &o->min, &o->max) == 1) {
                o->max = o->min;
            }
            break;
        case 'f':
            o->factor = atoi(optarg);
            break;
        case 'i':
            if (sscanf(optarg, "%d:%d", &o->small, &o->large) == 1) {
                o->large = o->small;
            }
            break;
        case 'k':
            o->row = atoi(optarg);
            break;
        case 'p':
            o->in_place = true;
            break;
        case 'v':
            o->verify = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->min > 0 && o->max >= o->min && o->factor > 1 && o->small > 0 && o->large > 0 &&
           o->row > 0;
}

static char *allocate(size_t bytes, int value)
{
    void *memory = NULL;
    if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0) {
        fprintf(stderr, "latency: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(memory, value, bytes);
    return memory;
}

int main(int argc, char **argv)
{
    options_t o;
    if (!parse(argc, argv, &o)) {
        return usage();
    }
    if (strcmp(o.names, "list") == 0) {
        for (int i = 0; i < NCOLLECTIVES; i++) {
            puts(collectives[i].name);
        }
        return 0;
    }
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long wrong = 0;
    for (char *save, *name = strtok_r(o.names, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        const collective_t *c = find_collective(name);
        if (c == NULL) {
            fprintf(stderr, "latency: no collective \"%s\" (-c list shows them)\n", name);
            MPI_Abort(MPI_COMM_WORLD, 2);
            return 2;
        }
        /* New buffers per collective, as large as OSU's, so that none profits from what another left in the cache. */
        char *send = allocate((size_t)o.max * (c->send_all ? (size_t)size : 1), 1);
        char *recv = allocate((size_t)o.max * (size_t)size, 0);
        long most = c->run == run_bare && o.max > BARE_MOST ? BARE_MOST : o.max;
        if (c->run == run_bare) {
            bare_open();
        }
        for (long bytes = o.min; bytes <= most; bytes *= o.factor) {
            wrong += bench_size(c, &o, send, recv, (int)bytes);
        }
        if (c->run == run_bare) {
            bare_close();
        }
        free(send);
        free(recv);
    }
    MPI_Finalize();
    return wrong != 0;
}
