/*
 * coll_dma_accept_worker: a rank of the jobs that coll_dma_accept starts with mpirun. Collectives in device memory, whose
 * every byte is checked. Rank 0 says "accept: data right" at the end.
 *
 *     start            nothing
 *     check            all-gathers and all-to-alls of several sizes, in place and not, and starts of a persistent one
 *     types            the same with rows that have gaps between them
 *     again N          N starts of a persistent all-gather, some after a pause, in which its armed programs are revoked
 *     die              every process is killed while programs are armed
 *     hold FILE        programs are armed, and no rank calls MPI until FILE is gone
 *     time COLLECTIVES REPEATS BYTES...
 *                      prints lines "accept: time FORM COLLECTIVE BYTES US" with the median of the slowest rank's times;
 *                      COLLECTIVES: a string of the letters g (all-gather in place), a (all-to-all), x (in place)
 */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/mpi_names.h"

#define COPY_ANY     4 /* hipMemcpyDefault */
#define HOLD_SECONDS 600
#define SMALL        4096
#define CLEAR        0x55 /* a byte of a receive buffer that nobody has written */

static int rank, ranks;

static struct {
    int (*count)(int *count);
    int (*set_device)(int device);
    int (*alloc)(void **memory, size_t bytes);
    int (*free)(void *memory);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*set)(void *memory, int value, size_t bytes);
    int (*sync)(void);
} hip;

static void expect(bool holds, const char *what)
{
    if (!holds) {
        printf("accept: rank %d: %s\n", rank, what);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define MPI(call) expect((call) == MPI_SUCCESS, #call)
#define HIP(call) expect((call) == 0, #call)

static void open_hip(void)
{
    static const char *const libraries[] = {"libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6",
                                            "libamdhip64.so.5", "libamdhip64.so"};
    static const char *const names[] = {"hipGetDeviceCount", "hipSetDevice", "hipMalloc",           "hipFree",
                                        "hipMemcpy",         "hipMemset",    "hipDeviceSynchronize"};
    void *library = NULL;
    int devices;

    _Static_assert(sizeof(names) / sizeof(names[0]) * sizeof(void *) == sizeof(hip), "a name for every call");
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !library; i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
    }
    expect(library, "libamdhip64.so cannot be loaded: set LD_LIBRARY_PATH");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i]);

        expect(symbol, names[i]);
        memcpy((char *)&hip + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    expect(hip.count(&devices) == 0 && devices > 0, "HIP sees no device");
    HIP(hip.set_device(rank % devices));
}

static char *device_memory(size_t bytes)
{
    void *memory = NULL;

    HIP(hip.alloc(&memory, bytes));
    return memory;
}

/* ---- data ---- */

/* Byte i of the block from one rank to another. */
static char byte_of(int from, int to, int salt, size_t i)
{
    return (char)(from * 31 + to * 7 + salt * 13 + (int)(i % 251));
}

/* Fills a block: rows of `row` bytes, `pitch` bytes apart, with `gap` between them. */
static void fill(char *block, int to, int salt, size_t bytes, size_t row, size_t pitch, int gap)
{
    size_t span = bytes / row * pitch;
    char *host = malloc(span);

    expect(host, "no memory");
    memset(host, gap, span);
    for (size_t i = 0; i < bytes; i++) {
        host[i / row * pitch + i % row] = byte_of(rank, to, salt, i);
    }
    HIP(hip.copy(block, host, span, COPY_ANY));
    free(host);
}

/* Checks a received block, and that its gaps have stayed as `clear` made them. */
static void check(const char *block, int from, int to, int salt, size_t bytes, size_t row, size_t pitch)
{
    size_t span = bytes / row * pitch;
    char *host = malloc(span), wanted, text[128];

    expect(host, "no memory");
    HIP(hip.copy(host, block, span, COPY_ANY));
    for (size_t i = 0; i < span; i++) {
        wanted = i % pitch < row ? byte_of(from, to, salt, i / pitch * row + i % pitch) : CLEAR;
        if (host[i] != wanted) {
            snprintf(text, sizeof(text), "wrong data: byte %zu of %zu from rank %d is %d, not %d", i, span, from,
                     host[i], wanted);
            expect(false, text);
        }
    }
    free(host);
}

static void clear(char *recv, size_t span)
{
    HIP(hip.set(recv, CLEAR, span * (size_t)ranks));
    HIP(hip.sync());
}

/* ---- calls ---- */

static void call(bool to_all, const void *send, char *recv, int n, MPI_Datatype type)
{
    if (to_all) {
        MPI(MPI_Alltoall(send, n, type, recv, n, type, MPI_COMM_WORLD));
    } else {
        MPI(MPI_Allgather(send, n, type, recv, n, type, MPI_COMM_WORLD));
    }
}

/* A collective with blocks of `rows` rows. */
static void once(bool to_all, bool in_place, size_t rows, size_t row, size_t pitch, char *send, char *recv)
{
    size_t bytes = rows * row, span = rows * pitch;
    int salt = (int)(bytes % 97);
    char *from = in_place ? recv : send;
    MPI_Datatype plain, type;

    MPI(MPI_Type_contiguous((int)row, MPI_BYTE, &plain));
    MPI(MPI_Type_create_resized(plain, 0, (MPI_Aint)pitch, &type));
    MPI(MPI_Type_commit(&type));
    clear(recv, span);
    for (int to = 0; to < (to_all ? ranks : 1); to++) {
        int block = in_place && !to_all ? rank : to;

        fill(from + (size_t)block * span, to, salt, bytes, row, pitch, in_place ? CLEAR : ~CLEAR);
    }
    HIP(hip.sync());
    call(to_all, in_place ? MPI_IN_PLACE : send, recv, (int)rows, type);
    for (int r = 0; r < ranks; r++) {
        check(recv + (size_t)r * span, r, to_all ? rank : 0, salt, bytes, row, pitch);
    }
    MPI(MPI_Type_free(&type));
    MPI(MPI_Type_free(&plain));
}

/* Calls MPI for a while, so that armed programs can be revoked. */
static void pause_in_mpi(double seconds)
{
    double until = MPI_Wtime() + seconds;
    int flag;

    while (MPI_Wtime() < until) {
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
}

static void start(MPI_Request *request, int salt, char *send, char *recv)
{
    fill(send, 0, salt, SMALL, SMALL, SMALL, 0);
    clear(recv, SMALL);
    MPI(MPI_Start(request));
    MPI(MPI_Wait(request, MPI_STATUS_IGNORE));
    for (int r = 0; r < ranks; r++) {
        check(recv + (size_t)r * SMALL, r, 0, salt, SMALL, SMALL, SMALL);
    }
}

static void persistent(MPI_Request *request, char *send, char *recv)
{
    MPI(PERSISTENT(Allgather)(send, SMALL, MPI_BYTE, recv, SMALL, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, request));
}

static void starts(int n, double pause, char *send, char *recv)
{
    MPI_Request request;

    persistent(&request, send, recv);
    for (int salt = 0; salt < n; salt++) {
        start(&request, salt, send, recv);
        pause_in_mpi(salt % 2 ? pause : 0);
    }
    MPI(MPI_Request_free(&request));
}

/* ---- modes ---- */

static void mode_check(void)
{
    static const size_t sizes[] = {4, 100, SMALL, 100003, 1 << 20};
    size_t most = sizes[4] * (size_t)ranks;
    char *send = device_memory(most), *recv = device_memory(most);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int form = 0; form < 4; form++) {
            once(form & 1, form & 2, 1, sizes[i], sizes[i], send, recv);
        }
    }
    starts(6, 0, send, recv);
    HIP(hip.free(send));
    HIP(hip.free(recv));
}

static void mode_types(void)
{
    static const size_t rows[][3] = {{1000, 8, 32}, {63, 100, 117}, {5, 3000, 4096}}; /* number, bytes, distance */
    size_t most = (64u << 10) * (size_t)ranks;
    char *send = device_memory(most), *recv = device_memory(most);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int form = 0; form < 3; form++) {
            once(form & 1, form & 2, rows[i][0], rows[i][1], rows[i][2], send, recv);
        }
    }
    HIP(hip.free(send));
    HIP(hip.free(recv));
}

/* Programs are armed. Then all processes are killed, or they wait until a file is gone. */
static void mode_armed(const char *file)
{
    char *send = device_memory((size_t)SMALL * (size_t)ranks), *recv = device_memory((size_t)SMALL * (size_t)ranks);
    MPI_Request request;

    persistent(&request, send, recv);
    start(&request, 1, send, recv);
    if (!file) {
        raise(SIGKILL);
    }
    printf("accept: rank %d holds\n", rank);
    fflush(stdout);
    for (int i = 0; i < HOLD_SECONDS * 100 && access(file, F_OK) == 0; i++) {
        usleep(10000);
    }
    start(&request, 2, send, recv);
    MPI(MPI_Request_free(&request));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median over the repetitions of the slowest rank's time, in microseconds. */
static double median(double *times, int n)
{
    MPI(MPI_Allreduce(MPI_IN_PLACE, times, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    qsort(times, (size_t)n, sizeof(*times), ascending);
    return times[n / 2] * 1e6;
}

static void time_one(char what, bool again, int n, int bytes, char *send, char *recv)
{
    bool to_all = what != 'g';
    const void *from = what == 'a' ? (const void *)send : MPI_IN_PLACE;
    double *times = malloc((size_t)n * sizeof(*times));
    MPI_Request request = MPI_REQUEST_NULL;

    expect(times, "no memory");
    if (again && to_all) {
        MPI(PERSISTENT(Alltoall)(from, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &request));
    } else if (again) {
        MPI(PERSISTENT(Allgather)(from, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &request));
    }
    for (int i = -2; i < n; i++) { /* the first two open memory and the like */
        double begin;

        MPI(MPI_Barrier(MPI_COMM_WORLD));
        begin = MPI_Wtime();
        if (again) {
            MPI(MPI_Start(&request));
            MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            call(to_all, from, recv, bytes, MPI_BYTE);
        }
        times[i < 0 ? 0 : i] = MPI_Wtime() - begin;
    }
    if (again) {
        MPI(MPI_Request_free(&request));
    }
    times[0] = median(times, n);
    if (rank == 0) {
        printf("accept: time %s %s %d %.2f\n", again ? "persistent" : "blocking",
               what == 'g'   ? "allgather"
               : what == 'a' ? "alltoall"
                             : "alltoall-in-place",
               bytes, times[0]);
    }
    free(times);
}

static void mode_time(const char *what, int repeats, char **sizes)
{
    for (; *sizes; sizes++) {
        size_t bytes = strtoul(*sizes, NULL, 10), all = bytes * (size_t)ranks;
        char *send = device_memory(all), *recv = device_memory(all);

        for (const char *w = what; *w; w++) {
            time_one(*w, false, repeats, (int)bytes, send, recv);
            time_one(*w, true, repeats, (int)bytes, send, recv);
        }
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        HIP(hip.free(send));
        HIP(hip.free(recv));
    }
}

static void run(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (!strcmp(mode, "start")) {
        return;
    }
    if (!strcmp(mode, "check")) {
        mode_check();
    } else if (!strcmp(mode, "types")) {
        mode_types();
    } else if (!strcmp(mode, "again") && argc > 2) {
        size_t most = (size_t)SMALL * (size_t)ranks;

        starts(atoi(argv[2]), 0.003, device_memory(most), device_memory(most));
    } else if (!strcmp(mode, "die")) {
        mode_armed(NULL);
    } else if (!strcmp(mode, "hold") && argc > 2) {
        mode_armed(argv[2]);
    } else if (!strcmp(mode, "time") && argc > 3) {
        mode_time(argv[2], atoi(argv[3]), argv + 4);
    } else {
        expect(false, "there is no such mode");
    }
}

int main(int argc, char **argv)
{
    MPI(MPI_Init(&argc, &argv));
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    open_hip();
    run(argc, argv);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        printf("accept: data right\n");
    }
    MPI_Finalize();
    return 0;
}
