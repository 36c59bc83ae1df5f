/*
 * The file of a trace: what one process has done in its calls, and when. coll_dma_trace reads it.
 *
 *     +--------------------+
 *     | dma_trace_head_t   |
 *     +--------------------+  head_bytes: DMA_TRACE_HEAD, or a page of the machine if that is more
 *     | dma_trace_event_t  |  32 bytes each
 *     | ...                |
 *     +--------------------+
 *
 * The process writes into a mapping of the file, so that what it has written is there also if it is killed. Behind the last event
 * are zeros. Times are nanoseconds of CLOCK_MONOTONIC, except those of an engine, which are counts of its own clock. Events
 * are in the order in which they were written, which is not that of their times.
 */
#ifndef DMA_TRACE_FILE_H
#define DMA_TRACE_FILE_H

#include <stdint.h>

#define DMA_TRACE_MAGIC UINT64_C(0x3265636172746d64)
#define DMA_TRACE_HEAD  4096  /* bytes at least */
#define DMA_TRACE_COMMS 65536 /* communicators that have a number in a file */

typedef struct dma_trace_head {
    uint64_t magic;
    uint32_t event_bytes; /* of an event */
    int32_t rank;         /* in MPI_COMM_WORLD */
    int32_t pid;
    uint32_t head_bytes;          /* where the events begin */
    uint64_t monotonic, realtime; /* the two clocks at the same time */
    uint64_t lost;                /* events for which there was no room */
    char job[48];
    char host[64];
    char clock[64];      /* whose CLOCK_MONOTONIC it is: the kernel's boot_id. Equal for containers of a machine */
    uint64_t unnumbered; /* communicators that are not in the file, because DMA_TRACE_COMMS came before them */
} dma_trace_head_t;

/* The columns `at`, `a` and `b` are times where they are called so. */
typedef enum dma_trace_kind {
    DMA_TRACE_NONE,
    DMA_TRACE_COMM, /* a: rank << 32 | ranks; b: identity; detail: 1 for the ranks of one node. Texts with the name follow */
    DMA_TRACE_TEXT,    /* at, a, b: 24 bytes of text */
    DMA_TRACE_BEGIN,   /* a call. detail: dma_coll_t; a: bytes of the largest block */
    DMA_TRACE_PLAN,    /* a, b: 16 bytes of the name of the variant; detail: dma_trace_by_t */
    DMA_TRACE_ENTERED, /* device memory: this rank has entered; from now on it waits for the others */
    DMA_TRACE_MET,     /* this rank knows that all others, or a further one, have entered */
    DMA_TRACE_SUBMIT,  /* to b: programs are given to an engine. a: bytes; detail: 1 if they have been armed before */
    DMA_TRACE_COMMAND, /* a copy that an engine gets. a: rank << 48 | bytes; detail: program */
    DMA_TRACE_CORES,   /* to a: this rank's core copies, with pauses. b: time in copies */
    DMA_TRACE_LINE,    /* this rank has seen that a program has ended. a: its rank; detail: its number */
    DMA_TRACE_STAMP,   /* a, b: counts of the engine's clock when a program begins and ends; detail: its number */
    DMA_TRACE_SEND, /* to b: a message between nodes is under way. a: rank << 40 | bytes; detail: its step in the plan */
    DMA_TRACE_RECV,    /* the same, from when it is awaited */
    DMA_TRACE_LOCAL,   /* to b: a step inside the node. a: operation of the cluster plan */
    DMA_TRACE_END,     /* of a call. detail: its status */
    DMA_TRACE_EARLY,   /* as STAMP, of a program that an engine was given before this rank had seen the others enter */
    DMA_TRACE_MOMENT,  /* to a: the engine's clock counted b. Of no call */
    DMA_TRACE_READING, /* to b: the core reads the times of an engine, which it does for the trace alone */
    DMA_TRACE_KINDS
} dma_trace_kind_t;

/* What moves the data of a call. */
typedef enum dma_trace_by { DMA_TRACE_CORES_ENGINE, DMA_TRACE_GPU_ENGINE, DMA_TRACE_NETWORK } dma_trace_by_t;

typedef struct dma_trace_event {
    uint64_t at;
    uint8_t kind, detail;
    uint16_t comm; /* number of the communicator in this file */
    uint32_t seq;  /* of the call */
    uint64_t a, b;
} dma_trace_event_t;

_Static_assert(sizeof(dma_trace_event_t) == 32, "no padding");

#endif
