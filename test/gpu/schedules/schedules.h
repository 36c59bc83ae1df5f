/*
 * schedules: times of layers whose products and collectives run one after the other, or side by side, by coll/dma and by NCCL.
 * This header is shared by its files.
 *
 *   main.c        the command line, the turns, what is printed
 *   variants.c    which variants a work has; one turn of a variant, and the check of its data
 *   ways.c        in which order products and collectives are started, and who waits for whom
 *   products.c    gather and exchange: a product and one collective
 *   layers.c      transformer and moe: two products between two collectives
 *   arithmetic.c  products by cuBLAS or by the processor, in a stream
 *   sides_mpi.c   collectives of MPI: waited for by the host, in a queue, in partitions
 *   sides_nccl.c  collectives of NCCL, in a stream
 *
 * Terms: a work is what is computed. A side is an implementation of its collectives. A way is an order in which products and
 * collectives are started. A variant is a side, a way and a number of slices: rows of every block, or experts, that are sent
 * together. Two streams are used: `compute` for products, `comm` for collectives beside them.
 */
#ifndef DMA_TEST_GPU_SCHEDULES_H
#define DMA_TEST_GPU_SCHEDULES_H

#include <stdbool.h>
#include <stddef.h>

#include "test/mpix/gpu.h"

enum { SCHED_RANKS = 8, SCHED_SLICES = 8, SCHED_TURNS = 101, SCHED_VARIANTS = 40, SCHED_EXPERTS = 16 };

/* ---- collectives ---- */

typedef enum sched_op { SCHED_GATHER, SCHED_EXCHANGE, SCHED_EXCHANGE_V } sched_op_t;

/* One prepared collective. */
typedef struct sched_call {
    sched_op_t op;
    char *send, *recv;
    size_t bytes; /* of a block; not of SCHED_EXCHANGE_V */
    struct {
        int send[SCHED_RANKS], send_at[SCHED_RANKS], recv[SCHED_RANKS], recv_at[SCHED_RANKS];
    } v; /* bytes, of SCHED_EXCHANGE_V */
    MPI_Request request;
} sched_call_t;

typedef enum sched_kind { SCHED_HOST, SCHED_STREAM, SCHED_PARTED } sched_kind_t;

typedef struct sched_side {
    const char *name;
    sched_kind_t kind;
    char *send, *recv; /* memory that its collectives take */
    void *comm;        /* of NCCL */
    /* False: this side cannot make such a call. */
    bool (*prepare)(const struct sched_side *side, sched_call_t *call, int parts);
    void (*enqueue)(const struct sched_side *side, sched_call_t *call, void *stream);
    void (*settle)(void); /* after a turn: the first error, if there was one */
} sched_side_t;

/* The sides with plain memory, and those of NCCL that its library has. They add themselves to a list. */
int sched_open_mpi(sched_side_t *sides, char *send, char *recv);
int sched_open_nccl(sched_side_t *sides, const char *path, char *send, char *recv, size_t send_room, size_t recv_room);
/* Of the host. Ends the job if MPI fails. */
void sched_run(sched_call_t *call);
void sched_start(sched_call_t *call);
void sched_wait(sched_call_t *call);
void sched_free(sched_call_t *call);

/* ---- works ---- */

typedef struct sched_shape {
    long rows, width, columns; /* of a block of each rank; see the works */
    long hidden;               /* length of a row between two products, of this rank or of an expert */
    long experts;              /* of each rank */
} sched_shape_t;

typedef enum sched_way { SCHED_WHOLE, SCHED_BESIDE, SCHED_WAYS } sched_way_t;

typedef struct sched_variant {
    const sched_side_t *side;
    sched_way_t way;
    int slices;
    sched_call_t first[SCHED_SLICES], second[SCHED_SLICES]; /* of partitions: one */
    double us[SCHED_TURNS];
    bool wrong, slow;
} sched_variant_t;

typedef struct sched_work {
    const char *name, *arguments;
    bool has_first, has_second, partitions;
    /* Reads what the arguments say, as many as `arguments` names. False: no such work. */
    bool (*size)(const long *arguments);
    bool (*divides)(int slices);
    void (*rooms)(size_t *send, size_t *recv); /* elements */
    void (*open)(void);
    void (*close)(void);
    void (*calls)(sched_variant_t *v); /* without their requests */
    /* What comes from other ranks, and results, become values that are wrong. */
    void (*fill)(const sched_variant_t *v);
    /* Enqueue in `compute`: all; what needs no collective, and none needs, in two halves; the rows or experts of a slice. */
    void (*whole)(const sched_variant_t *v);
    void (*own)(const sched_variant_t *v, bool before);
    void (*slice)(const sched_variant_t *v, int slice);
    void (*finish)(const sched_variant_t *v); /* when all has been received */
    /* What is expected, made without collectives in memory of that side; and what there is. */
    void (*reference)(const sched_side_t *side);
    void (*result)(const sched_variant_t *v);
    double tolerance; /* of a value, relative to the mean of the absolute values */
} sched_work_t;

extern const sched_work_t sched_gather, sched_exchange, sched_transformer, sched_moe;

/* Which slice of a block is where, in slices: neighbours are sent together, except in partitions, whose blocks are whole. */
size_t sched_at(const sched_variant_t *v, int rank, int slice);

/* ---- variants ---- */

/* All of a work with these sides, prepared. */
int sched_variants_make(const sched_work_t *work, const sched_side_t *sides, int nsides, sched_variant_t *variants);
void sched_variants_free(sched_variant_t *variants, int n);
void sched_turn(const sched_work_t *work, sched_variant_t *v);
/* One turn, and whether its result is right, on all ranks. */
void sched_check(const sched_work_t *work, sched_variant_t *v);

/* For sched_work_t.reference and result: `n` values at `from` are the values `at`, ... of the result. */
void sched_expect(size_t at, const char *from, size_t n);
void sched_compare(size_t at, const char *from, size_t n);
void sched_expect_room(size_t n);

/* ---- arithmetic ---- */

typedef struct sched_globals {
    int rank, ranks;
    void *compute, *comm;
    size_t bytes; /* of a value */
    bool blas;    /* cuBLAS makes the products */
} sched_globals_t;
extern sched_globals_t sched;

/* "tf32": values of 32 bits, products of tensor cores; or "bf16". */
void sched_arithmetic_open(const char *type);
double sched_value(const char *value);
char *sched_alloc(size_t values);
void sched_release(char *memory);
/* Integers from -127 to 127, always the same for a seed. Complete when it returns. */
void sched_fill(char *to, size_t n, int seed);
/* For `batches` matrices of so many rows: y = x w. All are stored by rows; strides in values. In `compute`. */
typedef struct sched_batch {
    int n;
    size_t x_stride, y_stride;
} sched_batch_t;
void sched_multiply(char *y, const char *x, const char *w, long rows, long width, long columns,
                    const sched_batch_t *batches);
void sched_add(char *y, const char *x, size_t n); /* y += x, in `compute` */
void sched_synchronize(void);                     /* `compute` */

#endif
