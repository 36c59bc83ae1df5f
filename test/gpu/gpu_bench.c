/*
 * Collectives in device memory, ours through MPI and others' through a plugin, measured side by side: gpu_bench.h.
 *
 *   mpirun -n N --mca coll dma gpu_bench [-r librival.so] [-g libgemm.so] [-s MIN:MAX] [-p PASSES] [-T SECONDS]
 *                                        [-i PERCENT] [-o PREFIX] [-m NOTE] STAGE...
 *     stages: passes   all modes at all sizes, in interleaved passes
 *             gemm     with matrix products on every GPU, and without
 *             overlap  non-blocking calls with computing beside them; and with a rank that comes late
 *             energy   of 256 MiB all-gathers
 *     -s  receive buffers from MIN to MAX bytes, in steps of 4 (default 1024:1073741824)
 *     -p  passes (default 15), fewer if -T seconds (default 120) are over
 *     -i  so many percent of the usual calls (default 100)
 *     -o  PREFIXpasses.csv and so on; -m is printed with the tables
 */
#include <dlfcn.h>
#include <getopt.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "gpu_bench.h"

bench_t bench = {.passes = 15, .seconds = 120, .scale = 100};

/* A share of the cores for each rank, where there are many: progress threads of others need some. */
static void pin(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), share = cores / bench.n;
    cpu_set_t set;

    if (share < 4) {
        return;
    }
    CPU_ZERO(&set);
    for (long i = 0; i < share; i++) {
        CPU_SET((size_t)(bench.rank * share + i), &set);
    }
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void *plugin(const char *path, const char *symbol)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *get = library ? dlsym(library, symbol) : NULL;

    if (!get) {
        fprintf(stderr, "gpu_bench: %s\n", dlerror());
    }
    return get;
}

static bool parse(int argc, char **argv)
{
    size_t least = 1024, most = (size_t)1 << 30;

    for (int opt; (opt = getopt(argc, argv, "r:g:s:p:T:i:o:m:")) != -1;) {
        rival_get_t rival;
        gemm_get_t gemm;

        switch (opt) {
        case 'r':
            *(void **)&rival = plugin(optarg, RIVAL_GET);
            bench.rival = rival ? rival() : NULL;
            break;
        case 'g':
            *(void **)&gemm = plugin(optarg, GEMM_GET);
            bench.gemm = gemm ? gemm() : NULL;
            break;
        case 's':
            if (sscanf(optarg, "%zu:%zu", &least, &most) != 2) {
                return false;
            }
            break;
        case 'p':
            bench.passes = atoi(optarg);
            break;
        case 'T':
            bench.seconds = atof(optarg);
            break;
        case 'i':
            bench.scale = atoi(optarg);
            break;
        case 'o':
            bench.csv = optarg;
            break;
        case 'm':
            bench.note = optarg;
            break;
        default:
            return false;
        }
    }
    for (size_t b = least; b <= most && bench.nsizes < MOST_SIZES; b *= 4) {
        bench.sizes[bench.nsizes++] = b;
        bench.most = b;
    }
    return optind < argc && bench.nsizes && bench.passes > 0 && bench.passes <= MOST_PASSES;
}

static bool run(const char *stage)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } stages[] = {{"passes", tables_passes}, {"gemm", load_gemm}, {"overlap", load_overlap}, {"energy", load_energy}};

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        if (!strcmp(stage, stages[i].name)) {
            stages[i].run();
            return true;
        }
    }
    fprintf(stderr, "gpu_bench: no stage %s\n", stage);
    return false;
}

int main(int argc, char **argv)
{
    bool right = true;
    const char *why;

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: gpu_bench [-r librival.so] [-g libgemm.so] [-s MIN:MAX] [-p PASSES] [-T SECONDS] "
                        "[-i PERCENT] [-o PREFIX] [-m NOTE] passes|gemm|overlap|energy...\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.n);
    pin();
    why = device_open(NULL, bench.rank);
    if (why) {
        fprintf(stderr, "gpu_bench: %s\n", why);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    time_open();
    modes_open();
    for (int i = optind; i < argc; i++) {
        right &= run(argv[i]);
    }
    modes_close();
    MPI_Finalize();
    fflush(stdout);
    if (bench.rival) {
        _exit(right ? 0 : 1); /* what a rival has left is not waited for */
    }
    return right ? 0 : 1;
}
