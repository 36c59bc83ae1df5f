/*
 * coll_loop [-s SECONDS] [-b BYTES] [-g GRACE] [-p PAUSE]: alternates all-gathers and all-to-alls, and checks every byte, until
 * SECONDS have passed on rank 0 or rank 0 receives SIGUSR1. After both, each rank sleeps PAUSE microseconds (2000), so that the
 * loop leaves processor time to others. Tests inject faults meanwhile. Prints what a user would see:
 *
 *     rank 1 host h0 pid 17 node 1 of 2    of each rank; node: its rank among the ranks that share memory
 *     looping                              rank 0, when all ranks are in the loop
 *     rank 1 call 300 took 3.15 s          a call that took longer than 0.2 s
 *     rank 1 call 301 returned 16 (MPI_ERR_OTHER: known error not in list) after 1.02 s
 *     rank 1 call 302 WRONG DATA: 12 bytes
 *     done: 4711 calls, slowest 3.15 s, data right
 *
 * Errors are returned (MPI_ERRORS_RETURN). A rank that gets an error waits GRACE seconds, so that other ranks can print theirs,
 * and aborts the job with status 3. Wrong data end it with status 4. All ranks leave the loop in the same call, because rank
 * 0's block of the all-gather marks the last call.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_RETURNED = 3, EXIT_WRONG = 4 };

#define SLOW_SECONDS 0.2

typedef struct loop {
    double seconds, start, slowest;
    unsigned grace, pause;
    int bytes; /* of a block; in all-gathers, the last byte says whether this call is the last */
    int rank, ranks;
    long call;
    unsigned char *send, *recv;
} loop_t;

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

/* Byte `at` of the block that `from` sends to `to` in a call. All-gathers send the same block to all ranks. */
static unsigned char expected(long call, int from, int to, int at)
{
    return (unsigned char)(call * 37 + from * 11 + to * 5 + at + at / 251);
}

static void fill(unsigned char *block, const loop_t *loop, int to)
{
    for (int at = 0; at < loop->bytes; at++) {
        block[at] = expected(loop->call, loop->rank, to, at);
    }
}

static long count_wrong(const loop_t *loop, int to, int bytes)
{
    long wrong = 0;

    for (int from = 0; from < loop->ranks; from++) {
        const unsigned char *block = loop->recv + (size_t)from * (size_t)loop->bytes;

        for (int at = 0; at < bytes; at++) {
            wrong += block[at] != expected(loop->call, from, to, at);
        }
    }
    return wrong;
}

static void say_where(const loop_t *loop)
{
    MPI_Comm node;
    char host[64] = "";
    int rank, ranks;

    gethostname(host, sizeof(host) - 1);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &ranks);
    MPI_Comm_free(&node);
    printf("rank %d host %s pid %d node %d of %d\n", loop->rank, host, (int)getpid(), rank, ranks);
    fflush(stdout);
}

/* Checks the outcome of a call. Does not return after an error or wrong data. */
static void check_outcome(loop_t *loop, int code, double took)
{
    if (took > loop->slowest) {
        loop->slowest = took;
    }
    if (MPI_SUCCESS != code) {
        char text[MPI_MAX_ERROR_STRING];
        int length;

        MPI_Error_string(code, text, &length);
        printf("rank %d call %ld returned %d (%s) after %.2f s\n", loop->rank, loop->call, code, text, took);
        fflush(stdout);
        sleep(loop->grace);
        MPI_Abort(MPI_COMM_WORLD, EXIT_RETURNED);
    }
    if (took > SLOW_SECONDS) {
        printf("rank %d call %ld took %.2f s\n", loop->rank, loop->call, took);
        fflush(stdout);
    }
}

static void right(const loop_t *loop, long wrong)
{
    if (wrong) {
        printf("rank %d call %ld WRONG DATA: %ld bytes\n", loop->rank, loop->call, wrong);
        fflush(stdout);
        sleep(loop->grace);
        MPI_Abort(MPI_COMM_WORLD, EXIT_WRONG);
    }
}

static int gather_once(loop_t *loop)
{
    double start = MPI_Wtime();
    int code;

    fill(loop->send, loop, 0);
    loop->send[loop->bytes - 1] = ended || start - loop->start > loop->seconds; /* only that of rank 0 has an effect */
    memset(loop->recv, 0, (size_t)loop->ranks * (size_t)loop->bytes);
    code = MPI_Allgather(loop->send, loop->bytes, MPI_BYTE, loop->recv, loop->bytes, MPI_BYTE, MPI_COMM_WORLD);
    check_outcome(loop, code, MPI_Wtime() - start);
    right(loop, count_wrong(loop, 0, loop->bytes - 1));
    return loop->recv[loop->bytes - 1];
}

static void exchange_once(loop_t *loop)
{
    double start = MPI_Wtime();
    int code;

    for (int to = 0; to < loop->ranks; to++) {
        fill(loop->send + (size_t)to * (size_t)loop->bytes, loop, to);
    }
    memset(loop->recv, 0, (size_t)loop->ranks * (size_t)loop->bytes);
    code = MPI_Alltoall(loop->send, loop->bytes, MPI_BYTE, loop->recv, loop->bytes, MPI_BYTE, MPI_COMM_WORLD);
    check_outcome(loop, code, MPI_Wtime() - start);
    right(loop, count_wrong(loop, loop->rank, loop->bytes));
}

static int options(loop_t *loop, int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "s:b:g:p:")) != -1) {
        switch (option) {
        case 's':
            loop->seconds = atof(optarg);
            break;
        case 'b':
            loop->bytes = atoi(optarg);
            break;
        case 'g':
            loop->grace = (unsigned)atoi(optarg);
            break;
        case 'p':
            loop->pause = (unsigned)atoi(optarg);
            break;
        default:
            return -1;
        }
    }
    return loop->bytes < 2 || optind != argc ? -1 : 0;
}

int main(int argc, char **argv)
{
    loop_t loop = {.seconds = 5, .bytes = 1024, .grace = 3, .pause = 2000};
    int last = 0;

    signal(SIGUSR1, on_signal);
    MPI_Init(&argc, &argv);
    if (options(&loop, argc, argv)) {
        fprintf(stderr, "usage: coll_loop [-s SECONDS] [-b BYTES] [-g GRACE] [-p PAUSE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &loop.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &loop.ranks);
    loop.send = malloc((size_t)loop.ranks * (size_t)loop.bytes);
    loop.recv = malloc((size_t)loop.ranks * (size_t)loop.bytes);
    if (!loop.send || !loop.recv) {
        fprintf(stderr, "coll_loop: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    say_where(&loop);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (0 == loop.rank) {
        printf("looping\n");
        fflush(stdout);
    }
    loop.start = MPI_Wtime();
    while (!last) {
        exchange_once(&loop);
        loop.call++;
        last = gather_once(&loop);
        loop.call++;
        usleep(loop.pause);
    }
    MPI_Allreduce(MPI_IN_PLACE, &loop.slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (0 == loop.rank) {
        printf("done: %ld calls, slowest %.2f s, data right\n", loop.call, loop.slowest);
    }
    free(loop.send);
    free(loop.recv);
    MPI_Finalize();
    return 0;
}
