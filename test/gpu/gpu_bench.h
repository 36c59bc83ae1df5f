/*
 * Collectives in device memory, ours and others', measured side by side in one run: parts shared by its files.
 *
 *   gpu_bench.c        options, loading, the stages
 *   gpu_bench_modes.c  what is measured: our forms, and the rivals of a plugin; their data checked
 *   gpu_bench_time.c   one measurement: ranks begin together, the median of a rank's calls, the slowest rank's
 *   gpu_bench_table.c  passes compared: medians, paired ratios
 *   gpu_bench_load.c   beside a load: matrix products, computing processors, energy
 */
#ifndef DMA_TEST_GPU_BENCH_H
#define DMA_TEST_GPU_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plugin.h"

enum { MOST_MODES = 16, MOST_SIZES = 16, MOST_PASSES = 64 };
enum { OURS, OURS_PERSISTENT, OUR_MODES };

/* What a measurement is of: an operation, and where its send buffer is. */
typedef struct what {
    bool to_each; /* all-to-all, else all-gather */
    bool in_place;
    size_t bytes; /* of the receive buffer */
} what_t;

typedef struct bench {
    int rank, n;
    size_t most; /* bytes of a buffer */
    int nsizes;
    size_t sizes[MOST_SIZES];
    int passes;
    double seconds; /* for all passes */
    int scale;      /* percent of the usual number of calls */
    const rival_t *rival;
    const gemm_t *gemm;
    const char *csv; /* prefix of file names, or NULL */
    const char *note;
} bench_t;
extern bench_t bench;

/* ---- modes: ours, then the rival's ---- */
int modes_count(void);
const char *mode_name(int mode);
bool mode_graph(int mode);
void modes_open(void);
void modes_close(void);
/* The next calls; false: this mode cannot, on all ranks. */
bool mode_prepare(int mode, const what_t *what);
void mode_call(int mode);
void mode_finish(int mode);
/* One call whose data are compared; false: wrong. Between prepare and finish. */
bool mode_check(int mode);

/* ---- time ---- */
double now_us(void);
void time_open(void);
void time_barrier(void);
typedef struct timing {
    double p50, p99, mean; /* microseconds; the slowest rank's */
} timing_t;
/* So many calls as the size deserves, or those of so many seconds. */
timing_t time_mode(int mode, const what_t *what, double seconds);
double most_of_ranks(double value);

/* ---- tables ---- */
void tables_passes(void);
FILE *csv_open(const char *stage, const char *header);

/* ---- stages beside a load ---- */
void load_gemm(void);
void load_overlap(void);
void load_energy(void);

#endif
