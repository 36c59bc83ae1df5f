/*
 * Joules of a call: see bench.h. Counters of energy are read, not of power: those of the processor packages of each host
 * (RAPL) or, with device memory, those of the ranks' GPUs (NVML). They advance in steps of many milliseconds, so a window is
 * at least three seconds long. The energy that the same counters show while all ranks sleep is subtracted.
 */
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"

#define WINDOW_SECONDS 3.0

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
    int (*gpu_energy)(void *, unsigned long long *);
    void *gpu;
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

/* ---- GPUs ---- */

static const char *open_gpu(void)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*find)(const char *, void **);
    unsigned long long mj;
    char pci[32];

    if (!nvml) {
        return "only NVIDIA's GPUs are asked for their energy, and there is no libnvidia-ml.so.1";
    }
    *(void **)&init = dlsym(nvml, "nvmlInit_v2");
    *(void **)&find = dlsym(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&energy.gpu_energy = dlsym(nvml, "nvmlDeviceGetTotalEnergyConsumption");
    device_pci(pci, sizeof(pci));
    if (!init || !find || !energy.gpu_energy || init() || find(pci, &energy.gpu) ||
        energy.gpu_energy(energy.gpu, &mj)) {
        return "NVML does not say what energy the GPU has used";
    }
    return NULL;
}

static double of_gpu(void)
{
    unsigned long long mj = 0;

    if (energy.gpu_energy(energy.gpu, &mj)) {
        bench_stop("NVML does not say any more what energy the GPU has used");
    }
    return (double)mj * 1e-3;
}

/* ---- both ---- */

const char *energy_open(const bench_t *b)
{
    /* the GPU of another rank has another number, unless there are more ranks than GPUs */
    energy.reads = b->device ? device_index() == b->rank_on_host : b->rank_on_host == 0;
    if (!energy.reads) {
        return NULL;
    }
    return b->device ? open_gpu() : open_packages();
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
    double before;

    MPI_Barrier(MPI_COMM_WORLD);
    before = joules(b);
    usleep((useconds_t)(WINDOW_SECONDS * 1e6));
    return sum(joules(b) - before) / WINDOW_SECONDS;
}

void energy_measure(bench_t *b)
{
    b->watts = idle_watts(b);
    for (int i = 0; i < b->ncells * b->nsides; i++) {
        int cell = i / b->nsides, side = i % b->nsides;
        double before, begun;
        long calls;

        if (!bench_measured(b, cell, side)) {
            continue;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        before = joules(b);
        begun = bench_now();
        calls = bench_repeat(b, &b->cells[cell], &b->sides[side], WINDOW_SECONDS);
        b->joules[i] = (sum(joules(b) - before) - b->watts * (bench_now() - begun) * 1e-6) / (double)calls;
    }
}
