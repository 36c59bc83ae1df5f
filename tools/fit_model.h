/*
 * How well a profile of GPUs' DMA engines predicts published measurements, and the search for the best profile.
 *
 * The measurements are ratios: speed-ups of five variants over a sixth, and shares of phases. So a fit determines the
 * constants except for their common scale, which link_mbps sets and the search does not change. The search is
 * deterministic: it has its own random numbers and a fixed number of steps. The model is that of the component
 * (plan/gpu/cost.h), evaluated in integers.
 */
#ifndef DMA_TOOLS_FIT_MODEL_H
#define DMA_TOOLS_FIT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/gpu/cost.h"

#define FIT_COLUMNS     6 /* pcpy, alt, b2b, each without and with prelaunch */
#define FIT_MOST_ROWS   64
#define FIT_MOST_PHASES 32
#define FIT_GPUS        8

typedef struct fit_row {
    bool gathers;
    uint64_t bytes; /* of a block */
    double speedup[FIT_COLUMNS];
} fit_row_t;

typedef struct fit_phase {
    uint64_t bytes;
    double share[4]; /* percent: control, schedule, copy, sync */
} fit_phase_t;

typedef struct fit_data {
    size_t nrows, nphases;
    fit_row_t rows[FIT_MOST_ROWS];
    fit_phase_t phases[FIT_MOST_PHASES];
} fit_data_t;

/* Sets of rows: bit masks of row numbers. */
#define FIT_ALL  UINT64_MAX
#define FIT_EVEN UINT64_C(0x5555555555555555)

/* Reads two files in the format of those in test/data. On error returns false, and `error` says where and why. */
bool fit_read(const char *speedups, const char *phases, fit_data_t *data, char *error, size_t error_bytes);

/* What was measured in a column of a row, per GPU: in place, so without own blocks. */
dma_gpu_shape_t fit_shape(const fit_row_t *row, int column);
/* The work of one process that drives all GPUs: it writes all packets, starts all queues and observes them. A swap has
 * two GPUs and one packet, so there are half as many as the packets of the busiest GPU suggest. Prelaunched
 * queues poll one word, and have no packet that skips others. */
dma_gpu_work_t fit_work(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape);
/* One copy from one GPU to another. */
dma_gpu_work_t fit_work_of_copy(const dma_gpu_profile_t *profile, uint64_t bytes);
/* Predicted picoseconds when one process drives all GPUs. */
uint64_t fit_cost(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape);
const char *fit_column_name(const fit_row_t *row, int column);
void fit_predict(const dma_gpu_profile_t *profile, const fit_row_t *row, double speedup[FIT_COLUMNS]);
/* Percent: control, schedule, copy, sync. */
void fit_phase_shares(const dma_gpu_profile_t *profile, const dma_gpu_work_t *work, bool prelaunch, double share[4]);
void fit_predict_phase(const dma_gpu_profile_t *profile, const fit_phase_t *phase, double share[4]);

/* The function that the search minimizes. */
double fit_loss(const dma_gpu_profile_t *profile, const fit_data_t *data, uint64_t rows);
/* The profile that predicts these rows and all phases best, with the given link_mbps and own_mbps. */
dma_gpu_profile_t fit_search(const fit_data_t *data, uint64_t rows, uint64_t link_mbps, uint64_t own_mbps);

/* The distribution of the errors over the five columns that are ratios, of these rows. An error is the factor between
 * prediction and measurement, minus 1. */
typedef struct fit_error {
    size_t cells;
    double median, p75, p90, most;
} fit_error_t;
fit_error_t fit_error(const dma_gpu_profile_t *profile, const fit_data_t *data, uint64_t rows);

/* The number of rows in which the predicted best variant is measured within `slack` of the best measured one: of all
 * columns, or of those without prelaunch. */
size_t fit_choices(const dma_gpu_profile_t *profile, const fit_data_t *data, bool prelaunch, double slack);
/* The largest difference of a phase's share, in percentage points. */
double fit_phase_error(const dma_gpu_profile_t *profile, const fit_data_t *data);

/* Prints tables in Markdown: the constants beside those of two cross-validations (fitted to the even and to the odd
 * rows), the predicted and measured speed-ups, errors, phases, what calls take with one process for all GPUs and with one for
 * each, and what the component chooses with one process per GPU. */
void fit_report(const dma_gpu_profile_t *profile, const dma_gpu_profile_t *even, const dma_gpu_profile_t *odd,
                const fit_data_t *data, FILE *out);

/* Prints shares of phases as CSV: of one copy as published and as predicted, and as predicted of each variant in the setting of
 * the measurements. */
void fit_shares(const dma_gpu_profile_t *profile, const fit_data_t *data, FILE *out);

#endif
