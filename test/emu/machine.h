/*
 * The engines and queues of this process, and the one thread that executes them.
 *
 * The thread visits all engines and compute queues in the order of their creation. Each gets a bounded number of steps, so that
 * no queue waits for one that is blocked. Doorbells are words in memory that the thread polls, so a doorbell needs no system
 * call. If there is no progress, the thread sleeps, each time a little longer; the limit is lower while a queue waits for
 * memory. Callers that are about to wait for it wake it. The thread runs until the process ends, because runtimes never destroy
 * their queues if HIP is used.
 *
 * Order of locks: machine, memory table, events.
 */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include "aql.h"
#include "queue.h"
#include "sdma.h"

#include <stdbool.h>
#include <stdio.h>

struct emu_queue {
    struct emu_queue *next; /* in the order of creation */
    int id;
    uint32_t node;
    int type;       /* queue.h */
    char owner[32]; /* the library or program that has created it */
    int slot;       /* of an SDMA queue, else -1 */
    uint64_t *doorbell;
    uint64_t *pointers;             /* a page with write pointer and read pointer; NULL: the creator has them */
    uint64_t *write, *read;         /* the pointers of an SDMA queue */
    uint64_t held[EMU_QUEUE_HOLDS]; /* addresses of ranges that cannot be unmapped before; 0: none */
    uint64_t ring, bytes;
    bool stopped; /* only of a compute queue; an SDMA queue has a flag of its own */
    emu_sdma_queue_t *sdma;
    struct emu_aql aql;
};

/* The callers of all other functions hold this lock. */
void emu_machine_lock(void);
void emu_machine_unlock(void);

/* Adds a queue, in which all members except `sdma` are set; makes `sdma` for an SDMA queue. False: no memory, or a broken
 * rule. */
bool emu_machine_add(struct emu_queue *queue, uint64_t ring, uint64_t bytes);
struct emu_queue *emu_machine_find(int id);
bool emu_machine_any(void); /* queue */
void emu_machine_remove(struct emu_queue *queue);

/* Prints the statistics of all queues, also of destroyed ones: for each a line "queue", then the lines of sdma.h. */
void emu_machine_print(FILE *to);

/* At the end of the process: reports queues that exist as violations, except those of AMD's runtime. */
void emu_machine_report_left(void);

#endif
