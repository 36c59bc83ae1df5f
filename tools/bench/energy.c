/*
 * Joules of a call: see bench.h. Counters of energy are read, not of power: those of the processor packages of each host
 * (RAPL) or, with device memory, those of the ranks' GPUs (energy_gpu.c). They advance in steps of up to 100 ms, so a window
 * is at least three seconds long. Windows in which all ranks sleep come first; the median of their power is subtracted from
 * the windows with calls. The windows of all sides alternate, so that a drift of the idle power affects all of them alike.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"
#include "tools/bench/energy.h"

enum { PACKAGES = 16 };

typedef struct package {
    char path[128];
    double wraps; /* joules after which the counter begins again at 0 */
    double last, total;
} package_t;

static struct {
    bool reads; /* another rank of this host reads the same counter otherwise */
    package_t packages[PACKAGES];
    int npackages;
} energy;

/* ---- processors ---- */

static bool read_number(const char *folder, const char *name, double *value)
{
    char path[192];
    FILE *file;
    bool right;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    right = file && fscanf(file, "%lf", value) == 1;
    if (file) {
        fclose(file);
    }
    *value *= 1e-6;
    return right;
}

static const char *open_packages(void)
{
    glob_t found;
    const char *why = NULL;

    /* intel-rapl:0:0 and so on are parts of intel-rapl:0. AMD's processors use the same names */
    if (glob("/sys/class/powercap/intel-rapl:[0-9]*", 0, NULL, &found)) {
        return "this host has no counters of energy (/sys/class/powercap/intel-rapl:0)";
    }
    for (size_t i = 0; i < found.gl_pathc && energy.npackages < PACKAGES && !why; i++) {
        package_t *p = &energy.packages[energy.npackages];
        const char *path = found.gl_pathv[i];

        if (strchr(strchr(path, ':') + 1, ':')) {
            continue;
        }
        snprintf(p->path, sizeof(p->path), "%s", path);
        if (!read_number(path, "energy_uj", &p->last) || !read_number(path, "max_energy_range_uj", &p->wraps)) {
            why = "the counters of energy in /sys/class/powercap cannot be read: only root may, on most hosts";
        }
        energy.npackages++;
    }
    globfree(&found);
    return why;
}

/* Joules of this host since the first call. */
static double of_packages(void)
{
    double sum = 0, now;

    for (int i = 0; i < energy.npackages; i++) {
        package_t *p = &energy.packages[i];

        if (!read_number(p->path, "energy_uj", &now)) {
            bench_stop("%s/energy_uj cannot be read any more", p->path);
        }
        p->total += now - p->last + (now < p->last ? p->wraps : 0);
        p->last = now;
        sum += p->total;
    }
    return sum;
}

/* ---- both ---- */

const char *energy_open(const bench_t *b)
{
    /* the GPU of another rank has another number, unless there are more ranks than GPUs */
    energy.reads = b->device ? device_index() == b->rank_on_host : b->rank_on_host == 0;
    if (!energy.reads) {
        return NULL;
    }
    return b->device ? energy_gpu_open() : open_packages();
}

static double of_gpu(void)
{
    double joules;

    if (!energy_gpu_read(&joules)) {
        bench_stop("the counter of the GPU's energy cannot be read any more");
    }
    return joules;
}

static double joules(const bench_t *b)
{
    return !energy.reads ? 0 : b->device ? of_gpu() : of_packages();
}

static double sum(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return value;
}

static double idle_watts(const bench_t *b)
{
    double before, begun;

    MPI_Barrier(MPI_COMM_WORLD);
    before = joules(b);
    begun = bench_now();
    usleep((useconds_t)b->o.window * 1000000);
    return sum((joules(b) - before) / (bench_now() - begun) * 1e6);
}

/* Of one call, in one window. */
static double of_call(bench_t *b, int cell, int side)
{
    double before, begun;
    long calls;

    MPI_Barrier(MPI_COMM_WORLD);
    before = joules(b);
    begun = bench_now();
    calls = bench_repeat(b, &b->cells[cell], &b->sides[side], b->o.window);
    return (sum(joules(b) - before) - b->watts.median * (bench_now() - begun) * 1e-6) / (double)calls;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bench_joules_t over_windows(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), ascending);
    return (bench_joules_t){
        .median = (values[n / 2] + values[(n - 1) / 2]) / 2, .least = values[0], .most = values[n - 1]};
}

void energy_measure(bench_t *b)
{
    int n = b->o.windows;
    double *values = bench_array((size_t)n * (size_t)b->nsides, sizeof(*values));

    for (int w = 0; w < n; w++) {
        values[w] = idle_watts(b);
    }
    b->watts = over_windows(values, n);
    for (int cell = 0; cell < b->ncells; cell++) {
        for (int i = 0; i < n * b->nsides; i++) {
            int side = i % b->nsides;

            if (bench_measured(b, cell, side)) {
                values[side * n + i / b->nsides] = of_call(b, cell, side);
            }
        }
        for (int side = 0; side < b->nsides; side++) {
            b->joules[cell * b->nsides + side] = over_windows(&values[side * n], n);
        }
    }
    free(values);
}

double bench_moved_bytes(const bench_t *b, int cell)
{
    return (double)b->cells[cell].bytes * b->size * (b->size - 1);
}
