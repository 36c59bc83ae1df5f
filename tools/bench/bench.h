/*
 * coll_dma_bench: times of all-gathers and all-to-alls, by OSU's method, with coll/dma and its rivals side by side. This
 * header is shared by its files.
 *
 *   bench.c       main: the sequence of a run
 *   options.c     the command line
 *   operations.c  the calls of MPI: which there are, and how a side makes one
 *   data.c        elements, sizes of blocks, buffers; what a rank sends and what must be received
 *   sides.c       whose calls are timed: coll/dma, other components, NCCL
 *   nccl.c        calls of NCCL or RCCL, which nccl_library.c loads at run time
 *   queue.c       calls in the order of a stream, by libmpix_dma, loaded at run time
 *   bare.c        the least time that an all-gather can take
 *   measure.c     one cell of one side: OSU's loops, and the check of the data
 *   passes.c      all cells and sides in turn, pass by pass; the progress bar
 *   results.c     what was measured, and what follows: medians, percentiles, ratios
 *   table.c       the tables, OSU's columns first
 *   files.c       CSV, JSON, the plot
 *   energy.c      joules of a call
 *   device.c      memory of a GPU, of HIP or CUDA, loaded at run time
 *
 * Terms: an operation is, for example, MPI_Iallgatherv. A cell is an operation with a size. A side is an implementation
 * whose calls are timed. The first side is the one that the job uses by itself.
 */
#ifndef DMA_BENCH_H
#define DMA_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/load.h"

enum { BENCH_OPERATIONS = 16, BENCH_SIZES = 64, BENCH_SIDES = 24, BENCH_PIECES = 16, BENCH_MAP = 64 };

/* ---- operations ---- */

typedef enum bench_form { BENCH_BLOCKING, BENCH_NONBLOCKING, BENCH_PERSISTENT, BENCH_QUEUE, BENCH_FORMS } bench_form_t;

typedef struct bench_operation {
    const char *name;  /* the name of OSU's program, without osu_; or our own, where OSU has none */
    const char *title; /* the name in OSU's output */
    bench_form_t form;
    bool to_each; /* an all-to-all; otherwise an all-gather */
    bool v;
} bench_operation_t;

extern const bench_operation_t bench_operations[BENCH_OPERATIONS];
const bench_operation_t *bench_operation_find(const char *name);

/* ---- the command line ---- */

typedef struct bench_options {
    const bench_operation_t *operations[BENCH_OPERATIONS];
    int noperations;
    size_t min, max, factor;      /* bytes of a block */
    int iterations[2], warmup[2]; /* up to 8 KiB, and above */
    int row;                      /* calls between two barriers */
    int passes;                   /* 0: chosen from the number of rivals */
    double seconds;               /* no pass begins that would end later; 0: no limit */
    const char *rivals;           /* names with commas, "all" or "none" */
    const char *nccl, *load;      /* libraries */
    const char *device;           /* "rocm", "cuda" or "auto"; NULL: host memory */
    const char *type;             /* "byte", "vector", "indexed" */
    int skew;                     /* percent */
    bool in_place, full, validate;
    bool progress, quiet;
    bool energy;
    int windows, window; /* of energy: how many for each cell and side; seconds of one */
    const char *csv, *json, *plot;
    char *command; /* the whole command line, for the files */
} bench_options_t;

/* Prints what is wrong, if `print` is true. Returns an exit status, or -1: go on. */
int bench_options_parse(bench_options_t *o, int argc, char **argv, bool print);

/* ---- what is measured ---- */

/* Elements of a datatype that consists of `bytes` bytes at map[0], map[1], ... in an extent. Equal on all ranks. */
typedef struct bench_element {
    MPI_Datatype type;
    size_t bytes, extent;
    size_t map[BENCH_MAP];
} bench_element_t;

typedef struct bench_cell {
    const bench_operation_t *op;
    size_t bytes; /* of a block; with a skew, on average */
} bench_cell_t;

/* One prepared call. */
typedef struct bench_call {
    const bench_operation_t *op;
    MPI_Comm comm;
    MPI_Datatype type;
    const void *send;
    void *recv;
    int count; /* elements of a block */
    int *send_counts, *send_displs, *recv_counts, *recv_displs;
    MPI_Request request;
} bench_call_t;

/* Codes of MPI. */
bool bench_has_queue(const bench_options_t *o);        /* an operation in a queue */
bool bench_is_persistent(const bench_operation_t *op); /* needs bench_call_init */
int bench_call_init(bench_call_t *call);
int bench_call_start(bench_call_t *call); /* non-blocking and persistent calls */
int bench_call_run(bench_call_t *call);   /* whole; in a queue: without the wait of the host */

/* ---- whose calls ---- */

typedef enum bench_kind { BENCH_MPI, BENCH_BARE, BENCH_NOTHING, BENCH_NCCL } bench_kind_t;

typedef struct bench_side {
    char name[32];
    bench_kind_t kind;
    unsigned serves; /* of BENCH_MPI: forms, a bit each, and whether it serves all-to-alls and v-operations */
    MPI_Comm comm;   /* of BENCH_MPI */
    int mode;        /* of BENCH_NCCL */
} bench_side_t;

/* Of one pass, in microseconds. `pure` is OSU's latency: average, least and most over the ranks. */
typedef struct bench_sample {
    double pure, min, max;
    /* of non-blocking operations, with computing beside the call: the whole time, and its parts */
    double overall, init, compute, wait;
} bench_sample_t;

/* Over the windows. */
typedef struct bench_joules {
    double median, least, most;
} bench_joules_t;

typedef struct bench {
    bench_options_t o;
    int rank, size, rank_on_host;
    bool device;    /* memory of a GPU */
    bool component; /* coll/dma is in this job */
    bench_element_t element;
    bench_cell_t *cells;
    int ncells;
    bench_side_t sides[BENCH_SIDES];
    int nsides;
    char *send, *recv; /* for all cells */
    size_t send_room, recv_room;
    int *counts; /* four arrays, by rank */
    int planned; /* passes, at most */
    int passes;  /* passes that have been made */
    bench_sample_t *samples;
    bool *wrong;            /* by cell and side: some pass had wrong data */
    bench_joules_t *joules; /* of a call, by cell and side, of all ranks together */
    bench_joules_t watts;   /* without calls */
    const load_t *load;
    char when[32], library[128], host[MPI_MAX_PROCESSOR_NAME];
} bench_t;

/* Ends the job, with a line. */
void bench_stop(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Prints a comment line of the output, on rank 0. */
void bench_remark(const bench_t *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *bench_array(size_t n, size_t bytes);

/* ---- data ---- */

/* The element type; false: no such type. */
bool bench_element_make(bench_element_t *e, const char *type);
/* Bytes that the buffers of the largest cell need. */
void bench_buffers_make(bench_t *b);
void bench_buffers_free(bench_t *b);
void *bench_memory(const bench_t *b, size_t bytes);
void bench_memory_free(const bench_t *b, void *memory);
/* Fills in everything except comm and request. */
void bench_call_layout(bench_t *b, const bench_cell_t *cell, bench_call_t *call);
/* Writes what this rank sends, with contents that `turn` changes, and a mark where data must arrive and nowhere else. */
void bench_data_fill(const bench_t *b, const bench_call_t *call, unsigned turn);
/* False: the result is wrong; prints where. */
bool bench_data_check(const bench_t *b, const bench_call_t *call, unsigned turn, const char *side);

/* ---- sides ---- */

void bench_sides_make(bench_t *b);
void bench_sides_free(bench_t *b);
bool bench_side_serves(const bench_t *b, const bench_side_t *side, const bench_cell_t *cell);

/* NCCL's modes. Every rank calls all of these in the same order, except run. */
int nccl_modes(void);
const char *nccl_mode_name(int mode);
const char *nccl_open(const bench_t *b); /* NULL, or why not */
bool nccl_mode_opened(int mode);
/* The buffers of the call become NCCL's own. False: this mode cannot do that. */
bool nccl_prepare(int mode, bench_call_t *call);
void nccl_run(int mode, const bench_call_t *call); /* without the wait of the host */
void nccl_wait(int mode);

/* The queue. Every rank calls queue_open, if there is an operation that needs it. */
const char *queue_open(const bench_t *b); /* NULL, or why not */
void queue_close(void);
int queue_run(bench_call_t *call);
int queue_wait(void);

/* The least time that an all-gather can take: see bare.c. */
enum { BARE_MOST = 4096 }; /* bytes of a block at most */
void bare_open(void);
void bare_close(void);
void bare_allgather(const void *send, void *recv, size_t bytes, bool in_place);

/* ---- measuring ---- */

double bench_now(void); /* microseconds */
/* Of one side. *right: the data of one more call were right, or `turn` is 0 and they were not checked. */
bench_sample_t bench_measure(bench_t *b, const bench_cell_t *cell, const bench_side_t *side, unsigned turn,
                             bool *right);
/* Calls of the cell one after the other for this time. Returns their number. */
long bench_repeat(bench_t *b, const bench_cell_t *cell, const bench_side_t *side, double seconds);
void bench_passes(bench_t *b);
/* NULL, or why the energy cannot be measured. */
const char *energy_open(const bench_t *b);
void energy_measure(bench_t *b);
/* Bytes that a call brings from one rank to another, all ranks together; with a skew, about. */
double bench_moved_bytes(const bench_t *b, int cell);

/* ---- results ---- */

typedef enum bench_value {
    BENCH_NONE, /* 0 */
    BENCH_PURE,
    BENCH_MIN,
    BENCH_MAX,
    BENCH_OVERALL,
    BENCH_INIT,
    BENCH_COMPUTE,
    BENCH_WAIT,
    BENCH_OVERLAP
} bench_value_t;

typedef struct bench_spread {
    double median, p5, p95;
} bench_spread_t;

void bench_results_make(bench_t *b);
void bench_results_free(bench_t *b);
bench_sample_t *bench_sample(const bench_t *b, int pass, int cell, int side);
double bench_sample_value(const bench_sample_t *sample, bench_value_t which);
/* Over the passes. */
bench_spread_t bench_spread(const bench_t *b, int cell, int side, bench_value_t which);
/* The first side's time over another's, pass by pass. */
bench_spread_t bench_ratio(const bench_t *b, int cell, int side);
bool bench_measured(const bench_t *b, int cell, int side);
/* Some cell of an operation. */
bool bench_serves(const bench_t *b, const bench_operation_t *op, int side);
bool bench_all_right(const bench_t *b);

/* Of the last pass: the cell has been measured on all sides. */
void bench_table_row(const bench_t *b, int cell);
void bench_table_energy(const bench_t *b);

/* After all passes, on rank 0. NULL, or what is wrong. */
const char *bench_csv_write(const bench_t *b);
const char *bench_json_write(const bench_t *b);
const char *bench_plot_can(const char *path);
const char *bench_plot_write(const bench_t *b);

#endif
