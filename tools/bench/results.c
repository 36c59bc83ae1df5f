/* What was measured, and what follows: see bench.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"

void bench_results_make(bench_t *b)
{
    size_t cells = (size_t)b->ncells * (size_t)b->nsides;

    b->samples = bench_array(cells * (size_t)b->planned, sizeof(*b->samples));
    b->wrong = bench_array(cells, sizeof(*b->wrong));
    b->joules = bench_array(cells, sizeof(*b->joules));
}

void bench_results_free(bench_t *b)
{
    free(b->samples);
    free(b->wrong);
    free(b->joules);
}

bench_sample_t *bench_sample(const bench_t *b, int pass, int cell, int side)
{
    return &b->samples[((size_t)pass * (size_t)b->ncells + (size_t)cell) * (size_t)b->nsides + (size_t)side];
}

double bench_sample_value(const bench_sample_t *s, bench_value_t which)
{
    double overlap;

    switch (which) {
    case BENCH_NONE:
        return 0;
    case BENCH_PURE:
        return s->pure;
    case BENCH_MIN:
        return s->min;
    case BENCH_MAX:
        return s->max;
    case BENCH_OVERALL:
        return s->overall;
    case BENCH_INIT:
        return s->init;
    case BENCH_COMPUTE:
        return s->compute;
    case BENCH_WAIT:
        return s->wait;
    default:
        overlap = 100 - (s->overall - s->compute) / s->pure * 100;
        return overlap > 0 ? overlap : 0;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* With linear interpolation between the two nearest values. */
static double percentile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int low = (int)at, high = low + 1 < n ? low + 1 : low;

    return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

static bench_spread_t spread_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), ascending);
    return (bench_spread_t){percentile(values, n, 0.5), percentile(values, n, 0.05), percentile(values, n, 0.95)};
}

bench_spread_t bench_spread(const bench_t *b, int cell, int side, bench_value_t which)
{
    double *values = bench_array((size_t)b->passes, sizeof(*values));
    bench_spread_t spread;

    for (int p = 0; p < b->passes; p++) {
        values[p] = bench_sample_value(bench_sample(b, p, cell, side), which);
    }
    spread = spread_of(values, b->passes);
    free(values);
    return spread;
}

bench_spread_t bench_ratio(const bench_t *b, int cell, int side)
{
    double *values = bench_array((size_t)b->passes, sizeof(*values));
    bench_spread_t spread;

    for (int p = 0; p < b->passes; p++) {
        values[p] = bench_sample(b, p, cell, 0)->pure / bench_sample(b, p, cell, side)->pure;
    }
    spread = spread_of(values, b->passes);
    free(values);
    return spread;
}

bool bench_measured(const bench_t *b, int cell, int side)
{
    return bench_side_serves(b, &b->sides[side], &b->cells[cell]);
}

bool bench_serves(const bench_t *b, const bench_operation_t *op, int side)
{
    for (int c = 0; c < b->ncells; c++) {
        if (b->cells[c].op == op && bench_measured(b, c, side)) {
            return true;
        }
    }
    return false;
}

bool bench_all_right(const bench_t *b)
{
    for (int i = 0; i < b->ncells * b->nsides; i++) {
        if (b->wrong[i]) {
            return false;
        }
    }
    return true;
}
