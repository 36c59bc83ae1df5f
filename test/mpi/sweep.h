/*
 * The random sweep: parts shared by its files. A case is derived by every rank from (seed, case number) alone; what a
 * correct call must leave in memory is computed from the definition of the collective and from type maps of our own.
 *
 *   sweep.c          options, the loop over cases, results
 *   sweep_case.c     derives one case, runs it, checks it
 *   sweep_ops.c      the table of operations and forms: a new one is a new row
 *   sweep_type.c     datatypes together with their type maps
 *   sweep_buffer.c   buffers with canaries, their expected images
 *   sweep_comm.c     communicators
 *   sweep_noise.c    random numbers, skew between ranks, the user's own messages
 *   sweep_report.c   failures, the watchdog, what was covered
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: a stream is named by up to three numbers below the seed ---- */
typedef struct {
    uint64_t state;
} rng_t;

uint64_t mix(uint64_t a, uint64_t b);
rng_t rng_make(uint64_t a, uint64_t b, uint64_t c); /* uses the seed of the run */
uint64_t rng_next(rng_t *rng);
long rng_below(rng_t *rng, long n); /* 0 ... n-1 */
bool rng_chance(rng_t *rng, int percent);
long rng_log(rng_t *rng, long low, long high); /* log-uniform in low ... high, from 1 up */

/* ---- communicators ---- */
typedef enum { COMM_WORLD, COMM_DUP, COMM_SPLIT, COMM_REVERSED, COMM_SUBSET, COMM_MERGED, COMM_KINDS } comm_kind_t;
extern const char *const comm_kind_names[COMM_KINDS];

typedef struct {
    MPI_Comm comm; /* MPI_COMM_NULL where this rank is not a member */
    comm_kind_t kind;
    bool fresh;
    int rank, size;
    int *world; /* world rank of each member: names the sender in the data, so that crosstalk shows */
} comm_t;

/* Collective over the world. */
void comm_make(comm_t *c, comm_kind_t kind, bool fresh, rng_t rng);
void comm_free(comm_t *c);

/* ---- datatypes ---- */
typedef enum {
    TYPE_BASIC,
    TYPE_CONTIGUOUS,
    TYPE_VECTOR,   /* gaps */
    TYPE_STRUCT,   /* holes, byte displacements */
    TYPE_INDEXED,  /* uneven blocks, in any order */
    TYPE_WIDE,     /* resized to a larger extent */
    TYPE_COLUMN,   /* resized to a smaller extent: elements and blocks interleave */
    TYPE_NEGATIVE, /* negative displacements and lower bound */
    TYPE_KINDS
} type_kind_t;
extern const char *const type_kind_names[TYPE_KINDS];

/* The signature of a message is a number of units; a unit is one basic type or a few in a row. */
enum { UNIT_PARTS = 3 };
typedef struct {
    const char *name;
    int parts;
    int size[UNIT_PARTS];
    int bytes; /* data in a unit */
} unit_t;
extern const unit_t units[];
enum { UNIT_KINDS = 5 };

typedef struct {
    long at; /* from the element's origin; may be negative */
    long bytes;
} piece_t;

typedef struct {
    type_kind_t kind;
    MPI_Datatype type;
    bool owned;
    long units; /* in one element */
    long lb, extent;
    long low, high; /* first data byte and the one after the last of one element */
    int npieces;
    piece_t *pieces; /* in the order of the signature */
} type_t;

/* Makes a type whose elements divide `total` units; `blocks` blocks of that size will lie one after the other. */
void type_make(type_t *t, type_kind_t kind, int unit, long total, int blocks, rng_t *rng);
void type_release(type_t *t); /* gives MPI's handle back; the map stays */
void type_free(type_t *t);

/* ---- buffers ---- */
typedef struct {
    long elements;
    long displ;   /* in elements */
    uint64_t key; /* names the data: who sends what to whom in which call */
} block_t;

typedef struct {
    unsigned char *memory;
    size_t bytes;
    void *base;         /* what MPI gets; NULL if there is no data and the dice said so */
    long origin;        /* of the base in memory */
    unsigned char *map; /* of fenced buffers, with its length */
    size_t mapped;
    uint64_t canary;
    const type_t *type;
    int nblocks;
    block_t *blocks;
} buffer_t;

enum { NO_BLOCKS = -1, ALL_BLOCKS = -2 };
/* Takes the blocks over. `align` is what the base is a multiple of, at least. */
void buffer_make(buffer_t *b, const type_t *type, int nblocks, block_t *blocks, int align, rng_t *rng);
void buffer_free(buffer_t *b);
/* Canaries everywhere, then the data of one block, of all or of none. */
void buffer_fill(buffer_t *b, int which);
/* True if the memory is what buffer_fill(which) writes; else `text` says where it is not. */
bool buffer_check(const buffer_t *b, int which, char *text, size_t room);

/* ---- operations ---- */
typedef struct op op_t;
typedef struct {
    const op_t *op;
    comm_t *comm;
    int unit;
    long total; /* units in a block */
    bool in_place;
    type_t send_type, recv_type;
    buffer_t send, recv;
    bool scribble;    /* overwrite the send buffer as soon as the call is complete, instead of checking it */
    bool odd_ignored; /* in place: pass nonsense where the standard says that it is ignored */
} call_t;

struct op {
    const char *name, *form;
    bool send_all; /* the send buffer holds a block per rank, else the same for all */
    int (*start)(const call_t *call, MPI_Request *request); /* MPI_REQUEST_NULL: already done */
};
extern const op_t ops[];
extern const int nops;

/* ---- noise ---- */
void skew_some(rng_t *rng);
void skew_late(rng_t *rng);

typedef enum {
    TRAFFIC_NONE,
    TRAFFIC_AROUND,   /* both posted before, completed after */
    TRAFFIC_LATE,     /* sent before, received only after */
    TRAFFIC_WILDCARD, /* wildcard receive posted before, sent after */
    TRAFFIC_NEEDED,   /* odd ranks cannot enter before an Isend of their even neighbour has arrived */
    TRAFFIC_KINDS
} traffic_kind_t;
extern const char *const traffic_kind_names[TRAFFIC_KINDS];

typedef struct {
    traffic_kind_t kind;
    const comm_t *comm;
    long bytes;
    int to, from; /* or -1 */
    int tag;
    bool any_source;
    uint64_t key;
    unsigned char *out, *in;
    MPI_Request requests[2];
} traffic_t;

void traffic_before(traffic_t *t, traffic_kind_t kind, const comm_t *comm, long number, rng_t rng);
/* True if the messages were right. */
bool traffic_after(traffic_t *t);

/* ---- cases ---- */
enum { MOST_CALLS = 16 };
typedef struct {
    uint64_t seed;
    long first, last;
    long max_bytes;
    int watchdog; /* seconds */
    bool verbose;
    bool threads;     /* MPI_THREAD_MULTIPLE */
    const char *only; /* operation */
} options_t;
extern options_t options;
extern int world_rank, world_size;

void case_setup(void);    /* the pool of communicators; collective */
void case_teardown(void); /* collective */
bool case_run(long number);

/* ---- reports ---- */
/* What failures and the watchdog say: the case, its calls, where in it the rank is (-1: in no call). */
void report_signals(void); /* the watchdog and crashes */
void report_case(long number, const char *text);
void report_call(int call, const char *text);
void report_stage(const char *stage, int call);
void report_failure(const char *what);
void report_mpi_error(const char *where, int code);
void cover(const char *group, const char *name); /* counted once per case */
void cover_next_case(void);
void cover_print(void); /* collective */

#endif
