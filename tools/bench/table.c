/* The tables: see bench.h. The columns of OSU's programs, then the rivals. Lines that begin with # are remarks, as in
 * OSU's output. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench.h"

enum { WIDTH = 18, NARROW = 8, JOULES = 11, DECIDING = 5 };

/* Columns of OSU's programs, after the size. */
typedef struct column {
    const char *title;
    bench_value_t value;
    bool full; /* only with --full */
} column_t;

static const column_t blocking[] = {{"Avg Latency(us)", BENCH_PURE, false},
                                    {"Min Latency(us)", BENCH_MIN, true},
                                    {"Max Latency(us)", BENCH_MAX, true},
                                    {NULL, BENCH_NONE, false}};
/* MPI_Test is not called. */
static const column_t nonblocking[] = {{"Overall(us)", BENCH_OVERALL, false}, {"Compute(us)", BENCH_COMPUTE, false},
                                       {"Coll. Init(us)", BENCH_INIT, true},  {"MPI_Test(us)", BENCH_NONE, true},
                                       {"MPI_Wait(us)", BENCH_WAIT, true},    {"Pure Comm.(us)", BENCH_PURE, false},
                                       {"Min Comm.(us)", BENCH_MIN, true},    {"Max Comm.(us)", BENCH_MAX, true},
                                       {"Overlap(%)", BENCH_OVERLAP, false},  {NULL, BENCH_NONE, false}};

static const column_t *columns(const bench_operation_t *op)
{
    return op->form == BENCH_NONBLOCKING ? nonblocking : blocking;
}

static void head_osu(const bench_t *b, const bench_operation_t *op)
{
    printf("%-10s", "# Size");
    for (const column_t *c = columns(op); c->title; c++) {
        if (b->o.full || !c->full) {
            printf("%*s", WIDTH, c->title);
        }
    }
    if (b->o.full && op->form != BENCH_NONBLOCKING) {
        printf("%12s", "Iterations");
    }
    if (b->o.validate) {
        printf("%12s", "Validation");
    }
}

static void head_rival(const char *name)
{
    char title[64];

    snprintf(title, sizeof(title), "%s(us)", name);
    printf("  %*s%*s%*s%*s", WIDTH, title, NARROW, "ratio", NARROW, "5%", NARROW, "95%");
}

/* Why the times of this run may mislead. */
static void warn(const bench_t *b)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double load;

    if (b->size == 1) {
        printf("# Warning: with one rank nothing moves between ranks.\n");
    }
    if (b->nsides > 1 && b->passes < DECIDING) {
        printf("# Warning: %d pass%s decide nothing; use -p %d or more.\n", b->passes, b->passes > 1 ? "es" : "",
               DECIDING);
    }
    /* Ranks of this run are a part of the load. */
    if (getloadavg(&load, 1) == 1 && load > (double)cores + b->size) {
        printf("# Warning: the load of this host is %.1f on %ld cores, so others take part in these times.\n", load,
               cores);
    }
}

static void head(const bench_t *b, const bench_operation_t *op)
{
    static const char *const memory[] = {"", "-ROCM", "-CUDA", "-GPU"};
    int which = !b->device ? 0 : !strcmp(b->o.device, "rocm") ? 1 : !strcmp(b->o.device, "cuda") ? 2 : 3;

    printf("\n# coll_dma_bench MPI%s %s Latency Test v%s\n", memory[which], op->title, DMA_VERSION);
    printf("# %s: %d ranks, %s%s%s, median of %d pass%s\n", op->name, b->size, b->sides[0].name,
           b->o.in_place ? ", in place" : "", op->v && b->o.skew ? ", blocks differ" : "", b->passes,
           b->passes > 1 ? "es" : "");
    warn(b);
    if (op->form == BENCH_NONBLOCKING) {
        printf("# Overall = Coll. Init + Compute + MPI_Wait; rivals and ratios are of Pure Comm.\n");
    }
    printf("# Datatype: %s.\n", b->element.bytes == 1 ? "MPI_CHAR" : b->o.type);
    head_osu(b, op);
    if (b->passes > 1) {
        printf("%*s%*s", NARROW + 2, "5%(us)", NARROW + 2, "95%(us)");
    }
    for (int s = 1; s < b->nsides; s++) {
        if (bench_serves(b, op, s)) {
            head_rival(b->sides[s].name);
        }
    }
    printf("\n");
}

static bool is_wrong(const bench_t *b, int cell)
{
    for (int s = 0; s < b->nsides; s++) {
        if (b->wrong[cell * b->nsides + s]) {
            return true;
        }
    }
    return false;
}

static void row_osu(const bench_t *b, int cell)
{
    const bench_operation_t *op = b->cells[cell].op;

    printf("%-10zu", b->cells[cell].bytes);
    for (const column_t *c = columns(op); c->title; c++) {
        if (b->o.full || !c->full) {
            printf("%*.2f", WIDTH, bench_spread(b, cell, 0, c->value).median);
        }
    }
    if (b->o.full && op->form != BENCH_NONBLOCKING) {
        printf("%12d", b->o.iterations[b->cells[cell].bytes > 8192]);
    }
    if (b->o.validate) {
        printf("%12s", is_wrong(b, cell) ? "Fail" : "Pass");
    }
}

/* Three digits after the point or three in all, and always a space before them. */
static void put_ratio(double ratio)
{
    printf(" %*.*f", NARROW - 1, ratio < 10 ? 3 : ratio < 100 ? 1 : 0, ratio);
}

static void row_rival(const bench_t *b, int cell, int side)
{
    bench_spread_t ratio;

    if (!bench_measured(b, cell, side)) {
        printf("  %*s%*s%*s%*s", WIDTH, "-", NARROW, "-", NARROW, "-", NARROW, "-");
        return;
    }
    ratio = bench_ratio(b, cell, side);
    printf("  %*.2f", WIDTH, bench_spread(b, cell, side, BENCH_PURE).median);
    put_ratio(ratio.median);
    put_ratio(ratio.p5);
    put_ratio(ratio.p95);
}

/* Of the operation that ends with this cell. */
static void means(const bench_t *b, int last)
{
    printf("# Geometric mean of the ratios:");
    for (int s = 1; s < b->nsides; s++) {
        double sum = 0;
        int n = 0;

        for (int c = last; c >= 0 && b->cells[c].op == b->cells[last].op; c--) {
            if (bench_measured(b, c, s)) {
                sum += log(bench_ratio(b, c, s).median);
                n++;
            }
        }
        if (n) {
            printf(" %s %.3f", b->sides[s].name, exp(sum / n));
        }
    }
    printf("\n");
}

void bench_table_row(const bench_t *b, int cell)
{
    const bench_operation_t *op = b->cells[cell].op;

    if (b->rank) {
        return;
    }
    if (cell == 0 || b->cells[cell - 1].op != op) {
        head(b, op);
    }
    row_osu(b, cell);
    if (b->passes > 1) {
        bench_spread_t spread = bench_spread(b, cell, 0, BENCH_PURE);

        printf(" %*.2f %*.2f", NARROW + 1, spread.p5, NARROW + 1, spread.p95);
    }
    for (int s = 1; s < b->nsides; s++) {
        if (bench_serves(b, op, s)) {
            row_rival(b, cell, s);
        }
    }
    printf("\n");
    if (b->nsides > 1 && (cell + 1 == b->ncells || b->cells[cell + 1].op != op)) {
        means(b, cell);
    }
    fflush(stdout);
}

static void energy_heads(const bench_t *b)
{
    printf("%-22s%12s", "# Operation", "Size");
    for (int s = 0; s < b->nsides; s++) {
        printf("%*s%*s%*s%*s", WIDTH, b->sides[s].name, JOULES, "least", JOULES, "most", JOULES, "nJ/B");
    }
    printf("\n");
}

void bench_table_energy(const bench_t *b)
{
    if (b->rank || !b->o.energy) {
        return;
    }
    printf("\n# Energy: %.1f W without calls (%.1f to %.1f), subtracted; joules of a call, all ranks together: median, "
           "least "
           "and most of %d windows of %d s, and nanojoules for each byte that goes from one rank to another\n",
           b->watts.median, b->watts.least, b->watts.most, b->o.windows, b->o.window);
    energy_heads(b);
    for (int c = 0; c < b->ncells; c++) {
        double bytes = bench_moved_bytes(b, c);

        printf("%-22s%12zu", b->cells[c].op->name, b->cells[c].bytes);
        for (int s = 0; s < b->nsides; s++) {
            const bench_joules_t *j = &b->joules[c * b->nsides + s];

            if (bench_measured(b, c, s)) {
                printf("%*.4g%*.4g%*.4g", WIDTH, j->median, JOULES, j->least, JOULES, j->most);
                printf("%*.4g", JOULES, bytes > 0 ? j->median / bytes * 1e9 : 0);
            } else {
                printf("%*s%*s%*s%*s", WIDTH, "-", JOULES, "-", JOULES, "-", JOULES, "-");
            }
        }
        printf("\n");
    }
}
