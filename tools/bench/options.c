/* The command line of coll_dma_bench: see bench.h and the manual page. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

enum { RIGHT, WRONG_USE = 2 };

static const char help[] =
    "usage: mpirun -n N [--mca coll dma] coll_dma_bench [OPTION...] [OPERATION...]\n"
    "Times all-gathers and all-to-alls as OSU's micro-benchmarks do, with the same columns, and beside the other\n"
    "components of Open MPI and NCCL, in turn. A ratio below 1 means that coll/dma is faster.\n"
    "\n"
    "OPERATION: allgather, allgatherv, alltoall, alltoallv; with i before it non-blocking, with _persistent behind it\n"
    "persistent, with _queue behind it in the order of a stream (see --row); blocking, nonblocking, persistent, queue "
    "or\n"
    "all for all of them [allgather alltoall]\n"
    "\n"
    "  -m, --sizes MIN:MAX         bytes of a block, what one rank sends to one other [1:1048576]\n"
    "  -F, --factor N              from size to size [2]\n"
    "  -i, --iterations N[:LARGE]  calls that are timed, up to 8 KiB and above [1000:100]\n"
    "  -x, --warmup N[:LARGE]      calls before them [a tenth]\n"
    "  -k, --row N                 calls between two barriers; the time is that of one; in a queue, the host waits "
    "once "
    "for\n"
    "                              all of them [1]\n"
    "  -p, --passes N              over all sizes and rivals [7; 1 without rivals]\n"
    "  -T, --seconds N             begin no pass that would end later\n"
    "  -r, --rivals LIST           stock: Open MPI without coll/dma; names of components; modes of NCCL; bare: the "
    "least\n"
    "                              that an all-gather in host memory can be; nothing: the loop; none [all: stock, all\n"
    "                              components that serve the operation, all modes of NCCL]\n"
    "  -n, --nccl FILE             NCCL's or RCCL's library, for device memory\n"
    "  -d, --device RUNTIME        device memory: rocm, cuda, or auto [host memory]\n"
    "  -I, --in-place              MPI_IN_PLACE\n"
    "  -t, --type NAME             byte, vector (64 bytes of every 128) or indexed (irregular) [byte]\n"
    "  -s, --skew PERCENT          of v operations: blocks differ by so much from their average, 0 to 100 [0]\n"
    "  -f, --full                  also the least and the most of the ranks, and the iterations\n"
    "  -V, --no-validation         do not look at the data\n"
    "  -e, --energy                joules of a call, and of a byte that is moved\n"
    "  -W, --windows N[:SECONDS]   of --energy: windows for each size and rival, and how long one is, at least 3 s "
    "[3:3]\n"
    "  -l, --load FILE             work for the compute units meanwhile: a library, see load.h in the source\n"
    "      --csv FILE              every pass\n"
    "      --json FILE             medians, percentiles, ratios and passes\n"
    "      --plot FILE             .svg or .png, by gnuplot; one for each operation\n"
    "      --progress, --quiet     lines of progress where no terminal shows a bar; no bar\n"
    "  -h, --help; -v, --version\n"
    "\n"
    "Exit status: 0; 1 wrong data, or a file was not written; 2 wrong use, or what is asked for is not here.\n";

static const char short_options[] = "m:F:i:x:k:p:T:r:n:d:It:s:fVeW:l:hv";
enum { LEAST_WINDOW = 3 }; /* seconds */
enum { CSV = 256, JSON, PLOT, PROGRESS, QUIET };
static const struct option long_options[] = {
    {"sizes", required_argument, NULL, 'm'},      {"factor", required_argument, NULL, 'F'},
    {"iterations", required_argument, NULL, 'i'}, {"warmup", required_argument, NULL, 'x'},
    {"row", required_argument, NULL, 'k'},        {"passes", required_argument, NULL, 'p'},
    {"seconds", required_argument, NULL, 'T'},    {"rivals", required_argument, NULL, 'r'},
    {"nccl", required_argument, NULL, 'n'},       {"device", required_argument, NULL, 'd'},
    {"in-place", no_argument, NULL, 'I'},         {"type", required_argument, NULL, 't'},
    {"skew", required_argument, NULL, 's'},       {"full", no_argument, NULL, 'f'},
    {"no-validation", no_argument, NULL, 'V'},    {"energy", no_argument, NULL, 'e'},
    {"windows", required_argument, NULL, 'W'},    {"load", required_argument, NULL, 'l'},
    {"csv", required_argument, NULL, CSV},        {"json", required_argument, NULL, JSON},
    {"plot", required_argument, NULL, PLOT},      {"progress", no_argument, NULL, PROGRESS},
    {"quiet", no_argument, NULL, QUIET},          {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},          {NULL, 0, NULL, 0}};

/* "N" or "N:N". With one number, the second is the same. Only sizes may be larger than INT_MAX. */
static bool parse_two(const char *text, size_t least, size_t most, size_t *first, size_t *second)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || n < least || n > most) {
        return false;
    }
    *first = *second = n;
    if (*end == ':') {
        return strchr(end + 1, ':') == NULL && parse_two(end + 1, least, most, second, second);
    }
    return !*end;
}

static bool parse_ints(const char *text, int least, int *both)
{
    size_t first, second;

    if (!parse_two(text, (size_t)least, 1 << 30, &first, &second)) {
        return false;
    }
    both[0] = (int)first;
    both[1] = (int)second;
    return true;
}

static bool parse_int(const char *text, int least, int most, int *value)
{
    size_t n, again;
    bool right = !strchr(text, ':') && parse_two(text, (size_t)least, (size_t)most, &n, &again);

    *value = right ? (int)n : *value;
    return right;
}

/* Counters of energy advance in steps of up to 100 ms: in 3 s that is an error of 3 %. */
static bool parse_windows(const char *text, bench_options_t *o)
{
    size_t n, seconds;
    bool right = parse_two(text, 1, 1000, &n, &seconds) && n <= 100;

    seconds = right && strchr(text, ':') ? seconds : LEAST_WINDOW;
    if (!right || seconds < LEAST_WINDOW) {
        return false;
    }
    o->windows = (int)n;
    o->window = (int)seconds;
    return true;
}

static bool is_one_of(const char *text, const char *const *names)
{
    for (; *names; names++) {
        if (!strcmp(text, *names)) {
            return true;
        }
    }
    return false;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds > 0 && *seconds < 1e9;
}

static bool parse_factor(const char *text, size_t *factor)
{
    int n = 0;
    bool right = parse_int(text, 2, 1 << 20, &n);

    *factor = (size_t)n;
    return right;
}

static bool set_number(bench_options_t *o, int option, const char *text)
{
    switch (option) {
    case 'm':
        return parse_two(text, 1, (size_t)1 << 40, &o->min, &o->max) && o->min <= o->max;
    case 'F':
        return parse_factor(text, &o->factor);
    case 'i':
        return parse_ints(text, 1, o->iterations);
    case 'x':
        return parse_ints(text, 0, o->warmup);
    case 'k':
        return parse_int(text, 1, 1 << 30, &o->row);
    case 'p':
        return parse_int(text, 1, 100000, &o->passes);
    case 'W':
        return parse_windows(text, o);
    case 's':
        return parse_int(text, 0, 100, &o->skew);
    default:
        return parse_seconds(text, &o->seconds);
    }
}

static bool set_text(bench_options_t *o, int option, const char *text)
{
    static const char *const devices[] = {"rocm", "cuda", "auto", NULL}, *const types[] = {"byte", "vector", "indexed",
                                                                                           NULL};

    switch (option) {
    case 'r':
        o->rivals = text;
        return true;
    case 'n':
        o->nccl = text;
        return true;
    case 'l':
        o->load = text;
        return true;
    case 'd':
        o->device = text;
        return is_one_of(text, devices);
    case 't':
        o->type = text;
        return is_one_of(text, types);
    case CSV:
        o->csv = text;
        return true;
    case JSON:
        o->json = text;
        return true;
    default:
        o->plot = text;
        return strlen(text) > 4 &&
               (!strcmp(text + strlen(text) - 4, ".svg") || !strcmp(text + strlen(text) - 4, ".png"));
    }
}

static void set_flag(bench_options_t *o, int option)
{
    bool *const flags[] = {&o->in_place, &o->full, &o->energy, &o->progress, &o->quiet};
    const int options[] = {'I', 'f', 'e', PROGRESS, QUIET};

    o->validate &= option != 'V';
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        *flags[i] |= option == options[i];
    }
}

static bool add_operation(bench_options_t *o, const bench_operation_t *op)
{
    for (int i = 0; i < o->noperations; i++) {
        if (o->operations[i] == op) {
            return true;
        }
    }
    o->operations[o->noperations++] = op;
    return true;
}

static bool add_operations(bench_options_t *o, const char *name)
{
    static const char *const groups[BENCH_FORMS] = {"blocking", "nonblocking", "persistent", "queue"};
    const bench_operation_t *one = bench_operation_find(name);
    bool found = false;

    if (one) {
        return add_operation(o, one);
    }
    for (int i = 0; i < BENCH_OPERATIONS; i++) {
        if (!strcmp(name, "all") || !strcmp(name, groups[bench_operations[i].form])) {
            found |= add_operation(o, &bench_operations[i]);
        }
    }
    return found;
}

static char *join(int argc, char **argv)
{
    size_t bytes = 1;
    char *text;

    for (int i = 0; i < argc; i++) {
        bytes += strlen(argv[i]) + 1;
    }
    text = bench_array(bytes, 1);
    for (int i = 0; i < argc; i++) {
        strcat(strcat(text, i ? " " : ""), argv[i]);
    }
    return text;
}

static int wrong(bool print, const char *what, const char *text)
{
    if (print) {
        fprintf(stderr, "coll_dma_bench: %s: %s (--help)\n", what, text);
    }
    return WRONG_USE;
}

static const char *option_name(int option)
{
    for (const struct option *l = long_options; l->name; l++) {
        if (l->val == option) {
            return l->name;
        }
    }
    return "";
}

/* One option. Returns an exit status, or -1. */
static int parse_option(bench_options_t *o, int option, bool print)
{
    if (option == 'h' || option == 'v') {
        if (print) {
            fputs(option == 'h' ? help : "coll_dma_bench " DMA_VERSION "\n", stdout);
        }
        return RIGHT;
    }
    if (option == '?') {
        return wrong(print, "no such option, or its value is missing", "see the usage");
    }
    if (!optarg) {
        set_flag(o, option);
        return -1;
    }
    if ((option < CSV && strchr("mFixkpsTW", option)) ? set_number(o, option, optarg) : set_text(o, option, optarg)) {
        return -1;
    }
    return wrong(print, option_name(option), optarg);
}

static void complete(bench_options_t *o)
{
    if (!o->noperations) {
        add_operations(o, "allgather");
        add_operations(o, "alltoall");
    }
    for (int i = 0; i < 2; i++) {
        o->warmup[i] = o->warmup[i] >= 0 ? o->warmup[i] : o->iterations[i] / 10 + !(o->iterations[i] / 10);
    }
}

int bench_options_parse(bench_options_t *o, int argc, char **argv, bool print)
{
    *o = (bench_options_t){.min = 1,
                           .max = 1 << 20,
                           .factor = 2,
                           .iterations = {1000, 100},
                           .warmup = {-1, -1},
                           .row = 1,
                           .windows = 3,
                           .window = LEAST_WINDOW,
                           .rivals = "all",
                           .type = "byte",
                           .validate = true};
    o->command = join(argc, argv);
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1;) {
        int status = parse_option(o, option, print);

        if (status >= 0) {
            return status;
        }
    }
    for (; optind < argc; optind++) {
        if (!add_operations(o, argv[optind])) {
            return wrong(print, "no such operation", argv[optind]);
        }
    }
    complete(o);
    return -1;
}
