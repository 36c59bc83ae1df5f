/*
 * What a process says of itself while it runs: coll_dma_state reads it, without a signal and without help of the process.
 *
 * Each process has a memfd with the name "coll_dma_state" and the mode 0600. It is found by its name among the descriptors of
 * the process in /proc, which the kernel shows to its owner alone. It ends with the process, so nothing is left behind.
 *
 *     +--------------------+
 *     | dma_state_head_t   |  whose it is; written once
 *     +--------------------+  DMA_STATE_HEAD
 *     | dma_state_row_t    |  a communicator
 *     | dma_state_row_t    |
 *     | ...                |  DMA_STATE_ROWS
 *     +--------------------+
 *
 * Pages are allocated when the first row in them is taken. Every call costs two stores, `begun` and `completed`. All else is
 * written when a communicator changes its state, and when it has waited for more than DMA_STATE_LONG seconds. No wait is
 * erased when it ends: a reader ignores a wait in a call that has completed.
 */
#ifndef DMA_CORE_STATE_H
#define DMA_CORE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DMA_STATE_NAME  "coll_dma_state"
#define DMA_STATE_MAGIC UINT64_C(0x32657461745364)
#define DMA_STATE_HEAD  4096
#define DMA_STATE_ROWS  1024
#define DMA_STATE_LONG  0.01 /* seconds */
#define DMA_WAIT_RANKS  16   /* ranks that are named; the others are counted */

/* What the oldest call of a communicator waits for. */
typedef enum dma_wait_kind {
    DMA_WAIT_NONE,    /* nothing that can be named */
    DMA_WAIT_ENTRY,   /* the ranks have not entered the call */
    DMA_WAIT_FLAG,    /* they have entered it and have not set a flag yet */
    DMA_WAIT_MESSAGE, /* a message of them */
    DMA_WAIT_RANK,    /* they may have entered the call */
} dma_wait_kind_t;

typedef struct dma_wait {
    dma_wait_kind_t kind;
    int n; /* ranks that are waited for; `ranks` has the first DMA_WAIT_RANKS of them */
    int ranks[DMA_WAIT_RANKS];
} dma_wait_t;

/* Adds a rank; one of those that are named is not added again. */
static inline void dma_wait_add(dma_wait_t *wait, dma_wait_kind_t kind, int rank)
{
    bool named = wait->n < DMA_WAIT_RANKS;

    wait->kind = kind;
    for (int i = 0; i < wait->n && i < DMA_WAIT_RANKS; i++) {
        if (wait->ranks[i] == rank) {
            return;
        }
    }
    if (named) {
        wait->ranks[wait->n] = rank;
    }
    wait->n++;
}

#define DMA_PHASE_BYTES 24

/* A wait, as it is shown to a user. */
typedef struct dma_state_wait {
    double since;  /* dma_now(); 0: none */
    uint64_t call; /* sequence number; 0: the set-up */
    int32_t coll;  /* dma_coll_t of the call */
    dma_wait_t wait;
    char phase[DMA_PHASE_BYTES];
} dma_state_wait_t;

#define DMA_STATE_TEXT 160

typedef struct dma_state_row {
    _Atomic uint64_t begun;     /* calls */
    _Atomic uint64_t completed; /* all calls up to this one */
    _Atomic uint32_t version;   /* of all that follows; odd: it is being written */
    uint32_t state;             /* dma_comm_state_t; DMA_COMM_NEW: nobody's row */
    int32_t rank, nranks;
    uint32_t inner;                /* the ranks of one node of a communicator over several nodes */
    uint64_t identity;             /* equal on all ranks of the communicator; 0: not agreed yet */
    dma_state_wait_t wait;         /* the last long one */
    char name[DMA_STATE_TEXT / 2]; /* of the communicator */
    char reason[DMA_STATE_TEXT];   /* why it is ASIDE, POISONED or FIRST */
} dma_state_row_t;

#define DMA_STATE_ROW_BYTES 512
_Static_assert(sizeof(dma_state_row_t) <= DMA_STATE_ROW_BYTES, "a row fits");
#define DMA_STATE_BYTES (DMA_STATE_HEAD + DMA_STATE_ROWS * DMA_STATE_ROW_BYTES)

typedef struct dma_state_head {
    uint64_t magic; /* stored last */
    uint64_t pid;   /* in the namespace of the process: a fork of it has this memory too, and another number */
    int32_t rank;   /* in MPI_COMM_WORLD */
    uint32_t rows;  /* that may be in use: all behind them are not */
    _Atomic uint32_t unshown; /* communicators without a row */
    char job[48];
} dma_state_head_t;

/* The writing side: one for a process, guarded by its lock. */
typedef struct dma_state {
    int fd; /* -1: there is no memory for it */
    bool tried;
    char *base;
    uint64_t taken[DMA_STATE_ROWS / 64]; /* bit mask of rows */
    dma_state_row_t nowhere;             /* of communicators without a row; nobody reads it */
} dma_state_t;

/* ---- state_text.c: words for users; coll_dma_warn and coll_dma_state use the same ---- */

#define DMA_STATE_WORDS 400

/* "rank 0 has waited 1.0 s in all-gather, call 3 (entry) on NAME for rank 1, which has not entered it" */
void dma_state_words(const dma_state_wait_t *wait, int rank, const char *name, double now, char words[DMA_STATE_WORDS]);

#endif
