/* Collectives beside a load: see gpu_bench.h. */
#include <dlfcn.h>
#include <mpi.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "gpu_bench.h"

#define WINDOW_SECONDS 0.2
#define ENERGY_SECONDS 3.0
#define OVERLAP_CALLS  20
#define OVERLAP_TURNS  5 /* whose middle one counts */
#define LATE_US        200.0

/* ---- matrix products ---- */

/* One cell: microseconds idle, and while products are made. */
static void gemm_cell(const what_t *what, int mode, FILE *csv)
{
    timing_t idle, busy;
    double t, rate;
    long begun;

    idle = time_mode(mode, what, WINDOW_SECONDS);
    bench.gemm->run(true);
    usleep(50000);
    begun = bench.gemm->done();
    t = now_us();
    busy = time_mode(mode, what, 2 * WINDOW_SECONDS);
    rate = (double)(bench.gemm->done() - begun) * 2 * 8192.0 * 8192.0 * 8192.0 / (now_us() - t) * 1e-6;
    rate = -most_of_ranks(-rate);
    bench.gemm->run(false);
    if (bench.rank) {
        return;
    }
    printf(" %8.1f >%8.1f", idle.p50, busy.p50);
    if (csv) {
        fprintf(csv, "%s,%s,%zu,%s,%.2f,%.2f,%.2f,%.1f\n", what->to_each ? "alltoall" : "allgather",
                what->in_place ? "in" : "out", what->bytes, mode_name(mode), idle.p50, busy.p50, busy.p99, rate);
    }
}

static const size_t gemm_sizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};

static void gemm_row(bool to_each, bool in_place, int mode, FILE *csv)
{
    if (mode == OURS_PERSISTENT || mode_graph(mode) || (to_each && in_place && mode >= OUR_MODES)) {
        return;
    }
    if (bench.rank == 0) {
        printf("%-10s %-3s %-15s", to_each ? "all-to-all" : "all-gather", in_place ? "in" : "out", mode_name(mode));
    }
    for (size_t s = 0; s < sizeof(gemm_sizes) / sizeof(gemm_sizes[0]) && gemm_sizes[s] <= bench.most; s++) {
        what_t what = {.to_each = to_each, .in_place = in_place, .bytes = gemm_sizes[s]};

        if (mode_prepare(mode, &what)) {
            gemm_cell(&what, mode, csv);
            mode_finish(mode);
        }
    }
    if (bench.rank == 0) {
        printf("\n");
        fflush(stdout);
    }
}

void load_gemm(void)
{
    const char *why = bench.gemm ? bench.gemm->open(device_index()) : "no matrix products were built";
    FILE *csv;

    if (most_of_ranks(why != NULL) > 0) {
        fprintf(stderr, "rank %d: %s\n", bench.rank, why ? why : "another rank has none");
        return;
    }
    csv = csv_open("gemm", "operation,place,bytes,mode,idle_p50_us,busy_p50_us,busy_p99_us,tflops");
    if (bench.rank == 0) {
        printf("p50 in microseconds, idle > with matrix products on every GPU%s%s\n%-30s %18s %18s %18s %18s\n",
               bench.note ? "; " : "", bench.note ? bench.note : "", "", "64K", "1M", "16M", "64M");
    }
    for (int op = 0; op < 2; op++) {
        for (int place = 0; place < 2; place++) {
            for (int m = 0; m < modes_count(); m++) {
                gemm_row(op, place, m, csv);
            }
        }
    }
    if (csv) {
        fclose(csv);
    }
    bench.gemm->close();
}

/* ---- computing processors ---- */

static void compute(double us)
{
    for (double t = now_us(); now_us() - t < us;) {
    }
}

/* A non-blocking call with so much computing before the wait: mean microseconds of a rank in all, in calls alone. */
typedef struct overlap {
    double all, calls;
} overlap_t;

static overlap_t overlapped(const what_t *what, char *send, char *recv, double computing, bool late)
{
    int block = (int)(what->bytes / (size_t)bench.n),
        n = what->bytes >= 64 << 20 ? OVERLAP_CALLS / 2 : 5 * OVERLAP_CALLS;
    overlap_t sum = {0};

    for (int i = -3; i < n; i++) {
        MPI_Request request;
        double t, in_call;

        time_barrier();
        if (late && bench.rank == bench.n - 1) {
            compute(LATE_US);
        }
        t = now_us();
        if (what->to_each) {
            MPI_Ialltoall(send, block, MPI_BYTE, recv, block, MPI_BYTE, MPI_COMM_WORLD, &request);
        } else {
            MPI_Iallgather(send, block, MPI_BYTE, recv, block, MPI_BYTE, MPI_COMM_WORLD, &request);
        }
        in_call = now_us() - t;
        compute(computing);
        in_call -= now_us();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        in_call += now_us();
        if (i >= 0) {
            sum.all += (now_us() - t) / n;
            sum.calls += in_call / n;
        }
    }
    return sum;
}

static double middle_of(double *values, int n)
{
    for (int i = 1; i < n; i++) {
        for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
            double v = values[k];

            values[k] = values[k - 1];
            values[k - 1] = v;
        }
    }
    return values[n / 2];
}

static void overlap_cell(const what_t *what, char *send, char *recv, FILE *csv)
{
    double pures[OVERLAP_TURNS], alls[OVERLAP_TURNS], pure, all, percent;
    overlap_t late;

    for (int i = 0; i < OVERLAP_TURNS; i++) {
        pures[i] = most_of_ranks(overlapped(what, send, recv, 0, false).all);
        alls[i] = most_of_ranks(overlapped(what, send, recv, pures[i], false).all);
    }
    pure = middle_of(pures, OVERLAP_TURNS);
    all = middle_of(alls, OVERLAP_TURNS);
    percent = 100 * (1 - (all - pure) / pure);
    percent = percent < 0 ? 0 : percent;
    late = overlapped(what, send, recv, pure + LATE_US, true);
    late.calls = most_of_ranks(bench.rank == bench.n - 1 ? 0 : late.calls);
    if (bench.rank) {
        return;
    }
    printf("%-10s %10zu  pure %9.1f  with computing %9.1f  overlap %5.1f %%  one rank %3.0f us late: others in calls "
           "%9.1f\n",
           what->to_each ? "all-to-all" : "all-gather", what->bytes, pure, all, percent, LATE_US, late.calls);
    fflush(stdout);
    if (csv) {
        fprintf(csv, "%s,%zu,%.2f,%.2f,%.2f,%.2f\n", what->to_each ? "alltoall" : "allgather", what->bytes, pure, all,
                percent, late.calls);
    }
}

void load_overlap(void)
{
    char *send = device_alloc(bench.most), *recv = device_alloc(bench.most);
    FILE *csv = csv_open("overlap", "operation,bytes,pure_us,computing_us,overlap_percent,late_others_us");

    for (int op = 0; op < 2; op++) {
        for (int s = 0; s < bench.nsizes; s++) {
            overlap_cell(&(what_t){.to_each = op, .bytes = bench.sizes[s]}, send, recv, csv);
        }
    }
    if (csv) {
        fclose(csv);
    }
    device_free(send);
    device_free(recv);
}

/* ---- energy ---- */

/* Of this rank's GPU since some time, by NVML; negative: it does not say. */
static double joules(void)
{
    static int (*read_energy)(void *, unsigned long long *);
    static void *gpu;
    unsigned long long mj = 0;

    if (!read_energy) {
        void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        int (*init)(void), (*find)(const char *, void **);
        char pci[32];

        if (!nvml) {
            return -1;
        }
        *(void **)&init = dlsym(nvml, "nvmlInit_v2");
        *(void **)&find = dlsym(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
        *(void **)&read_energy = dlsym(nvml, "nvmlDeviceGetTotalEnergyConsumption");
        device_pci(pci, sizeof(pci));
        if (!init || !find || !read_energy || init() || find(pci, &gpu)) {
            read_energy = NULL;
            return -1;
        }
    }
    return read_energy(gpu, &mj) ? -1 : (double)mj * 1e-3;
}

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double sum_of_ranks(double value)
{
    double sum;

    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Calls back to back for some seconds; joules of all GPUs, watts. */
static void energy_cell(const what_t *what, int mode, double idle_watts, FILE *csv)
{
    double before, begun, cpu, us, used;
    int n = 0, more = 1;

    if (!mode_prepare(mode, what)) {
        return;
    }
    for (int i = 0; i < 20; i++) {
        mode_call(mode);
    }
    time_barrier();
    before = joules();
    begun = now_us();
    cpu = cpu_us();
    while (more) {
        for (int i = 0; i < 50; i++, n++) {
            mode_call(mode);
        }
        more = now_us() - begun < ENERGY_SECONDS * 1e6;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    cpu = (cpu_us() - cpu) / n;
    us = now_us() - begun;
    used = sum_of_ranks(joules() - before);
    mode_finish(mode);
    cpu = most_of_ranks(cpu);
    if (bench.rank) {
        return;
    }
    printf("%-10s %-3s %-15s", what->to_each ? "all-to-all" : "all-gather", what->in_place ? "in" : "out",
           mode_name(mode));
    printf(" %6d calls of %8.1f us  %8.4f J, idle subtracted %8.4f J  processor %8.1f us\n", n, us / n, used / n,
           (used - idle_watts * us * 1e-6) / n, cpu);
    fflush(stdout);
    if (csv) {
        fprintf(csv, "%s,%zu,%s,%d,%.2f,%.5f,%.5f,%.2f\n", what->in_place ? "in" : "out", what->bytes, mode_name(mode),
                n, us / n, used / n, (used - idle_watts * us * 1e-6) / n, cpu);
    }
}

void load_energy(void)
{
    size_t bytes = (size_t)256 << 20;
    FILE *csv = csv_open("energy", "place,bytes,mode,calls,us,joules,joules_without_idle,cpu_us");
    double watts = joules();

    if (most_of_ranks(watts < 0) > 0) {
        fprintf(stderr, "rank %d: NVML does not say what energy is used\n", bench.rank);
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    watts = joules();
    usleep((useconds_t)(ENERGY_SECONDS * 1e6));
    watts = sum_of_ranks(joules() - watts) / ENERGY_SECONDS;
    if (bench.rank == 0) {
        printf("idle: %.1f W, all GPUs; joules of a call: all GPUs together\n", watts);
    }
    for (int place = 0; place < 2 && bytes <= bench.most; place++) {
        for (int m = 0; m < modes_count(); m++) {
            if (m != OURS_PERSISTENT && !mode_graph(m)) {
                energy_cell(&(what_t){.in_place = place, .bytes = bytes}, m, watts, csv);
            }
        }
    }
    if (csv) {
        fclose(csv);
    }
}
