/*
 * The reference interpreter of plans.
 *
 * It runs the plans of all ranks of one communicator, several calls in a row. Memory is a model inside one thread. A
 * seeded scheduler does whatever include/dma/plan.h and engine.h allow:
 *
 *   - any queue of any rank goes next (at random, by priorities that change now and then, or with one rank starved);
 *   - copies are cut into pieces, which are done in any order until the next SIGNAL of their queue. A WAIT holds back what
 *     follows it. It does not complete what precedes it (with INTERP_STRONG it does);
 *   - a WAIT may see its flag late;
 *   - a rank enters call s as soon as every rank has completed call s - ring_depth, whatever the others do. Up to
 *     `outstanding` calls of a rank run at once, and one of those that stream;
 *   - a rank that has completed a call changes its buffers at once.
 *
 * Streams. Each chunk buffer remembers the stream position that was written into it last. To read another position is
 * an error. At the end, both sides of a stream must have counted the same chunks, by the chunked operations that the
 * core counts.
 *
 * Finding a race does not depend on luck. Beside the bytes, the interpreter keeps vector clocks over SIGNAL -> WAIT, so
 * two accesses to the same bytes that no flag orders are reported, in whatever order they happened to run. Network
 * steps complete at any time after they were posted, in order for each pair of ranks. Only a SIGNAL orders them after
 * the copies that precede them on the queue.
 */
#ifndef DMA_TEST_LIBINTERP_H
#define DMA_TEST_LIBINTERP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dma/plan.h"

typedef enum interp_error {
    INTERP_OK,
    INTERP_PLAN,        /* malformed: an unknown code, a chunked operation outside the loop, `streams` not set, ... */
    INTERP_BOUNDS,      /* an operand is not inside its block, slot, line, chunk or scratch */
    INTERP_NOT_ENTERED, /* a peer's memory is accessed before WAIT(ENTRY) on the peer */
    INTERP_OWNER,       /* a rank signals a flag of another */
    INTERP_BACKWARDS,   /* a flag is set below its value, or ENTRY to another value than 1 */
    INTERP_RACE,        /* two accesses to the same bytes, at least one a write, without an order */
    INTERP_CHUNK,       /* the same in a CHUNK or PAIR buffer: overwritten before consumed, or read before produced */
    INTERP_USER,        /* the same between a peer and the owner of a buffer, who has completed the call */
    INTERP_DEADLOCK,    /* nothing can run, and something has not ended */
    INTERP_DATA,        /* wrong bytes in a receive buffer, or a changed send buffer */
    INTERP_CANARY,      /* bytes outside all buffers have changed */
    INTERP_SIZE, /* a CHECK or WAIT(ENTRY) has found that a peer sends another number of bytes: a mistake of the user */
} interp_error_t;

/* A short name of an error. */
const char *interp_error_name(interp_error_t error);

/* One collective call: a plan for each rank, and the arguments. */
typedef struct interp_call {
    const dma_plan_t *const *plans;
    uint64_t chunk;        /* of a trip */
    const uint64_t *bytes; /* bytes[s * nranks + d]: what rank s sends to rank d; in all-gathers equal for every d */
    const uint64_t
        *takes; /* takes[d * nranks + s]: the room of rank d for the block of rank s; NULL: the size that s sends */
} interp_call_t;

#define INTERP_STRONG    0x1 /* a WAIT completes the copies before it */
#define INTERP_NO_CLOCKS 0x2 /* find errors by the bytes alone, not by clocks */

typedef struct interp_job {
    int nranks;
    dma_geom_t geom;
    const interp_call_t *calls;
    int ncalls;
    int outstanding; /* calls of one rank that may run at once; 1: blocking calls */
    unsigned flags;
    uint64_t seed;
} interp_job_t;

typedef struct interp_report {
    interp_error_t error;
    char text[2000]; /* what, where and the seed; empty if there is no error */
    uint64_t steps, copies, signals, waits, moved;
} interp_report_t;

/* True if every call of every rank did what it should. */
bool interp_run(const interp_job_t *job, interp_report_t *report);

/* Checks what needs no scheduler in a call with these plans: the form of programs, ranges of ranks, `streams`. */
bool interp_check_plan(const dma_plan_t *plan, const dma_geom_t *geom, char *text, size_t size);

const char *interp_base_name(unsigned base);
void interp_print_op(const dma_op_t *op, char *text, size_t size);
void interp_print_plan(FILE *out, const dma_plan_t *plan);

#endif
