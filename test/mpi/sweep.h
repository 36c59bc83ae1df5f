/*
 * The random sweep: what its files share. Each rank derives a case from (seed, case number) alone. What a correct call must
 * leave in memory is computed from the definition of the collective, and from type maps of our own.
 *
 *   sweep.c          options, threads, the loop over cases, results
 *   sweep_case.c     derives one case
 *   sweep_call.c     one call: its counts, buffers and expected bytes
 *   sweep_run.c      runs a case: posts, starts, completes, checks
 *   sweep_ops.c      the table of operations: a new operation is a new row
 *   sweep_type.c     datatypes together with their type maps
 *   sweep_buffer.c   buffers with canaries, and their expected contents
 *   sweep_memory.c   the memory of buffers: of the host, or of devices
 *   sweep_proof.c    that engines served device memory
 *   sweep_comm.c     communicators
 *   sweep_noise.c    random numbers, skew between ranks, the user's own messages
 *   sweep_report.c   failures and the watchdog
 *   sweep_cover.c    what was covered, feature by feature and pair by pair
 *
 * With several threads, each thread runs cases of its own, on communicators of its own.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: a stream is named by up to three numbers and the seed ---- */
typedef struct {
    uint64_t state;
} rng_t;

uint64_t mix(uint64_t a, uint64_t b);
rng_t rng_make(uint64_t a, uint64_t b, uint64_t c); /* uses the seed of the run */
uint64_t rng_next(rng_t *rng);
long rng_below(rng_t *rng, long n); /* 0 ... n-1 */
bool rng_chance(rng_t *rng, int percent);
long rng_log(rng_t *rng, long low, long high); /* log-uniform in low ... high; low is at least 1 */

/* ---- communicators ---- */
typedef enum { COMM_WORLD, COMM_DUP, COMM_SPLIT, COMM_REVERSED, COMM_SUBSET, COMM_MERGED, COMM_KINDS } comm_kind_t;
extern const char *const comm_kind_names[COMM_KINDS];

typedef struct {
    MPI_Comm comm;
    bool member;
    comm_kind_t kind;
    bool fresh;
    int rank, size;
    /* world rank of each member: it names the sender in the data, so that data of another communicator is noticed */
    int *world;
} comm_t;

/* The world of this thread. */
extern _Thread_local MPI_Comm base_comm;

/* Collective over the world. comm_free needs no other rank as far as we know, but MPI may make it wait for the others. */
void comm_make(comm_t *c, comm_kind_t kind, bool fresh, rng_t rng);
void comm_free(comm_t *c);
/* Frees only MPI's handle. */
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

/* The signature of a message is a number of units. A unit is one basic type, or a few in a row. */
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
    long low, high; /* first data byte of one element, and the byte after the last */
    int npieces;
    piece_t *pieces; /* in the order of the signature */
} type_t;

/* Makes a type whose elements divide `total` units. `slots` units in all will lie one after the other, perhaps with gaps
 * of up to `gaps` elements. `single`: an element is one unit. */
void type_make(type_t *t, type_kind_t kind, int unit, long total, long slots, int gaps, bool single, rng_t *rng);
void type_release(type_t *t); /* frees MPI's handle; the map stays */
void type_free(type_t *t);

/* ---- memory ---- */
typedef enum {
    MEMORY_HOST,
    MEMORY_PINNED,
    MEMORY_REGISTERED, /* the CPU can access these three */
    MEMORY_DEVICE,
    MEMORY_PART, /* a part of an allocation that has other buffers */
    MEMORY_END,  /* the buffer ends where the allocation ends; engines serve these three */
    MEMORY_FINE,
    MEMORY_MANAGED,
    MEMORY_OTHER, /* of another device than the rank's own */
    MEMORY_KINDS
} memory_kind_t;
extern const char *const memory_names[MEMORY_KINDS];

typedef enum {
    MEMORY_MODE_HOST,
    MEMORY_MODE_DEVICE, /* kinds that engines serve, on all ranks */
    MEMORY_MODE_RANKS,  /* the same on some ranks, host memory on others */
    MEMORY_MODE_ANY,    /* each buffer its own kind */
    MEMORY_MODES
} memory_mode_t;
extern const char *const memory_mode_names[MEMORY_MODES];

typedef struct call call_t;
bool memory_open(void);  /* call this first; false: there is no device */
void memory_begin(void); /* in each thread */
memory_kind_t memory_choose(const call_t *call, bool sending);
/* Whether the types of a call are dense on all ranks. Otherwise engines have nothing to do. */
bool memory_plain_types(const call_t *call);
bool memory_reachable(memory_kind_t kind); /* by the CPU */
/* May change the kind to one that has room. memory_give gets `from`. */
void *memory_take(memory_kind_t *kind, size_t bytes, void **from);
void memory_give(memory_kind_t kind, void *from);
void memory_copy(void *to, const void *from, size_t bytes);
void memory_print(void); /* collective */

/* ---- buffers ---- */
typedef struct {
    long elements;
    const type_t *type;
    long at;                /* of the first element, in bytes from the base; any number if there are no elements */
    uint64_t before, after; /* they name the data that is here before and after the call: who sends what to whom */
} block_t;

typedef struct {
    unsigned char *memory;
    size_t bytes;
    void *base;         /* what MPI gets; NULL if there is no data and chance says so */
    long origin;        /* of the base in memory */
    unsigned char *map; /* of fenced buffers, with its length */
    size_t mapped;
    /* of device memory: where `memory` is on the device, and in which allocation */
    unsigned char *device, *allocation;
    uint64_t canary;
    memory_kind_t kind;
    void *from; /* from memory_take */
    int filled; /* the block that has data before the call, or one of these: */
    int nblocks;
    block_t *blocks;
} buffer_t;

enum { NO_BLOCKS = -1, ALL_BLOCKS = -2 };
/* Takes over the blocks. The base is a multiple of at least `align`. */
void buffer_make(buffer_t *b, int nblocks, block_t *blocks, int align, memory_kind_t kind, bool device, rng_t *rng);
void buffer_free(buffer_t *b);
/* Fills the memory as it must be before the call: canaries, and data of round `round` in the blocks that are filled. */
void buffer_fill(buffer_t *b, int round);
/* Overwrites all of it: a rank that still reads it is too late. */
void buffer_scribble(buffer_t *b);
/* True if it still has these contents; or, if `after`, data in all blocks. Otherwise `text` says where it differs. */
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
    type_t *more;         /* of all blocks but the first, if each has a type of its own; else NULL */
    MPI_Datatype *types;  /* of all blocks, for MPI_Alltoallw */
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
    /* each rank chooses these */
    side_t send, recv;
    bool scribble;     /* overwrite the send buffer as soon as the call is complete, instead of checking it */
    bool odd_ignored;  /* in place: pass nonsense where the standard says that an argument is ignored */
    bool keep_types;   /* until the end, not only until the call has returned */
    bool check_late;   /* at the end of the case, not when the call is complete */
    int started, done; /* rounds */
    MPI_Request request;
};

struct op {
    const char *name;
    bool to_each; /* a block for each rank; otherwise one block for all ranks */
    bool vector;
    bool typed;                                             /* a datatype for each block, and displacements in bytes */
    int (*start)(const call_t *call, MPI_Request *request); /* in the form of the call */
};
extern const op_t ops[];
extern const int nops;

/* Units in the largest block. */
long call_largest(const call_t *call);
/* Types, buffers and the other choices of this rank. */
void call_prepare(call_t *call, rng_t *rng);
void call_describe(const call_t *call, char *text, size_t room);
void call_release_types(call_t *call);
/* Compares the buffers with what they must contain now. */
bool call_check(const call_t *call);
void call_free(call_t *call);

/* ---- noise ---- */
void skew_some(rng_t *rng);
void skew_late(rng_t *rng);

typedef enum {
    TRAFFIC_NONE,
    TRAFFIC_AROUND,   /* both are posted before, and completed after */
    TRAFFIC_LATE,     /* sent before, received only after */
    TRAFFIC_WILDCARD, /* a receive with wildcards is posted before, the send comes after */
    TRAFFIC_NEEDED,   /* odd ranks cannot enter before an Isend of their even neighbor has arrived */
    TRAFFIC_BETWEEN,  /* sent before, received when everything is under way */
    TRAFFIC_CROSSED,  /* the even ranks have posted everything before they let the odd ones begin, with an Ssend */
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
    /* requests may be waited for between the calls; then the calls are in the same order on all ranks */
    bool waits_between;
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
/* Runs what was derived and prepared, and frees its calls. Returns whether it was right. */
bool case_execute(case_t *c, traffic_t *traffic);

/* ---- proof ---- */
void proof_begin(void);
void proof_call(long number, int index, const call_t *call); /* prepared */
void proof_case(const case_t *c);                            /* done */
/* Collective. Marks cases that engines should have served and did not serve. */
void proof_end(char *wrong);

/* ---- reports ---- */
/* What failures and the watchdog print: the case, its calls, and where in it the rank is (-1: in no call). */
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
    COVER_PAIRED, /* pairs are counted, too, of the groups before this one */
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
