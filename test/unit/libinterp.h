/*
 * The reference interpreter of plans.
 *
 * It runs the plans of all ranks of one communicator, several calls in a row, on model memory inside one thread, under
 * a seeded scheduler that does whatever include/dma/plan.h and engine.h allow:
 *
 *   - any queue of any rank goes next (at random, by priorities that change now and then, or with one rank starved);
 *   - copies are cut into pieces and run in any order until the next SIGNAL of their queue. A WAIT holds back what comes
 *     after it, it does not complete what came before it (INTERP_STRONG: it does);
 *   - a WAIT may see its flag late;
 *   - a rank enters call s as soon as every rank has completed call s - ring_depth, whatever the others do; up to
 *     `outstanding` calls of a rank run at once, of those that stream only one;
 *   - a rank that has completed a call changes its buffers at once.
 *
 * Streams. Every chunk buffer knows the stream position that was put into it last; reading another one is an error. In
 * the end both sides of a stream must have counted the same chunks, by the chunked operations that the core counts by.
 *
 * What it finds does not hang on luck alone: beside the bytes it keeps vector clocks over SIGNAL -> WAIT, so two
 * accesses to the same bytes that no flag orders are reported in whatever order they happened to run.
 * Network steps complete at any time after they were posted, in order per pair of ranks; nothing orders the copies
 * before them on the queue but a SIGNAL.
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
    INTERP_BOUNDS,      /* an operand leaves its block, slot, line, chunk or scratch */
    INTERP_NOT_ENTERED, /* a peer's memory is touched before WAIT(ENTRY) on the peer */
    INTERP_OWNER,       /* a rank signals a flag of another */
    INTERP_BACKWARDS,   /* a flag is set below its value, or ENTRY to anything but 1 */
    INTERP_RACE,        /* two accesses to the same bytes, one a write, in no order */
    INTERP_CHUNK,    /* the same in a CHUNK or PAIR buffer: overwritten before it was consumed, read before produced */
    INTERP_USER,     /* the same between a peer and the owner of a buffer who has completed the call */
    INTERP_DEADLOCK, /* nothing can run and something has not ended */
    INTERP_DATA,     /* wrong bytes in a receive buffer, or a changed send buffer */
    INTERP_CANARY,   /* bytes outside all buffers have changed */
    INTERP_SIZE,     /* a CHECK or WAIT(ENTRY) has found that a peer sends another number of bytes: the user's fault */
} interp_error_t;

/* One word for an error. */
const char *interp_error_name(interp_error_t error);

/* One collective call: a plan per rank and what they are called with. */
typedef struct interp_call {
    const dma_plan_t *const *plans;
    uint64_t chunk;        /* bytes per trip */
    const uint64_t *bytes; /* bytes[s * nranks + d]: what rank s has for rank d; all-gathers: the same for every d */
    const uint64_t *takes; /* takes[d * nranks + s]: what rank d has room for from rank s; NULL: what s has for it */
} interp_call_t;

#define INTERP_STRONG    0x1 /* a WAIT completes the copies before it */
#define INTERP_NO_CLOCKS 0x2 /* find errors by what they do to the bytes alone */

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
    char text[2000]; /* what, where and the seed; empty when all went well */
    uint64_t steps, copies, signals, waits, moved;
} interp_report_t;

/* True when every call of every rank did what it should. */
bool interp_run(const interp_job_t *job, interp_report_t *report);

/* What a call with these plans needs no scheduler to find: shape of programs, ranges of ranks, `streams`. */
bool interp_check_plan(const dma_plan_t *plan, const dma_geom_t *geom, char *text, size_t size);

const char *interp_base_name(unsigned base);
void interp_print_op(const dma_op_t *op, char *text, size_t size);
void interp_print_plan(FILE *out, const dma_plan_t *plan);

#endif
