/*
 * Passes compared: see gpu_bench.h. In every pass all modes take their turn at every size, so that what changes with time
 * changes for all. A cell is the median of the passes; a ratio is the median of the passes' ratios, and behind it the
 * lower bound of that median, with 95 % confidence, by counting signs.
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"

static double times[2][2][MOST_SIZES][MOST_MODES][MOST_PASSES];
static int passes;

FILE *csv_open(const char *stage, const char *header)
{
    char path[512];
    FILE *file;

    if (!bench.csv || bench.rank) {
        return NULL;
    }
    snprintf(path, sizeof(path), "%s%s.csv", bench.csv, stage);
    file = fopen(path, "w");
    if (file) {
        fprintf(file, "%s\n", header);
    }
    return file;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The value at a rank of the sorted ones: `low`: the lower bound of the median. */
static double middle(const double *values, int n, bool low)
{
    double sorted[MOST_PASSES];
    int at = n / 2;

    memcpy(sorted, values, (size_t)n * sizeof(*values));
    qsort(sorted, (size_t)n, sizeof(*sorted), ascending);
    if (low) {
        at = (int)(n / 2.0 - 1.96 * sqrt(n) / 2);
        at = at < 0 ? 0 : at;
    }
    return sorted[at];
}

static void one_pass(FILE *csv)
{
    for (int op = 0; op < 2; op++) {
        for (int place = 0; place < 2; place++) {
            for (int s = 0; s < bench.nsizes; s++) {
                what_t what = {.to_each = op, .in_place = place, .bytes = bench.sizes[s]};

                for (int m = 0; m < modes_count(); m++) {
                    double *t = times[op][place][s][m];

                    t[passes] = 0;
                    if ((passes && !t[0]) || !mode_prepare(m, &what)) {
                        continue; /* cannot */
                    }
                    if (passes == 0 && most_of_ranks(!mode_check(m))) {
                        if (bench.rank == 0) {
                            printf("WRONG DATA: %s, all-%s, in place %d, %zu bytes\n", mode_name(m),
                                   op ? "to-all" : "gather", place, what.bytes);
                        }
                        mode_finish(m);
                        continue;
                    }
                    t[passes] = time_mode(m, &what, 0).p50;
                    mode_finish(m);
                    if (csv) {
                        fprintf(csv, "%d,%s,%s,%zu,%s,%.2f\n", passes, op ? "alltoall" : "allgather",
                                place ? "in" : "out", what.bytes, mode_name(m), t[passes]);
                    }
                }
            }
        }
    }
    passes++;
}

static void print_sizes(const char *title)
{
    printf("%-28.28s", title);
    for (int s = 0; s < bench.nsizes; s++) {
        size_t b = bench.sizes[s];

        printf(" %6zu%c", b >> (b >= 1 << 30 ? 30 : b >= 1 << 20 ? 20 : 10), "KMG"[(b >= 1 << 20) + (b >= 1 << 30)]);
    }
    printf("\n");
}

/* The best rival of a cell by its median, or -1. */
static int best_rival(int op, int place, int s, bool graphs)
{
    int best = -1;
    double least = 0;

    for (int m = OUR_MODES; m < modes_count(); m++) {
        const double *t = times[op][place][s][m];
        double p50 = middle(t, passes, false);

        if (t[0] > 0 && mode_graph(m) == graphs && (best < 0 || p50 < least)) {
            best = m;
            least = p50;
        }
    }
    return best;
}

/* Our time over another mode's, of every pass. */
static void ratios(int op, int place, int s, int ours, int theirs, double *ratio)
{
    for (int p = 0; p < passes; p++) {
        ratio[p] = times[op][place][s][ours][p] / times[op][place][s][theirs][p];
    }
}

static void print_ratios(int op, int place, int ours, int theirs, bool graphs, const char *title)
{
    char bounds[256] = "";
    double sum = 0;
    int n = 0;

    printf("%-28.28s", title);
    for (int s = 0; s < bench.nsizes; s++) {
        int other = theirs >= 0 ? theirs : best_rival(op, place, s, graphs);
        double ratio[MOST_PASSES];
        size_t used = strlen(bounds);

        if (other < 0 || !times[op][place][s][ours][0]) {
            printf(" %7s", "-");
            snprintf(bounds + used, sizeof(bounds) - used, " %7s", "-");
            continue;
        }
        ratios(op, place, s, ours, other, ratio);
        sum += log(middle(ratio, passes, false));
        n++;
        printf(" %7.3f", middle(ratio, passes, false));
        snprintf(bounds + used, sizeof(bounds) - used, " %7.3f", middle(ratio, passes, true));
    }
    printf("  geometric mean %.3f\n%-28s%s\n", n ? exp(sum / n) : 0.0, "   lower bound, 95 %", bounds);
}

static void print_table(int op, int place)
{
    char title[64];

    snprintf(title, sizeof(title), "%s%s", op ? "all-to-all" : "all-gather", place ? ", in place" : "");
    print_sizes(title);
    for (int m = 0; m < modes_count(); m++) {
        bool any = false;

        for (int s = 0; s < bench.nsizes; s++) {
            any |= times[op][place][s][m][0] > 0;
        }
        if (!any) {
            continue;
        }
        printf("%-28.28s", mode_name(m));
        for (int s = 0; s < bench.nsizes; s++) {
            printf(" %7.1f", middle(times[op][place][s][m], passes, false));
        }
        printf("\n");
    }
    if (bench.rival && !(op && place)) {
        print_ratios(op, place, OURS, -1, false, "dma / best stream launch");
        print_ratios(op, place, OURS, -1, true, "dma / best graph");
    }
    print_ratios(op, place, OURS_PERSISTENT, OURS, false, "dma persistent / dma");
    printf("\n");
}

void tables_passes(void)
{
    FILE *csv = csv_open("passes", "pass,operation,place,bytes,mode,p50_us");
    double end = now_us() + bench.seconds * 1e6;
    int more = 1;

    while (more) {
        one_pass(csv);
        more = passes < bench.passes && now_us() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (csv) {
        fclose(csv);
    }
    if (bench.rank) {
        return;
    }
    printf("p50 of a pass, the slowest rank's, median of %d interleaved passes; microseconds; bytes of the receive "
           "buffer; "
           "%d ranks%s%s\n\n",
           passes, bench.n, bench.note ? "; " : "", bench.note ? bench.note : "");
    for (int op = 0; op < 2; op++) {
        for (int place = 0; place < 2; place++) {
            print_table(op, place);
        }
    }
    fflush(stdout);
}
