/*
 * Shared by the cases of starts that streams make (stream_cases.c, stream_freed.c): lanes, which are all-gathers with a communicator, a queue
 * and a stream of their own, and counters of coll/dma.
 */
#ifndef TEST_MPIX_STREAM_LANE_H
#define TEST_MPIX_STREAM_LANE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"

#define GOOD(call) MUST((call) == MPI_SUCCESS)

enum { WORDS = 500, MOST_RANKS = 8, STEPS = 250, PATIENCE = 100 /* seconds */ };

typedef struct lane {
    MPI_Comm comm;
    int rank, ranks; /* of it */
    MPIX_Queue queue;
    void *stream;
    int *send, *recv;   /* device memory */
    int *source, *kept; /* for each step */
    int steps;
    MPI_Request request;
} lane_t;

#define COUNTERS(X)                                                                                                    \
    X(calls_in_stream)                                                                                                 \
    X(calls_staged)                                                                                                    \
    X(reason_in_stream_unprepared)                                                                                     \
    X(reason_in_stream_device)                                                                                         \
    X(reason_in_stream_refused)
#define COUNTER_INDEX(name) name,
enum { COUNTERS(COUNTER_INDEX) ALL_COUNTERS };

extern int rank, ranks;

typedef struct lane_case {
    const char *name;
    void (*run)(void);
} lane_case_t;

/* Runs the named cases of a list that ends with NULL, and says of `program` which are right. */
void lane_run_cases(const char *program, const lane_case_t *cases, char *const *names, int n);

void lane_open_counters(void);
void lane_close_counters(void);
long lane_count(int which);

/* What rank `from` sends in a step. */
int lane_word(int step, int from, int i);
void lane_make(lane_t *lane);
void lane_make_on(lane_t *lane, MPI_Comm parent);
void lane_make_queue(lane_t *lane);
void lane_free_queue(lane_t *lane);
void lane_free_memory(const lane_t *lane);
void lane_free(lane_t *lane);
/* Copies in the stream: what is sent in the next step, and what it has received. */
void lane_copy_in(const lane_t *lane);
void lane_copy_out(lane_t *lane);
/* A start in the queue, without a waitall. */
void lane_start(lane_t *lane);
/* A step in the queue, or by the host. */
void lane_step(lane_t *lane);
void lane_step_by_host(lane_t *lane);
/* Compares all steps. */
void lane_check(const lane_t *lane);
bool lane_is_busy(const lane_t *lane);
/* Without a call of MPI. */
void lane_wait_for_stream(const lane_t *lane);
double lane_now(void);

/* A case: every step has ended before the next one. */
void lane_waited(void);
/* Cases in stream_freed.c. */
void lane_freed(void);
void lane_apart(void);
void lane_gone(void);

#endif
