/*
 * The running part of the node in this process: its engines and queues, and the one thread that moves them all.
 *
 * The thread goes round all engines and compute queues in their order of creation, giving each a bounded number of steps, so
 * that nothing waits for a queue that waits. It looks at doorbells in memory: ringing one takes no system call. When nothing
 * moves it sleeps, longer and longer; a queue that waits for memory keeps it from sleeping long. Who is about to wait for it
 * wakes it. It lives until the process ends, because runtimes never destroy their queues where HIP is used.
 *
 * Order of locks: the machine's, then the memory table's, then the events'.
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
    char owner[32]; /* the library or program that created it */
    int slot;       /* of an SDMA queue, else -1 */
    uint64_t *doorbell;
    uint64_t *
        pointers; /* a page of an SDMA queue's own: write pointer and, a line on, read pointer; NULL: its maker has them */
    uint64_t *write, *read;         /* the pointers of an SDMA queue */
    uint64_t held[EMU_QUEUE_HOLDS]; /* addresses of the ranges that it needs, 0: none */
    uint64_t ring, bytes;
    bool stopped; /* a compute queue; an SDMA queue knows by itself */
    emu_sdma_queue_t *sdma;
    struct emu_aql aql;
};

/* All but the lock itself want it. */
void emu_machine_lock(void);
void emu_machine_unlock(void);

/* Takes a queue that is filled in but for `sdma`; for an SDMA queue, makes that. False without memory or if a rule is broken. */
bool emu_machine_add(struct emu_queue *queue, uint64_t ring, uint64_t bytes);
struct emu_queue *emu_machine_find(int id);
bool emu_machine_any(void); /* queue */
void emu_machine_remove(struct emu_queue *queue);

/* The statistics of all queues there are and were; one "queue" line for each, then the lines of sdma.h. */
void emu_machine_print(FILE *to);

/* At the end: queues that nobody destroyed are violations, but those of AMD's runtime. */
void emu_machine_report_left(void);

#endif
