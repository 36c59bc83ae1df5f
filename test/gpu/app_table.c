/*
 * What the kind of a buffer's memory costs, on a real driver: all-gather and all-to-all, the median of the slowest rank's
 * calls in microseconds, for each kind of memory and size. One MPI program:
 *
 *   mpirun -n N app_table [kinds] [BYTES...]     bytes of the receive buffer; default 65536 1048576 67108864; kinds: no more
 *                                                than this table
 *
 * Then blocks of 4 MiB in rows at irregular distances, sent and received, only sent, and only received:
 *   rows        of an indexed datatype
 *
 * And costs that occur once per buffer, request or communicator:
 *   new         buffers that have just been allocated, as in an application without an allocator of its own
 *   turns       calls on 64 pairs of buffers in turn
 *   requests    the first start, and one of the later ones, of many persistent requests
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../mpi/verify.h"
#include "app_driver.h"

enum { CALLS = 15, PAIRS = 64 };
#define WARM_US 1e5 /* so long are calls made before the first row: an idle GPU and its link have low clocks */

static int rank, n;
static double times[CALLS];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[count / 2];
}

/* The time of an action that all ranks begin together, in microseconds; that of the slowest rank. */
static double begin_together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static double slowest_since(double begin)
{
    double mine = MPI_Wtime() - begin;

    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return mine * 1e6;
}

static double timed(bool to_each, addr_t send, addr_t recv, size_t bytes)
{
    int block = (int)(bytes / (size_t)n);
    double begin = begin_together();

    if (to_each) {
        MPI_Alltoall((void *)send, block, MPI_BYTE, (void *)recv, block, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        MPI_Allgather((void *)send, block, MPI_BYTE, (void *)recv, block, MPI_BYTE, MPI_COMM_WORLD);
    }
    return slowest_since(begin);
}

static double call_time(bool to_each, addr_t send, addr_t recv, size_t bytes)
{
    timed(to_each, send, recv, bytes);
    timed(to_each, send, recv, bytes);
    for (int i = 0; i < CALLS; i++) {
        times[i] = timed(to_each, send, recv, bytes);
    }
    return median(times, CALLS);
}

/* timed() is equal on all ranks, so they make equally many calls. */
static void warm_up(addr_t send, addr_t recv, size_t bytes)
{
    for (double spent = 0; spent < WARM_US;) {
        spent += timed(false, send, recv, bytes);
    }
}

static void row(const char *send_name, const char *recv_name, addr_t send, addr_t recv, size_t bytes)
{
    double gather = call_time(false, send, recv, bytes), each = call_time(true, send, recv, bytes);

    if (rank == 0) {
        printf("%10zu  %-22s %-22s %10.1f %10.1f\n", bytes, send_name, recv_name, gather, each);
        fflush(stdout);
    }
}

static void kinds(size_t bytes)
{
    addr_t plain = app_alloc(bytes), memory[APP_KINDS];
    addr_t host = (addr_t)malloc(bytes);

    for (int kind = 0; kind < APP_KINDS; kind++) {
        memory[kind] = app_kind_alloc(kind, bytes);
        if (kind == APP_PLAIN) {
            warm_up(plain, memory[kind], bytes);
        }
        row(app_kind_names[kind], app_kind_names[kind], kind ? app_kind_alloc(kind, bytes) : plain, memory[kind],
            bytes);
    }
    row("plain", "pool", plain, memory[APP_POOL], bytes);
    row("pool", "plain", memory[APP_POOL], plain, bytes);
    row("plain", "host on rank 0", plain, rank ? memory[APP_PLAIN] : host, bytes);
    row("host on rank 0", "plain", rank ? memory[APP_PLAIN] : host, plain, bytes);
    row("plain", "pinned on rank 0", plain, rank ? memory[APP_PLAIN] : memory[APP_PINNED], bytes);
    row("plain", "pinned", plain, memory[APP_PINNED], bytes);
    row("host", "host", host, (addr_t)malloc(bytes), bytes);
}

static MPI_Datatype rows_type(size_t row, size_t rows)
{
    MPI_Aint *at = malloc(rows * sizeof(*at));
    MPI_Datatype type, resized;

    for (size_t i = 0; i < rows; i++) {
        at[i] = (MPI_Aint)(2 * i * row + i % 3 * 16);
    }
    MPI_Type_create_hindexed_block((int)rows, (int)row, at, MPI_BYTE, &type);
    MPI_Type_create_resized(type, 0, (MPI_Aint)(2 * rows * row + 64), &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&type);
    free(at);
    return resized;
}

static double typed_time(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                         MPI_Datatype recv_type)
{
    for (int i = -2; i < CALLS; i++) {
        double begin = begin_together();

        MPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, MPI_COMM_WORLD);
        times[i < 0 ? 0 : i] = slowest_since(begin);
    }
    return median(times, CALLS);
}

static void rows(size_t row)
{
    enum { BLOCK = 4 << 20 };
    MPI_Datatype type = rows_type(row, BLOCK / row);
    void *send = (void *)app_alloc(2 * BLOCK + 64), *recv = (void *)app_alloc((size_t)n * (2 * BLOCK + 64));
    double both = typed_time(send, 1, type, recv, 1, type), sent = typed_time(send, 1, type, recv, BLOCK, MPI_BYTE),
           received = typed_time(send, BLOCK, MPI_BYTE, recv, 1, type);

    if (rank == 0) {
        printf("rows        of %zu bytes, blocks of 4 MiB, all-gather: %.1f us, sent %.1f, received %.1f\n", row, both,
               sent, received);
        fflush(stdout);
    }
    MPI_Type_free(&type);
    app_must("cuMemFree", app_cu.release((addr_t)send));
    app_must("cuMemFree", app_cu.release((addr_t)recv));
}

static void new_buffers(size_t bytes)
{
    for (int i = 0; i < CALLS; i++) {
        addr_t send = app_alloc(bytes), recv = app_alloc(bytes);

        times[i] = timed(false, send, recv, bytes);
        app_must("cuMemFree", app_cu.release(send));
        app_must("cuMemFree", app_cu.release(recv));
    }
    if (rank == 0) {
        printf("new         %zu bytes, all-gather: %.1f us\n", bytes, median(times, CALLS));
    }
}

static void turns(size_t bytes)
{
    static addr_t send[PAIRS], recv[PAIRS];
    double sum[PAIRS];

    for (int i = 0; i < PAIRS; i++) {
        send[i] = app_alloc(bytes);
        recv[i] = app_alloc(bytes);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < PAIRS; i++) {
            sum[i] = timed(false, send[i], recv[i], bytes);
        }
        if (rank == 0) {
            printf("turns       %zu bytes, all-gather, %d pairs of buffers, round %d: %.1f us\n", bytes, PAIRS, round,
                   median(sum, PAIRS));
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        app_must("cuMemFree", app_cu.release(send[i]));
        app_must("cuMemFree", app_cu.release(recv[i]));
    }
}

static double start_time(MPI_Request *request)
{
    double begin = begin_together();

    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    return slowest_since(begin);
}

static void requests(size_t bytes)
{
    static MPI_Request request[PAIRS];
    addr_t send = app_alloc(bytes), recv = app_alloc(bytes);
    int block = (int)(bytes / (size_t)n);

    for (int i = 0; i < PAIRS; i++) {
        double init = -MPI_Wtime();

        app_must("MPI_Allgather_init", PERSISTENT(Allgather)((void *)send, block, MPI_BYTE, (void *)recv, block,
                                                             MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request[i]));
        init += MPI_Wtime();
        for (int turn = 0; turn < CALLS; turn++) {
            times[turn] = start_time(&request[i]);
        }
        if (rank == 0 && ((i + 1) & i) == 0) {
            double first = times[0];

            printf("requests    %zu bytes, all-gather, request %d: init %.1f us, first start %.1f us, median %.1f us\n",
                   bytes, i + 1, init * 1e6, first, median(times, CALLS));
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        MPI_Request_free(&request[i]);
    }
}

int main(int argc, char **argv)
{
    static char *const standard[] = {"65536", "1048576", "67108864", NULL};
    bool only = argc > 1 && !strcmp(argv[1], "kinds");
    char *const *sizes = argc > 1 + only ? argv + 1 + only : standard;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    app_open(rank);
    if (rank == 0) {
        printf("%10s  %-22s %-22s %10s %10s\n", "bytes", "send", "receive", "allgather", "alltoall");
    }
    for (; *sizes; sizes++) {
        kinds(strtoul(*sizes, NULL, 10));
    }
    if (only) {
        MPI_Finalize();
        return 0;
    }
    for (size_t row_bytes = 512; row_bytes <= 65536; row_bytes *= row_bytes < 4096 ? 2 : 4) {
        rows(row_bytes);
    }
    new_buffers(1 << 20);
    turns(65536);
    requests(65536);
    MPI_Finalize();
    return 0;
}
