/* One measurement: see gpu_bench.h. Ranks begin together: a barrier in shared memory, a pause before it. */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu_bench.h"

#define PAUSE_US   15.0
#define MOST_CALLS 200000

typedef struct line {
    _Atomic uint32_t word;
    char pad[124];
} line_t;

static line_t *lines; /* one for each rank, and one that ends a window */
static bool crowded;  /* more ranks than cores */

double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void time_open(void)
{
    char name[64];
    size_t bytes = ((size_t)bench.n + 1) * sizeof(line_t);
    int fd = -1, pid = (int)getpid();

    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof(name), "/dma-gpu-bench-%d", pid);
    if (bench.rank == 0) {
        fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    fd = fd < 0 ? shm_open(name, O_RDWR, 0600) : fd;
    lines = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || lines == MAP_FAILED) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench.rank == 0) {
        shm_unlink(name);
    }
    crowded = sysconf(_SC_NPROCESSORS_ONLN) < 2L * bench.n;
}

void time_barrier(void)
{
    static uint32_t turn;

    atomic_store_explicit(&lines[bench.rank].word, ++turn, memory_order_release);
    for (int r = 0; r < bench.n; r++) {
        while ((int32_t)(atomic_load_explicit(&lines[r].word, memory_order_acquire) - turn) < 0) {
            if (crowded) {
                sched_yield();
            }
        }
    }
}

double most_of_ranks(double value)
{
    double most;

    MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int calls_for(size_t bytes)
{
    int n = bytes <= 65536 ? 100 : bytes <= 1 << 20 ? 60 : bytes <= 16 << 20 ? 20 : bytes <= 64 << 20 ? 10 : 5;

    n = n * bench.scale / 100;
    return n < 3 ? 3 : n;
}

static double one_call(int mode)
{
    double t = now_us();

    while (now_us() - t < PAUSE_US) {
    }
    time_barrier();
    t = now_us();
    mode_call(mode);
    return now_us() - t;
}

/* Calls until rank 0 says that the time is over: it says how many there will be. */
static int window(int mode, double seconds, double *times)
{
    _Atomic uint32_t *last = &lines[bench.n].word;
    double end = now_us() + seconds * 1e6;
    int n = 0;

    time_barrier();
    if (bench.rank == 0) {
        atomic_store(last, 0);
    }
    time_barrier();
    for (;;) {
        if (bench.rank == 0 && !atomic_load(last) && (now_us() > end || n + 2 >= MOST_CALLS)) {
            atomic_store(last, (uint32_t)n + 1);
        }
        times[n++] = one_call(mode);
        if (atomic_load(last) == (uint32_t)n) {
            return n;
        }
    }
}

timing_t time_mode(int mode, const what_t *what, double seconds)
{
    static double *times;
    int n = calls_for(what->bytes), warm = n / 5 + 2;
    double sum = 0;
    timing_t t;

    if (!times && !(times = malloc(MOST_CALLS * sizeof(*times)))) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < warm; i++) {
        one_call(mode);
    }
    if (seconds > 0) {
        n = window(mode, seconds, times);
    } else {
        for (int i = 0; i < n; i++) {
            times[i] = one_call(mode);
        }
    }
    for (int i = 0; i < n; i++) {
        sum += times[i];
    }
    qsort(times, (size_t)n, sizeof(*times), ascending);
    t = (timing_t){.p50 = times[n / 2], .p99 = times[n * 99 / 100], .mean = sum / n};
    return (timing_t){.p50 = most_of_ranks(t.p50), .p99 = most_of_ranks(t.p99), .mean = most_of_ranks(t.mean)};
}
