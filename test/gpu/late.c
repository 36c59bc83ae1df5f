/*
 * What an all-gather takes from a matrix product that runs beside it, if ranks do not arrive together, on NVIDIA GPUs. One MPI
 * program:
 *
 *   mpirun -n N late [BYTES]     bytes of the receive buffer; 268435456 if not given
 *
 * Each rank posts MPI_Iallgather in place and launches a product of 8192 x 8192 matrices (bf16, cuBLAS), or the other way
 * round. Then it waits for the product, without a call of MPI, and after that for the collective. Rank 0 begins later than the
 * others by so many microseconds. The loss is the time of both less that of a product alone, in microseconds, the median of the
 * turns: of rank 0, and of the slowest other rank. A loss is less than 0 if the product alone was slower. The data are
 * compared.
 *
 * Exit status: 0; 1 wrong data; 77 without cuBLAS.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_driver.h"
#include "matrix.h"

enum { TURNS = 21, BF16 = 14, COMPUTE_32F = 68, DEFAULT_ALGORITHM = -1, NON_BLOCKING = 1, CHECKED = 4096 };

static struct {
    int (*create)(handle_t *blas);
    int (*set_stream)(handle_t blas, handle_t stream);
    int (*product)(handle_t blas, int, int, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                   const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
                   int algorithm);
    int (*stream_create)(handle_t *stream, unsigned flags);
    int (*stream_wait)(handle_t stream);
    handle_t blas, stream;
    addr_t a, b, c;
} cu;

static int rank, ranks, block;
static addr_t recv_buffer;
static bool wrong;

static void *call_of(void *library, const char *name)
{
    void *call = dlsym(library, name);

    app_must(name, !call);
    return call;
}

static addr_t matrix(uint64_t seed)
{
    size_t bytes = (size_t)SIDE * SIDE * 2;
    uint16_t *host = random_matrix(seed);
    addr_t memory = app_alloc(bytes);

    app_must("malloc", !host);
    app_must("write", app_cu.write(memory, host, bytes));
    free(host);
    return memory;
}

static bool open_blas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};
    void *library = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    for (int i = 0; i < 4 && !library; i++) {
        library = dlopen(names[i], RTLD_NOW);
    }
    if (!library) {
        return false;
    }
    *(void **)&cu.create = call_of(library, "cublasCreate_v2");
    *(void **)&cu.set_stream = call_of(library, "cublasSetStream_v2");
    *(void **)&cu.product = call_of(library, "cublasGemmEx");
    *(void **)&cu.stream_create = call_of(driver, "cuStreamCreate");
    *(void **)&cu.stream_wait = call_of(driver, "cuStreamSynchronize");
    app_must("stream", cu.stream_create(&cu.stream, NON_BLOCKING));
    app_must("cublasCreate", cu.create(&cu.blas));
    app_must("cublasSetStream", cu.set_stream(cu.blas, cu.stream));
    cu.a = matrix(SEED_A);
    cu.b = matrix(SEED_B);
    cu.c = app_alloc((size_t)SIDE * SIDE * 2);
    return true;
}

static void multiply(void)
{
    static const float one = 1, zero = 0;

    app_must("cublasGemmEx", cu.product(cu.blas, 0, 1, SIDE, SIDE, SIDE, &one, (void *)cu.a, BF16, SIDE, (void *)cu.b,
                                        BF16, SIDE, &zero, (void *)cu.c, BF16, SIDE, COMPUTE_32F, DEFAULT_ALGORITHM));
}

static void spin(double us)
{
    double begin = MPI_Wtime();

    while ((MPI_Wtime() - begin) * 1e6 < us) {
    }
}

/* Microseconds of one turn; `us`: how much later rank 0 begins. */
static double turn(bool gathers, bool product_first, double us)
{
    MPI_Request request = MPI_REQUEST_NULL;
    double begin;

    MPI_Barrier(MPI_COMM_WORLD);
    spin(rank ? 0 : us);
    begin = MPI_Wtime();
    if (product_first) {
        multiply();
    }
    if (gathers) {
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, (void *)recv_buffer, block, MPI_BYTE, MPI_COMM_WORLD, &request);
    }
    if (!product_first) {
        multiply();
    }
    app_must("wait", cu.stream_wait(cu.stream));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return (MPI_Wtime() - begin) * 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The beginning of each block, which has its rank's number. */
static void fill(void)
{
    unsigned char host[CHECKED];

    for (int r = 0; r < ranks; r++) {
        memset(host, r == rank ? r + 1 : 0xEE, sizeof(host));
        app_must("write", app_cu.write(recv_buffer + (size_t)r * (size_t)block, host, sizeof(host)));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check(void)
{
    unsigned char host[CHECKED];

    for (int r = 0; r < ranks; r++) {
        app_must("read", app_cu.read(host, recv_buffer + (size_t)r * (size_t)block, sizeof(host)));
        for (int i = 0; i < CHECKED; i++) {
            wrong |= host[i] != r + 1;
        }
    }
}

/* Medians of the turns: of this rank. */
static void measure(bool product_first, double us)
{
    double alone[TURNS], both[TURNS], mine, first, others;

    fill();
    for (int i = 0; i < TURNS; i++) {
        alone[i] = turn(false, product_first, us);
        both[i] = turn(true, product_first, us);
    }
    check();
    qsort(alone, TURNS, sizeof(*alone), by_value);
    qsort(both, TURNS, sizeof(*both), by_value);
    mine = both[TURNS / 2] - alone[TURNS / 2];
    first = rank ? -1e9 : mine;
    others = rank ? mine : -1e9;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &others, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (!rank) {
        printf("%-14s %6.0f %8.0f %8.0f   product alone %.0f\n", product_first ? "product first" : "posted first", us,
               first, others, alone[TURNS / 2]);
    }
}

int main(int argc, char **argv)
{
    static const double lateness[] = {0, 30, 60, 200, 500, 1000};
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 268435456;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    app_open(rank);
    if (!open_blas()) {
        fprintf(stderr, "there is no cuBLAS\n");
        MPI_Finalize();
        return 77;
    }
    block = (int)(bytes / (size_t)ranks);
    recv_buffer = app_alloc(bytes);
    for (int i = 0; i < TURNS; i++) {
        turn(true, false, 0);
    }
    if (!rank) {
        printf("%-14s %6s %8s %8s   us\n", "order", "late", "rank 0", "others");
    }
    for (int first = 0; first < 2; first++) {
        for (size_t i = 0; i < sizeof(lateness) / sizeof(lateness[0]); i++) {
            measure(first, lateness[i]);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD);
    if (!rank) {
        printf("data %s\n", wrong ? "WRONG" : "right");
    }
    MPI_Finalize();
    return wrong;
}
