/* Plans written by hand, right and wrong ones, for the tests of the interpreter itself. */
#ifndef DMA_TEST_LIBINTERP_HAND_H
#define DMA_TEST_LIBINTERP_HAND_H

#include "dma/plan.h"

#define HAND_PROGS 8
#define HAND_OPS   32
#define HAND_HEAD  12 /* bytes of the longest head in hand_pairs */

typedef struct hand {
    dma_plan_t plan;
    dma_prog_t progs[HAND_PROGS];
    dma_op_t ops[HAND_PROGS][HAND_OPS];
} hand_t;

/* The mistakes of a builder. */
typedef enum fault {
    RIGHT,
    NO_ENTRY_WAIT,
    NO_ENTRY_SIGNAL,
    NO_CONSUMED_WAIT,
    NO_PRODUCED_WAIT,
    NO_LANDED_WAIT,
    EARLY_SIGNAL,
    WRONG_OFFSET,
    WRONG_SOURCE,
    LONG_COPY,
    FOREIGN_FLAG,
    LOW_FLAG,
    CIRCLE,
    SHALLOW,
    TWICE,
    UNCHUNKED,
    NOT_STREAMING,
    NO_OWN_WAIT,
    LATE_NUMBER,
    LATE_HEAD,
    WRONG_HEAD,
    WRONG_PLACE,
    WHOLE_CHUNKS,
    FOREIGN_STREAM,
    FOREIGN_BUFFER,
    COUNTED_TWICE,
    UNEQUAL,
    UNEQUAL_UNCHECKED,
    CHECKS_SENT,
    CHECKS_CHUNK,
    NUMBER_OF_OTHERS,
    WRITES_NUMBER,
    READS_BLOCK,
} fault_t;

/* Writes the plan of one rank. */
typedef void (*hand_builder_t)(hand_t *h, int rank, int n, fault_t fault);

/* Each rank reads the send buffers of its peers. */
void hand_pull(hand_t *h, int rank, int n, fault_t fault);
/* Through the slot of the descriptor of the call, with blocks of equal or of different sizes. */
void hand_slot(hand_t *h, int rank, int n, fault_t fault);
void hand_slot_v(hand_t *h, int rank, int n, fault_t fault);
/* Through chunk buffers, with a producer and a consumer for each peer. */
void hand_pipe(hand_t *h, int rank, int n, fault_t fault);
void hand_pipe_v(hand_t *h, int rank, int n, fault_t fault);
/* An all-to-all in place: the lower rank of each pair swaps. */
void hand_swap(hand_t *h, int rank, int n, fault_t fault);
/* Each rank reads its block once and writes it to two peers. */
void hand_push2(hand_t *h, int rank, int n, fault_t fault);
/* An all-to-all through places of 64 bytes in the slot. */
void hand_places(hand_t *h, int rank, int n, fault_t fault);
/* An all-to-all-v: sizes and heads through places in the slot, tails through the buffers of the pair; also in place. */
void hand_pairs(hand_t *h, int rank, int n, fault_t fault);
void hand_pairs_in_place(hand_t *h, int rank, int n, fault_t fault);

#endif
