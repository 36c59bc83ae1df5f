/* coll_dma_bench: the main program. See bench.h, and the manual page coll_dma_bench.1. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"

enum { RIGHT, WRONG, WRONG_USE };
enum { PASSES = 7 };

void bench_stop(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "coll_dma_bench: %s\n", text); /* at once: the lines of several ranks must not mix */
    MPI_Abort(MPI_COMM_WORLD, WRONG_USE);
    abort();
}

void bench_remark(const bench_t *b, const char *format, ...)
{
    va_list args;

    if (b->rank) {
        return;
    }
    printf("# ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

void *bench_array(size_t n, size_t bytes)
{
    void *array = calloc(n ? n : 1, bytes);

    if (!array) {
        bench_stop("there is no memory for %zu bytes", n * bytes);
    }
    return array;
}

/* ---- the beginning ---- */

/* The number of this rank among the ranks of its host: each takes a GPU of its own. */
static int rank_on_host(void)
{
    MPI_Comm host;
    int rank;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    return rank;
}

static void open_device(bench_t *b)
{
    const char *runtime = !strcmp(b->o.device, "auto") ? NULL : !strcmp(b->o.device, "rocm") ? "hip" : "cuda";
    const char *why = device_open(runtime, b->rank_on_host);

    if (why) {
        bench_stop("--device %s: %s", b->o.device, why);
    }
    b->device = true;
}

static void open_load(bench_t *b)
{
    void *library = dlopen(b->o.load, RTLD_NOW | RTLD_LOCAL);
    load_get_t get = NULL;
    const char *why;

    if (library) {
        *(void **)&get = dlsym(library, LOAD_GET);
    }
    if (!get) {
        bench_stop("%s", dlerror());
    }
    b->load = get();
    why = b->device ? b->load->open(device_index()) : "--load needs --device";
    if (why) {
        bench_stop("%s: %s", b->o.load, why);
    }
}

/* What cannot be done is refused before anything is measured. */
static void refuse(const bench_t *b)
{
    const char *why = b->o.plot && b->rank == 0 ? bench_plot_can(b->o.plot) : NULL;

    if (why) {
        bench_stop("--plot %s: %s", b->o.plot, why);
    }
    if (b->o.nccl && !b->device) {
        bench_stop("--nccl needs --device: NCCL works in device memory");
    }
    why = b->o.energy ? energy_open(b) : NULL;
    if (why) {
        bench_stop("--energy: %s", why);
    }
}

static void make_cells(bench_t *b)
{
    b->cells = bench_array((size_t)b->o.noperations * BENCH_SIZES, sizeof(*b->cells));
    for (int i = 0; i < b->o.noperations; i++) {
        for (size_t bytes = b->o.min; bytes <= b->o.max; bytes *= b->o.factor) {
            /* counts and displacements are int; with a skew, a block has up to twice its size */
            if (bytes % b->element.bytes == 0 && bytes / b->element.bytes <= (size_t)INT32_MAX / 2 / (size_t)b->size) {
                b->cells[b->ncells++] = (bench_cell_t){b->o.operations[i], bytes};
            } else if (i == 0) {
                bench_remark(b, "blocks of %zu bytes are left out: %s", bytes,
                             bytes % b->element.bytes ? "the type has more" : "too many elements");
            }
        }
    }
    if (!b->ncells) {
        bench_stop("no size is left to measure");
    }
}

static void describe(bench_t *b)
{
    time_t now = time(NULL);
    int length;
    struct tm utc;

    strftime(b->when, sizeof(b->when), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    MPI_Get_processor_name(b->host, &length);
    snprintf(b->library, sizeof(b->library), "Open MPI %d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
             OMPI_RELEASE_VERSION);
}

static void make_all(bench_t *b)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->size);
    b->rank_on_host = rank_on_host();
    describe(b);
    if (b->o.device) {
        open_device(b);
    }
    refuse(b);
    if (!bench_element_make(&b->element, b->o.type)) {
        bench_stop("there is no type %s", b->o.type);
    }
    make_cells(b);
    bench_buffers_make(b);
    bench_sides_make(b);
    b->planned = b->o.passes ? b->o.passes : b->nsides > 1 ? PASSES : 1;
    bench_results_make(b);
    if (b->o.load) {
        open_load(b);
    }
}

/* ---- the run ---- */

static void measure(bench_t *b)
{
    double begun = bench_now();
    long products = 0;

    if (b->load) {
        b->load->run(true);
        products = b->load->done();
    }
    bench_passes(b);
    if (b->load) {
        bench_remark(b, "Load: %.1f products a second on rank 0",
                     (double)(b->load->done() - products) / (bench_now() - begun) * 1e6);
        b->load->run(false);
        b->load->close();
    }
    if (b->o.energy) {
        energy_measure(b);
        bench_table_energy(b);
    }
}

static bool written(const char *path, const char *why)
{
    if (why) {
        fprintf(stderr, "coll_dma_bench: %s: %s\n", path, why);
    }
    return !why;
}

static bool write_files(const bench_t *b)
{
    bool good = true;

    if (b->rank) {
        return true;
    }
    good &= !b->o.csv || written(b->o.csv, bench_csv_write(b));
    good &= !b->o.json || written(b->o.json, bench_json_write(b));
    good &= !b->o.plot || written(b->o.plot, bench_plot_write(b));
    return good;
}

static void free_all(bench_t *b)
{
    bench_sides_free(b);
    bench_buffers_free(b);
    bench_results_free(b);
    free(b->cells);
    free(b->o.command);
}

/* A queue of a stream goes on by itself only beside a thread of libmpix_dma. Threads would change the times of the others. */
static void init_mpi(const bench_options_t *o, int *argc, char ***argv)
{
    int provided;

    MPI_Init_thread(argc, argv, bench_has_queue(o) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
}

int main(int argc, char **argv)
{
    static bench_t b;
    const char *place = getenv("OMPI_COMM_WORLD_RANK"), *other = getenv("PMIX_RANK");
    bool first = !strcmp(place ? place : other ? other : "0", "0");
    int status = bench_options_parse(&b.o, argc, argv, first), good;

    if (status >= 0) {
        return status;
    }
    init_mpi(&b.o, &argc, &argv);
    make_all(&b);
    measure(&b);
    good = write_files(&b);
    good = bench_all_right(&b) && good;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    free_all(&b);
    MPI_Finalize();
    if (b.o.nccl) {
        fflush(stdout);
        _exit(good ? RIGHT : WRONG); /* do not wait for what NCCL has left */
    }
    return good ? RIGHT : WRONG;
}
