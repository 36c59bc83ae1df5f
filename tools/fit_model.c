/* The measurements, the predictions of a profile, and their error. */
#include "tools/fit_model.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *read_speedups(const char *line, fit_data_t *data)
{
    fit_row_t row = {0};
    char coll[16];
    uint64_t total;
    double *s = row.speedup;

    if (data->nrows == FIT_MOST_ROWS) {
        return "too many rows";
    }
    if (sscanf(line, "%15[a-z],%" SCNu64 ",%lf,%lf,%lf,%lf,%lf,%lf", coll, &total, &s[0], &s[1], &s[2], &s[3], &s[4],
               &s[5]) != 8) {
        return "expected collective,size_total and six speed-ups";
    }
    row.gathers = !strcmp(coll, "allgather");
    if (!row.gathers && strcmp(coll, "alltoall")) {
        return "neither allgather nor alltoall";
    }
    for (int i = 0; i < FIT_COLUMNS; i++) {
        if (!(s[i] > 0)) {
            return "a speed-up must be more than 0";
        }
    }
    row.bytes = total / FIT_GPUS;
    data->rows[data->nrows++] = row;
    return NULL;
}

static const char *read_phases(const char *line, fit_data_t *data)
{
    fit_phase_t phase = {0};
    double *s = phase.share;

    if (data->nphases == FIT_MOST_PHASES) {
        return "too many rows";
    }
    if (sscanf(line, "%" SCNu64 ",%lf,%lf,%lf,%lf", &phase.bytes, &s[0], &s[1], &s[2], &s[3]) != 5) {
        return "expected size and four shares";
    }
    data->phases[data->nphases++] = phase;
    return NULL;
}

/* A file has comments, one line of headings, and rows. */
static bool read_file(const char *path, const char *(*read_line)(const char *, fit_data_t *), fit_data_t *data,
                      char *error, size_t error_bytes)
{
    FILE *file = fopen(path, "r");
    const char *wrong = NULL;
    bool headings = false;
    char line[256];
    int number = 0;

    if (!file) {
        snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    while (!wrong && fgets(line, sizeof(line), file)) {
        number++;
        if (*line == '#') {
            continue;
        }
        if (headings) {
            wrong = read_line(line, data);
        }
        headings = true;
    }
    fclose(file);
    if (wrong) {
        snprintf(error, error_bytes, "%s: line %d: %s", path, number, wrong);
    }
    return !wrong;
}

bool fit_read(const char *speedups, const char *phases, fit_data_t *data, char *error, size_t error_bytes)
{
    fit_data_t result = {0};

    if (!read_file(speedups, read_speedups, &result, error, error_bytes) ||
        !read_file(phases, read_phases, &result, error, error_bytes)) {
        return false;
    }
    if (!result.nrows || !result.nphases) {
        snprintf(error, error_bytes, "%s: no measurements", result.nrows ? phases : speedups);
        return false;
    }
    *data = result;
    return true;
}

dma_gpu_shape_t fit_shape(const fit_row_t *row, int column)
{
    dma_gpu_shape_t shape = {.family = DMA_GPU_COPY,
                             .nranks = FIT_GPUS,
                             .queues = FIT_GPUS - 1,
                             .bytes = row->bytes,
                             .prelaunch = column % 2};

    if (column / 2 == 1) {
        shape.family = row->gathers ? DMA_GPU_BCST : DMA_GPU_SWAP;
    } else if (column / 2 == 2) {
        shape.queues = 1;
    }
    return shape;
}

const char *fit_column_name(const fit_row_t *row, int column)
{
    return column / 2 == 0 ? "pcpy" : column / 2 == 2 ? "b2b" : row->gathers ? "bcst" : "swap";
}

dma_gpu_work_t fit_work(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    dma_gpu_work_t work = dma_gpu_work(profile, shape);
    uint64_t n = (uint64_t)shape->nranks, own = shape->own_block ? 1 : 0;

    work.packets = shape->family == DMA_GPU_SWAP ? n * (n - 1) / 2 : n * (work.packets - own);
    work.queues = n * (work.queues - own);
    work.queues = work.queues < work.packets ? work.queues : work.packets;
    work.packets += n * own;
    work.queues += n * own;
    work.completions = work.queues;
    /* one word lets all queues go, nothing can be taken back, and each call has buffers and packets of its own */
    work.conditions = work.triggers = 0;
    work.rearms = false;
    work.own_queues = n * own;
    return work;
}

dma_gpu_work_t fit_work_of_copy(const dma_gpu_profile_t *profile, uint64_t bytes)
{
    return (dma_gpu_work_t){
        .packets = 1, .queues = 1, .completions = 1, .chain = 1, .move_ps = dma_profile_ps(bytes, profile->link_mbps)};
}

uint64_t fit_cost(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape)
{
    dma_gpu_work_t work = fit_work(profile, shape);
    dma_gpu_phases_t phases = dma_gpu_phases(profile, &work, shape->prelaunch);

    return dma_gpu_phases_sum(&phases);
}

void fit_predict(const dma_gpu_profile_t *profile, const fit_row_t *row, double speedup[FIT_COLUMNS])
{
    double base = 0;

    for (int i = 0; i < FIT_COLUMNS; i++) {
        dma_gpu_shape_t shape = fit_shape(row, i);
        double cost = (double)fit_cost(profile, &shape);

        base = i ? base : cost;
        speedup[i] = base / cost;
    }
}

void fit_phase_shares(const dma_gpu_profile_t *profile, const dma_gpu_work_t *work, bool prelaunch, double share[4])
{
    dma_gpu_phases_t p = dma_gpu_phases(profile, work, prelaunch);
    double sum = (double)dma_gpu_phases_sum(&p);

    share[0] = 100 * (double)p.control / sum;
    share[1] = 100 * (double)p.schedule / sum;
    share[2] = 100 * (double)p.copy / sum;
    share[3] = 100 * (double)p.sync / sum;
}

void fit_predict_phase(const dma_gpu_profile_t *profile, const fit_phase_t *phase, double share[4])
{
    dma_gpu_work_t work = fit_work_of_copy(profile, phase->bytes);

    fit_phase_shares(profile, &work, false, share);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

fit_error_t fit_error(const dma_gpu_profile_t *profile, const fit_data_t *data, uint64_t rows)
{
    double errors[FIT_MOST_ROWS * FIT_COLUMNS], predicted[FIT_COLUMNS];
    fit_error_t e = {0};

    for (size_t r = 0; r < data->nrows; r++) {
        if (!(rows >> r & 1)) {
            continue;
        }
        fit_predict(profile, &data->rows[r], predicted);
        for (int i = 1; i < FIT_COLUMNS; i++) {
            errors[e.cells++] = exp(fabs(log(predicted[i] / data->rows[r].speedup[i]))) - 1;
        }
    }
    if (e.cells) {
        qsort(errors, e.cells, sizeof(*errors), compare);
        e.median = errors[e.cells / 2];
        e.p75 = errors[e.cells * 3 / 4];
        e.p90 = errors[e.cells * 9 / 10];
        e.most = errors[e.cells - 1];
    }
    return e;
}

static int best_of(const double speedup[FIT_COLUMNS], int step)
{
    int best = 0;

    for (int i = step; i < FIT_COLUMNS; i += step) {
        best = speedup[i] > speedup[best] ? i : best;
    }
    return best;
}

size_t fit_choices(const dma_gpu_profile_t *profile, const fit_data_t *data, bool prelaunch, double slack)
{
    int step = prelaunch ? 1 : 2;
    size_t good = 0;

    for (size_t r = 0; r < data->nrows; r++) {
        const double *measured = data->rows[r].speedup;
        double predicted[FIT_COLUMNS];

        fit_predict(profile, &data->rows[r], predicted);
        good += measured[best_of(predicted, step)] * (1 + slack) >= measured[best_of(measured, step)];
    }
    return good;
}

double fit_phase_error(const dma_gpu_profile_t *profile, const fit_data_t *data)
{
    double most = 0, share[4];

    for (size_t p = 0; p < data->nphases; p++) {
        fit_predict_phase(profile, &data->phases[p], share);
        for (int i = 0; i < 4; i++) {
            most = fmax(most, fabs(share[i] - data->phases[p].share[i]));
        }
    }
    return most;
}
