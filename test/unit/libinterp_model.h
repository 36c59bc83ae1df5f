/* Inside the interpreter: memory, flags and clocks (libinterp_model.c), shared with the scheduler (libinterp.c). */
#ifndef DMA_TEST_LIBINTERP_MODEL_H
#define DMA_TEST_LIBINTERP_MODEL_H

#include "libinterp.h"

#define GUARD  16 /* canary bytes around every region */
#define CANARY 0xc5

/* One access to bytes lo ... hi - 1 of a region. It is ordered before everyone whose clock[comp] > tick. */
typedef struct access {
    uint64_t lo, hi;
    uint32_t comp, tick;
    bool write;
    int call, rank, prog;
    uint32_t pc;
    uint64_t trip;
} access_t;

typedef struct region {
    uint8_t *data; /* GUARD bytes before and behind belong to it */
    uint64_t bytes;
    dma_base_t base;
    int call, rank, block; /* call: of user memory and scratch memory, otherwise -1 */
    int64_t holds;         /* the stream position that was written into a CHUNK or PAIR buffer, or -1 */
    access_t *acc;
    uint32_t nacc, cap;
} region_t;

/* One published value of a flag, and what its writer had seen by then. */
typedef struct beat {
    int64_t value;
    uint32_t *clock;
} beat_t;

typedef struct flag {
    beat_t *beats;
    uint32_t n, cap;
} flag_t;

/* The part of one rank in one call. */
typedef struct part {
    const dma_plan_t *plan;
    region_t *send, *recv; /* blocks; in place, send is NULL */
    region_t *words;       /* words: the size of every send block, and its address */
    uint32_t *clock;       /* of the completion */
    int64_t base;          /* chunks that the rank put into its stream for each reader in earlier calls, */
    int64_t *pairs;        /* and into its stream for all ranks */
    bool entered, complete;
    uint32_t live; /* programs that have not ended */
} part_t;

typedef struct world {
    const interp_job_t *job;
    interp_report_t *report;
    int n;
    uint64_t rng;
    uint32_t ncomp, qmax; /* clock components; programs of the largest plan */
    uint32_t *ticks;      /* of every component */
    part_t *parts;        /* [call][rank] */
    flag_t *flags;        /* [call][kind][rank][peer]; call 0 for streams, which belong to the communicator */
    region_t *line, *slot, *chunk;
    region_t *pair; /* [owner][reader][buffer] */
} world_t;

/* Who makes an access. */
typedef struct actor {
    int call, rank, prog; /* prog < 0: the user of the rank */
    uint32_t comp;
    uint32_t *clock;
    uint32_t pc;
    uint64_t trip;
} actor_t;

uint64_t mix64(uint64_t x);
uint32_t world_random(world_t *w, uint32_t below);
bool world_fail(world_t *w, interp_error_t error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

bool world_open(world_t *w, const interp_job_t *job, interp_report_t *report);
void world_close(world_t *w);

part_t *world_part(const world_t *w, int call, int rank);
/* The bytes that a length stands for on a rank, in a call. */
uint64_t world_length(const world_t *w, int call, int rank, const dma_len_t *len);
uint64_t world_trips(const world_t *w, int call, int rank, const dma_prog_t *prog, bool staged);
/* Bytes per trip of the direct path, or of the fallback path. */
uint64_t world_chunk(const world_t *w, int call, bool staged);
/* Whether reading a peer's block is refused in a call. The world decides. */
bool world_refuses(const world_t *w, int call, int reader, int owner);
/* The loop has few bytes, so it takes the fallback path only. */
bool world_only_staged(const world_t *w, int call, int rank, const dma_prog_t *prog);
/* The same, or its direct path is refused. */
bool world_goes_staged(const world_t *w, int call, int rank, const dma_prog_t *prog);
/* Where, in a block, the bytes that a length stands for begin. */
uint64_t world_skip(const world_t *w, int call, int rank, const dma_len_t *len);
/* The value of a flag that counts as 0 in a call: flags of streams count positions. */
int64_t world_flag_base(const world_t *w, int call, const dma_flag_ref_t *flag, int rank);
bool world_is_stream(unsigned base);
/* The position of trip 0 of a call in the stream of a CHUNK or PAIR operand. */
int64_t world_stream_base(const world_t *w, int call, const dma_operand_t *o);
flag_t *world_flag(const world_t *w, int call, dma_flag_t kind, int rank, int peer);
uint32_t *world_clock(const world_t *w);
void world_join(const world_t *w, uint32_t *clock, const uint32_t *other);
/* Clock components: of a queue, and of the user of a rank. */
uint32_t world_comp(const world_t *w, int call, int rank, int prog);
uint32_t world_comp_user(const world_t *w, int rank);

bool plan_gathers(const dma_plan_t *plan);
/* The number of blocks of a rank's buffers in a call, and the bytes of one. */
int world_send_blocks(const world_t *w, int call, int rank);
uint64_t world_send_bytes(const world_t *w, int call, int rank, int block);
uint64_t world_recv_bytes(const world_t *w, int call, int rank, int block);
/* The region that an operand lies in; NULL if there is none. */
region_t *world_region(const world_t *w, int call, int base, int rank, int64_t block);
/* The send block of a rank that is at an address. */
region_t *world_block_at(const world_t *w, int call, int rank, uint64_t address);
void region_name(const region_t *r, char *text, size_t size);

/* Checks an access against all earlier ones, and records it. */
bool region_access(world_t *w, region_t *r, uint64_t lo, uint64_t n, bool write, const actor_t *who);

/* A byte of what rank src sends to rank dst. In all-gathers, dst is 0. */
uint8_t user_byte(const world_t *w, int call, int src, int dst, uint64_t at);
/* What the user does when a rank has completed a call: checks everything, then changes it. */
bool world_user_done(world_t *w, int call, int rank);
/* At the end: nobody has accessed a buffer after its owner was done, and all canaries are intact. */
bool world_final_check(world_t *w);

#endif
