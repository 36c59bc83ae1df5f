/* Inside the interpreter: queues (libinterp_queue.c), the scheduler (libinterp.c). */
#ifndef DMA_TEST_LIBINTERP_MACHINE_H
#define DMA_TEST_LIBINTERP_MACHINE_H

#include "libinterp_model.h"

#define PENDING_MAX 48
#define STALE_MAX   6 /* how often a WAIT may poll its flag and not see it */

/* A piece of a copy that was issued and is not done. */
typedef struct piece {
    uint8_t *dst0, *dst1, *src;
    uint64_t n;
    bool swap;
} piece_t;

typedef struct queue {
    actor_t who; /* who.pc and who.trip: the next operation */
    const dma_prog_t *prog;
    uint64_t trips;
    uint32_t *seen; /* for each rank: the tick after WAIT(ENTRY) on it; 0: before */
    piece_t pending[PENDING_MAX];
    uint32_t npending, stale;
    /* The flag at which the queue stopped last, and how often it had been set then. Only a new value lets the queue go on. */
    const flag_t *awaited;
    uint32_t was_set;
    bool ended, starved;
    bool refused, staged; /* of a loop with two paths */
} queue_t;

typedef struct machine {
    world_t w;
    queue_t **queues; /* of calls that have been entered and not ended; their order is the priority */
    uint32_t nqueues, cap;
    queue_t **all; /* everything that was allocated; freed at the end */
    uint32_t nall;
    int *next_call; /* per rank */
    int mode, victim;
} machine_t;

enum { MODE_UNIFORM, MODE_PRIORITY, MODE_STARVE, MODE_COUNT };

typedef enum step { STEP_RAN, STEP_LATE, STEP_BLOCKED, STEP_FAILED } step_t;

/* Runs one operation of a queue, or a piece of an earlier copy of it. */
step_t queue_step(machine_t *m, queue_t *q);

bool fail_at(machine_t *m, const queue_t *q, interp_error_t error, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int64_t op_value(const world_t *w, const queue_t *q, const dma_op_t *op);
/* Bytes that an operation moves in the current trip. */
uint64_t op_bytes(machine_t *m, const queue_t *q, const dma_op_t *op);
/* Sets the flag of `op` that belongs to the rank that owns the queue. */
bool flag_set(machine_t *m, queue_t *q, const dma_op_t *op, int64_t value, const uint32_t *clock);
/* Where an operand is. NULL, with the report filled, if it may not be accessed. */
uint8_t *operand(machine_t *m, queue_t *q, const dma_op_t *op, const dma_operand_t *o, uint64_t n, bool write,
                 region_t **region, uint64_t *at);

#endif
