/*
 * The random sweep: parts shared by its files. A case is derived by every rank from (seed, case number) alone; what a
 * correct call must leave in memory is computed from the definition of the collective and from type maps of our own.
 *
 *   sweep.c          options, threads, the loop over cases, results
 *   sweep_case.c     derives one case
 *   sweep_call.c     one call: its counts, buffers and expected bytes
 *   sweep_run.c      runs a case: posts, starts, completes, checks
 *   sweep_ops.c      the table of operations: a new one is a new row
 *   sweep_type.c     datatypes together with their type maps
 *   sweep_buffer.c   buffers with canaries, their expected images
 *   sweep_memory.c   the memory they are in: of the host, or of devices
 *   sweep_proof.c    that engines served device memory
 *   sweep_comm.c     communicators
 *   sweep_noise.c    random numbers, skew between ranks, the user's own messages
 *   sweep_report.c   failures and the watchdog
 *   sweep_cover.c    what was covered, feature by feature and pair by pair
 *
 * With several threads each runs cases of its own, on communicators of its own.
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
    MPI_Comm comm;
    bool member;
    comm_kind_t kind;
    bool fresh;
    int rank, size;
    int *world; /* world rank of each member: names the sender in the data, so that crosstalk shows */
} comm_t;

/* The world of this thread. */
extern _Thread_local MPI_Comm base_comm;

/* Collective over the world; comm_free is local as far as we know, but MPI may make it wait for the others. */
void comm_make(comm_t *c, comm_kind_t kind, bool fresh, rng_t rng);
void comm_free(comm_t *c);
/* Only MPI's handle. */
void comm_release(comm_t *c);

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
    TYPE_PAGES,    /* long rows */
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

/* Makes a type whose elements divide `total` units. `slots` units in all will lie one after the other, perhaps with gaps
 * of up to `gaps` elements. `single`: an element is one unit. */
void type_make(type_t *t, type_kind_t kind, int unit, long total, long slots, int gaps, bool single, rng_t *rng);
void type_release(type_t *t); /* gives MPI's handle back; the map stays */
void type_free(type_t *t);

/* ---- memory ---- */
typedef enum {
    MEMORY_HOST,
    MEMORY_PINNED,
    MEMORY_REGISTERED, /* the CPU reaches these three */
    MEMORY_DEVICE,
    MEMORY_PART, /* of an allocation that has other buffers */
    MEMORY_END,  /* ends where the allocation ends; these three are what engines serve */
    MEMORY_FINE,
    MEMORY_MANAGED,
    MEMORY_OTHER, /* of another device than the rank's own */
    MEMORY_KINDS
} memory_kind_t;
extern const char *const memory_names[MEMORY_KINDS];

typedef enum {
    MEMORY_MODE_HOST,
    MEMORY_MODE_DEVICE, /* what engines serve, everywhere */
    MEMORY_MODE_RANKS,  /* on some ranks, host memory on others */
    MEMORY_MODE_ANY,    /* each buffer its own kind */
    MEMORY_MODES
} memory_mode_t;
extern const char *const memory_mode_names[MEMORY_MODES];

typedef struct call call_t;
bool memory_open(void);  /* before anything else here; false: there is no device */
void memory_begin(void); /* in each thread */
memory_kind_t memory_choose(const call_t *call, bool sending);
/* Whether the types of a call are dense, on all ranks: else engines have nothing to do. */
bool memory_plain_types(const call_t *call);
bool memory_reachable(memory_kind_t kind); /* by the CPU */
/* May change the kind to one that there is room for; `from` is what memory_give wants back. */
void *memory_take(memory_kind_t *kind, size_t bytes, void **from);
void memory_give(memory_kind_t kind, void *from);
void memory_copy(void *to, const void *from, size_t bytes);
void memory_print(void); /* collective */

/* ---- buffers ---- */
typedef struct {
    long elements;
    long displ;             /* in elements; any number if there are none */
    uint64_t before, after; /* name the data that lies here before and after the call: who sends what to whom */
} block_t;

typedef struct {
    unsigned char *memory;
    size_t bytes;
    void *base;         /* what MPI gets; NULL if there is no data and the dice said so */
    long origin;        /* of the base in memory */
    unsigned char *map; /* of fenced buffers, with its length */
    size_t mapped;
    unsigned char *device, *allocation; /* of device memory: where `memory` is there, and in what */
    uint64_t canary;
    const type_t *type;
    memory_kind_t kind;
    void *from; /* what memory_take gave */
    int filled; /* the block that has data before the call, or one of: */
    int nblocks;
    block_t *blocks;
} buffer_t;

enum { NO_BLOCKS = -1, ALL_BLOCKS = -2 };
/* Takes the blocks over. `align` is what the base is a multiple of, at least. */
void buffer_make(buffer_t *b, const type_t *type, int nblocks, block_t *blocks, int align, memory_kind_t kind,
                 bool device, rng_t *rng);
void buffer_free(buffer_t *b);
/* What the memory holds before the call: canaries, and data of round `round` in the blocks that are filled. */
void buffer_fill(buffer_t *b, int round);
/* Overwrites all of it: whoever still reads it is too late. */
void buffer_scribble(buffer_t *b);
/* True if it still holds that; or, if `after`, data in all blocks; else `text` says where it does not. */
bool buffer_check(const buffer_t *b, bool after, int round, char *text, size_t room);

/* ---- calls ---- */
typedef enum { FORM_BLOCKING, FORM_NONBLOCKING, FORM_PERSISTENT, FORM_KINDS } form_t;
extern const char *const form_names[FORM_KINDS];

/* How the blocks of a v-variant differ. */
typedef enum { COUNTS_EVEN, COUNTS_UNEVEN, COUNTS_ZEROS, COUNTS_SINGLE, COUNTS_KINDS } counts_kind_t;
extern const char *const counts_kind_names[COUNTS_KINDS];

typedef enum { BLOCKS_TIGHT, BLOCKS_APART, BLOCKS_NEGATIVE, BLOCKS_KINDS } blocks_kind_t;
extern const char *const blocks_kind_names[BLOCKS_KINDS];

typedef struct {
    type_t type;
    buffer_t buffer;
    int count;            /* of the only or of every block */
    int *counts, *displs; /* of the v-variants */
    blocks_kind_t blocks;
} side_t;

typedef struct op op_t;
struct call {
    /* equal on all ranks */
    const op_t *op;
    form_t form;
    comm_t *comm;
    uint64_t name; /* in the data */
    int unit;
    long total; /* units in a block, before counts make blocks differ */
    counts_kind_t counts;
    bool in_place;
    int rounds; /* how often a persistent request is started */
    /* as this rank likes */
    side_t send, recv;
    bool scribble;     /* overwrite the send buffer as soon as the call is complete, instead of checking it */
    bool odd_ignored;  /* in place: pass nonsense where the standard says that it is ignored */
    bool keep_types;   /* until the end, not only until the call has returned */
    bool check_late;   /* at the end of the case, not when the call is complete */
    int started, done; /* rounds */
    MPI_Request request;
};

struct op {
    const char *name;
    bool to_each; /* a block for every rank, else one for all of them */
    bool vector;
    int (*start)(const call_t *call, MPI_Request *request); /* as the call's form says */
};
extern const op_t ops[];
extern const int nops;

/* Units in the largest block. */
long call_largest(const call_t *call);
/* Types, buffers and the other choices of this rank. */
void call_prepare(call_t *call, rng_t *rng);
void call_describe(const call_t *call, char *text, size_t room);
void call_release_types(call_t *call);
/* Compares the buffers with what they must hold now. */
bool call_check(const call_t *call);
void call_free(call_t *call);

/* ---- noise ---- */
void skew_some(rng_t *rng);
void skew_late(rng_t *rng);

typedef enum {
    TRAFFIC_NONE,
    TRAFFIC_AROUND,   /* both posted before, completed after */
    TRAFFIC_LATE,     /* sent before, received only after */
    TRAFFIC_WILDCARD, /* wildcard receive posted before, sent after */
    TRAFFIC_NEEDED,   /* odd ranks cannot enter before an Isend of their even neighbour has arrived */
    TRAFFIC_BETWEEN,  /* sent before, received when all is under way */
    TRAFFIC_CROSSED,  /* the even ranks have posted all before the odd ones, in an Ssend, let them begin */
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
void traffic_between(traffic_t *t); /* all calls are under way */
/* True if the messages were right. */
bool traffic_after(traffic_t *t);

/* ---- cases ---- */
enum { MOST_CALLS = 16, MOST_THREADS = 8 };
typedef struct {
    uint64_t seed;
    long first, last;
    long max_bytes;
    int watchdog; /* seconds */
    bool verbose;
    int threads;          /* more than one: MPI_THREAD_MULTIPLE */
    int device;           /* percent of the buffers in device memory */
    memory_mode_t memory; /* where buffers are */
    bool proof;           /* that engines served device memory */
    const char *only;     /* operation */
    bool forms[FORM_KINDS];
    bool stock[FORM_KINDS]; /* served by stock Open MPI 4.1: without what it gets wrong */
} options_t;
extern options_t options;
extern int world_rank, world_size;
extern _Thread_local int thread_index;

typedef enum { SHAPE_SINGLE, SHAPE_SEVERAL, SHAPE_FLIGHT, SHAPE_BURST, SHAPE_KINDS } shape_t;
typedef enum { SKEW_NONE, SKEW_SOME, SKEW_LATE, SKEW_KINDS } skew_kind_t;
extern const char *const shape_names[SHAPE_KINDS], *const skew_names[SKEW_KINDS];

typedef struct {
    long number;
    shape_t shape;
    skew_kind_t skew;
    bool waits_between; /* requests may be waited for between the calls, which are then in the same order everywhere */
    int ncalls;
    call_t calls[MOST_CALLS];
    comm_t fresh; /* if it has a size anywhere */
    bool has_fresh, free_early;
    traffic_kind_t traffic;
    comm_t *traffic_comm;
} case_t;

void case_setup(void);    /* the pool of communicators; collective over the world of this thread */
void case_teardown(void); /* collective */
bool case_run(long number);
/* Runs what has been derived and prepared and frees its calls; whether it was right. */
bool case_execute(case_t *c, traffic_t *traffic);

/* ---- proof ---- */
void proof_begin(void);
void proof_call(long number, int index, const call_t *call); /* prepared */
void proof_case(const case_t *c);                            /* done */
/* Collective; marks cases that engines should have served and did not. */
void proof_end(char *wrong);

/* ---- reports ---- */
/* What failures and the watchdog say: the case, its calls, where in it the rank is (-1: in no call). */
void report_signals(void); /* the watchdog and crashes */
void report_case(long number, const char *text);
void report_call(int call, const char *text);
void report_stage(const char *stage, int call);
void report_failure(const char *what);
void report_mpi(const char *where, int code); /* does nothing if the code is MPI_SUCCESS */

/* ---- coverage ---- */
typedef enum {
    COVER_OPERATION,
    COVER_FORM,
    COVER_PLACE,
    COVER_SEND_TYPE,
    COVER_RECV_TYPE,
    COVER_COUNTS,
    COVER_BLOCKS,
    COVER_BYTES,
    COVER_COMM,
    COVER_SIZE,
    COVER_SHAPE,
    COVER_PAIRED, /* of the groups before this one, also every pair is counted */
    COVER_COMM_USE = COVER_PAIRED,
    COVER_UNIT,
    COVER_TYPES,
    COVER_TYPE_LIFE,
    COVER_FENCE,
    COVER_SEND_AFTER,
    COVER_STARTS,
    COVER_SKEW,
    COVER_TRAFFIC,
    COVER_ORDER,
    COVER_COMPLETION,
    COVER_FLIGHT,
    COVER_THREADS,
    COVER_GROUPS
} cover_group_t;
void cover(cover_group_t group, int value); /* counted once per case */
void cover_call(const call_t *call, shape_t shape);
void cover_next_case(void);
void cover_print(void); /* collective */

#endif
