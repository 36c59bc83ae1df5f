/*
 * Writes what a call does, and when, into a file for coll_dma_trace (file.h), if the parameter coll_dma_trace is set.
 *
 * A process has one trace, a communicator one place in it, which it has in its window too, where engines find it. Without a
 * trace the pointer is NULL: where a small call passes, this is one comparison. All functions may be called by several
 * threads. An event costs about 100 ns, half of it for the clock, and a system call for every mebibyte of events.
 */
#ifndef DMA_TRACE_H
#define DMA_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "dma/status.h"
#include "trace/file.h"

typedef struct dma_trace dma_trace_t;

/* A communicator that is traced. */
typedef struct dma_trace_comm {
    dma_trace_t *trace;
    uint16_t number;
} dma_trace_comm_t;

typedef struct dma_trace_config {
    const char *dir; /* is made if it is not there */
    const char *job;
    int rank;
    size_t bytes; /* most that is written */
} dma_trace_config_t;

/* On failure *what says which step has failed, and errno why. */
dma_status_t dma_trace_open(const dma_trace_config_t *config, dma_trace_t **trace, const char **what);
void dma_trace_close(dma_trace_t *trace);

/* Gives a communicator a number. False: all are given. It is counted, and none of its calls is to be traced. */
bool dma_trace_add(dma_trace_t *trace, dma_trace_comm_t *comm, int rank, int nranks, bool inner, uint64_t identity,
                   const char *name);

void dma_trace_put(const dma_trace_comm_t *comm, const dma_trace_event_t *event);

static inline uint64_t dma_trace_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- events, where a communicator may be traced: NULL is no trace ---- */

static inline bool dma_trace_on(const dma_trace_comm_t *comm)
{
    return __builtin_expect(comm != NULL, 0);
}

/* An event that is now. */
static inline void dma_trace_mark(const dma_trace_comm_t *comm, dma_trace_kind_t kind, uint64_t seq, unsigned detail,
                                  uint64_t a, uint64_t b)
{
    if (dma_trace_on(comm)) {
        dma_trace_event_t event = {.at = dma_trace_now(),
                                   .kind = (uint8_t)kind,
                                   .detail = (uint8_t)detail,
                                   .seq = (uint32_t)seq,
                                   .a = a,
                                   .b = b};

        dma_trace_put(comm, &event);
    }
}

/* An event that lasts from `at` until now. */
static inline void dma_trace_span(const dma_trace_comm_t *comm, dma_trace_kind_t kind, uint64_t seq, unsigned detail,
                                  uint64_t at, uint64_t a)
{
    if (dma_trace_on(comm)) {
        dma_trace_event_t event = {.at = at,
                                   .kind = (uint8_t)kind,
                                   .detail = (uint8_t)detail,
                                   .seq = (uint32_t)seq,
                                   .a = a,
                                   .b = dma_trace_now()};

        dma_trace_put(comm, &event);
    }
}

/* The plan of a call, with the name of its variant. */
static inline void dma_trace_plan(const dma_trace_comm_t *comm, uint64_t seq, dma_trace_by_t by, const char *variant)
{
    if (dma_trace_on(comm)) {
        uint64_t name[2] = {0};

        memcpy(name, variant, strnlen(variant, sizeof(name)));
        dma_trace_mark(comm, DMA_TRACE_PLAN, seq, by, name[0], name[1]);
    }
}

/* When a span may begin; 0 without a trace. */
static inline uint64_t dma_trace_begin(const dma_trace_comm_t *comm)
{
    return dma_trace_on(comm) ? dma_trace_now() : 0;
}

#endif
