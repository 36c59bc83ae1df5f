/*
 * What applications on CUDA do around collectives, on a real driver: one MPI program, one case per run.
 *
 *   mpirun -n N app_check CASE
 *     self     collectives on communicators of one rank in device memory
 *     stale    the send buffer is filled by a copy from pageable memory just before each call, from 64 KiB to 1 MiB: the
 *              driver lets such a copy return before its bytes have arrived
 *     start    persistent starts just after a memset in the default stream that takes longer than the call; for
 *              coll_dma_stream_sync 1
 *     kinds    buffers of the stream-ordered allocator, virtually mapped, managed and registered memory
 *     remap    receive buffers of several mapped parts, of all ranks or all except one, at odd offsets; their owners map
 *              other memory at the same addresses between the calls
 *     reset    the primary context is reset before MPI_Finalize
 *     again    the same, then calls on a new communicator in new memory
 *
 * Exit status 0: all data were right, and MPI_Finalize has returned. The application's own calls go directly to the driver.
 * Ranks share the GPUs of the machine.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../mpi/verify.h"
#include "app_driver.h"

enum { MOST = 1 << 20, BIG = 5 << 20, FAR = 256 << 20 };

static int rank, n;
static int wrong;
static unsigned char *host, *back;

static unsigned char byte_of(int from, int to, int round, size_t at)
{
    return (unsigned char)(from * 37 + to * 11 + round * 5 + at * 3 + (at >> 8));
}

/* Fills a send buffer for an all-to-all by a copy from pageable memory. Nothing waits for the copy. */
static void fill(addr_t send, size_t block, int round, int me, int size)
{
    for (int to = 0; to < size; to++) {
        for (size_t at = 0; at < block; at++) {
            host[(size_t)to * block + at] = byte_of(me, to, round, at);
        }
    }
    app_must("cuMemcpyHtoD", app_cu.write(send, host, (size_t)size * block));
}

static void check(addr_t recv, size_t block, int round, int me, int size, bool gathered, const char *what)
{
    size_t bad = 0;

    memset(back, 0, (size_t)size * block);
    app_must("cuMemcpyDtoH", app_cu.read(back, recv, (size_t)size * block));
    for (int from = 0; from < size; from++) {
        for (size_t at = 0; at < block; at++) {
            bad += back[(size_t)from * block + at] != byte_of(from, gathered ? 0 : me, round, at);
        }
    }
    if (bad && wrong++ < 3) {
        fprintf(stderr, "app_check: rank %d: %s, %zu bytes, round %d: %zu bytes are wrong\n", rank, what, block, round,
                bad);
    }
}

static void one_call(MPI_Comm comm, addr_t send, addr_t recv, size_t block, int round, const char *what)
{
    int me, size;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    fill(send, block, round, me, size);
    if (round % 2) {
        MPI_Allgather((void *)send, (int)block, MPI_BYTE, (void *)recv, (int)block, MPI_BYTE, comm);
    } else {
        MPI_Alltoall((void *)send, (int)block, MPI_BYTE, (void *)recv, (int)block, MPI_BYTE, comm);
    }
    check(recv, block, round, me, size, round % 2, what);
}

static void run_self(void)
{
    addr_t send = app_alloc(MOST), recv = app_alloc(MOST);
    MPI_Comm alone;

    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
    for (int round = 0; round < 40; round++) {
        one_call(round % 4 < 2 ? MPI_COMM_SELF : alone, send, recv, 1u << (round % 21), round, "one rank");
    }
    MPI_Comm_free(&alone);
}

static void run_stale(void)
{
    addr_t send = app_alloc((size_t)n * MOST), recv = app_alloc((size_t)n * MOST);

    for (size_t block = 64 << 10; block <= MOST; block *= 2) {
        for (int round = 0; round < 200; round++) {
            one_call(MPI_COMM_WORLD, send, recv, block, round, "stale");
        }
    }
}

static void run_start(void)
{
    addr_t send = app_alloc(MOST), recv = app_alloc((size_t)n * MOST), far = app_alloc(FAR);
    size_t block = 64 << 10;
    MPI_Request request;
    size_t bad = 0;

    app_must("MPI_Allgather_init", PERSISTENT(Allgather)((void *)send, (int)block, MPI_BYTE, (void *)recv, (int)block,
                                                         MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 8; i++) {
            app_must("cuMemsetD8Async", app_cu.set(far, (unsigned char)i, FAR, NULL));
        }
        app_must("cuMemsetD8Async", app_cu.set(send, (unsigned char)(rank + round), block, NULL));
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        app_must("cuMemcpyDtoH", app_cu.read(back, recv, (size_t)n * block));
        bad = 0;
        for (size_t at = 0; at < (size_t)n * block; at++) {
            bad += back[at] != (unsigned char)(at / block + (size_t)round);
        }
        if (bad && wrong++ < 3) {
            fprintf(stderr, "app_check: rank %d: start %d: %zu bytes are wrong\n", rank, round, bad);
        }
    }
    MPI_Request_free(&request);
}

static void run_kinds(void)
{
    for (int kind = 0; kind < APP_KINDS; kind++) {
        addr_t send = app_kind_alloc(kind, (size_t)n * MOST), recv = app_kind_alloc(kind, (size_t)n * MOST);
        double from = 0;

        for (int round = 0; round < 60; round++) {
            size_t block = (size_t)(1 + round) * 17001 % MOST;

            fill(send, block, round, rank, n);
            app_must("cuCtxSynchronize", app_cu.wait());
            from -= MPI_Wtime();
            MPI_Alltoall((void *)send, (int)block, MPI_BYTE, (void *)recv, (int)block, MPI_BYTE, MPI_COMM_WORLD);
            from += MPI_Wtime();
            check(recv, block, round, rank, n, false, app_kind_names[kind]);
        }
        if (rank == 0) {
            printf("%s: %.0f us a call\n", app_kind_names[kind], from / 60 * 1e6);
        }
    }
}

/* Ids of buffers and bases of ranges may be the same as before. If a peer still used the old memory, data would be
 * missing. */
static void run_remap(void)
{
    size_t bytes = (size_t)n * BIG;
    addr_t send = app_kind_alloc(APP_PARTS, bytes);
    addr_t mapped = app_kind_alloc(APP_PARTS, bytes + 4096), plain = app_alloc(bytes + 4096);

    for (int round = 0; round < 80; round++) {
        addr_t recv = round >= 40 && rank == 0 ? plain : mapped;
        double begin = MPI_Wtime();

        one_call(MPI_COMM_WORLD, send, recv + (addr_t)(round % 5) * 777, BIG - (size_t)round * 1001, round, "remap");
        if (rank == 0 && round % 20 == 19) {
            printf("round %d: %.0f us with filling and checking\n", round, (MPI_Wtime() - begin) * 1e6);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (round % 3 != rank % 3) {
            app_must("cuCtxSynchronize", app_cu.wait());
            app_remap(mapped + (addr_t)round % (bytes / APP_PART) * APP_PART);
        }
    }
}

static void run_reset(bool again)
{
    addr_t send = app_alloc((size_t)n * MOST), recv = app_alloc((size_t)n * MOST);
    handle_t context;
    MPI_Comm comm;

    for (int round = 0; round < 10; round++) {
        one_call(MPI_COMM_WORLD, send, recv, 40000, round, "before the reset");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    app_must("cuDevicePrimaryCtxReset", app_cu.reset(app_device));
    if (!again) {
        return;
    }
    app_must("cuDevicePrimaryCtxRetain", app_cu.retain(&context, app_device));
    app_must("cuCtxSetCurrent", app_cu.current(context));
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    send = app_alloc((size_t)n * MOST);
    recv = app_alloc((size_t)n * MOST);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    app_must("a call after the reset succeeds",
             MPI_Allgather((void *)(uintptr_t)send, 1, MPI_INT, (void *)(uintptr_t)recv, 1, MPI_INT, comm) ==
                 MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    host = malloc((size_t)n * BIG);
    back = malloc((size_t)n * BIG);
    app_open(rank);
    if (strcmp(name, "self") == 0) {
        run_self();
    } else if (strcmp(name, "stale") == 0) {
        run_stale();
    } else if (strcmp(name, "start") == 0) {
        run_start();
    } else if (strcmp(name, "kinds") == 0) {
        run_kinds();
    } else if (strcmp(name, "remap") == 0) {
        run_remap();
    } else if (strcmp(name, "reset") == 0 || strcmp(name, "again") == 0) {
        run_reset(name[0] == 'a');
    } else {
        fprintf(stderr, "app_check: no case '%s'\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    app_must("wrong data", wrong);
    MPI_Finalize();
    printf("app_check: rank %d: %s: right\n", rank, name);
    return 0;
}
