/*
 * Counters: what coll/dma has done, for tools that read performance variables (MPI_T). counters_table.h has a row for each.
 *
 * A count belongs to a communicator or to the process. The holder of a communicator's lock counts with a plain increment. What
 * several threads count is atomic. A reader takes no communicator's lock. It adds up the process's count and those of all
 * communicators:
 *
 *     dma_counters_t     at[]   counts of the process, and of communicators that have ended
 *       first -> dma_comm_counts_t  at[]   of a communicator that is alive
 *                 next -> ...
 *
 * The node communicator and the channels of a communicator count too, in its name (`owner`).
 */
#ifndef DMA_COUNTERS_H
#define DMA_COUNTERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/plan.h"
#include "dma/probe.h"
#include "dma/reason.h"

/* Room for lists that other files have: test_counters checks that it suffices. */
#define DMA_COUNT_VARIANTS     16 /* for host memory and GPU engines */
#define DMA_COUNT_NET_VARIANTS 16 /* between nodes */
#define DMA_COUNT_ENGINES      4  /* of GPUs */

/* The numbers of the counters. */
enum {
#define DMA_COUNTER(scope, kind, name, help) DMA_COUNT_##name,
#include "dma/counters_table.h"
#undef DMA_COUNTER
    DMA_COUNT_VARIANT,
    DMA_COUNT_NET_VARIANT = DMA_COUNT_VARIANT + DMA_COUNT_VARIANTS,
    DMA_COUNT_ENGINE = DMA_COUNT_NET_VARIANT + DMA_COUNT_NET_VARIANTS,
    DMA_COUNT_REASON = DMA_COUNT_ENGINE + DMA_COUNT_ENGINES,
    DMA_COUNTS = DMA_COUNT_REASON + DMA_REASON_COUNT
};

/* The counts of one communicator. */
typedef struct dma_comm_counts {
    struct dma_comm_counts *next, **link; /* in the list, and what points to it there */
    const void *owner;                    /* the handle of the communicator in whose name they are */
    const struct dma_window *window;      /* the host engine counts there, too */
    int nranks;
    uint64_t equal_bytes; /* of a block, in calls with equal blocks: for each rank a part of bytes_cores */
    uint64_t at[DMA_COUNTS];
} dma_comm_counts_t;

typedef struct dma_counters {
    pthread_mutex_t lock; /* guards the list; taken last */
    dma_comm_counts_t *first;
    _Atomic uint64_t at[DMA_COUNTS];
} dma_counters_t;

#define DMA_COUNTERS_INIT                                                                                              \
    {                                                                                                                  \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                                              \
    }

/* Counts for the process, in any thread. */
static inline void dma_counters_add(dma_counters_t *counters, int which, uint64_t n)
{
    atomic_fetch_add_explicit(&counters->at[which], n, memory_order_relaxed);
}

static inline void dma_counters_add_reason(dma_counters_t *counters, dma_reason_t reason)
{
    dma_counters_add(counters, DMA_COUNT_REASON + (int)reason, 1);
    DMA_PROBE2(way_out, 0, dma_reasons[reason].name);
}

typedef enum dma_counter_kind {
    DMA_COUNTER_EVENTS,
    DMA_COUNTER_BYTES,
    DMA_COUNTER_NANOSECONDS,
    DMA_COUNTER_LEVEL, /* bytes that grow and shrink */
} dma_counter_kind_t;

#define DMA_COUNTER_TEXT_BYTES 640

/* A counter as a user sees it. */
typedef struct dma_counter {
    int which;
    char name[64]; /* without the prefix coll_dma_ */
    bool of_comm;  /* it can be read for one communicator */
    dma_counter_kind_t kind;
    char help[DMA_COUNTER_TEXT_BYTES];
} dma_counter_t;

/* The i-th counter, from 0 on. False: there are not so many. */
bool dma_counter_describe(size_t i, dma_counter_t *counter);

/* The value for the process; with `owner` for a communicator that is alive. */
uint64_t dma_counters_read(dma_counters_t *counters, int which, const void *owner);

#endif
