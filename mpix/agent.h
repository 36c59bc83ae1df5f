/*
 * The agent: whoever carries out what queues and partitioned requests have to do. It is the library's thread if MPI has given
 * MPI_THREAD_MULTIPLE. Otherwise it is the caller of a function of the library, because then only one thread at a time may call MPI.
 *
 * The agent knows neither. Each of them gives it a table of functions, which it calls without a lock of its own, except `need`.
 */
#ifndef MPIX_AGENT_H
#define MPIX_AGENT_H

#include <stdbool.h>

/* How much of the agent somebody needs; the thread sleeps as long as that allows. */
typedef enum mpix_need {
    MPIX_NEEDS_NOTHING, /* there is nothing to do for it */
    MPIX_NEEDS_NOTICE,  /* nothing before a call of mpix_agent_notify, but that may come soon */
    MPIX_NEEDS_LOOKS,   /* a turn now and then */
    MPIX_NEEDS_TURNS
} mpix_need_t;

typedef struct mpix_work {
    struct mpix_work *next;
    bool (*turn)(bool is_thread); /* advances everything; true: there was progress */
    mpix_need_t (*need)(void);    /* with the lock of the agent */
    void (*stop)(void);           /* MPI_Finalize has begun: nothing may be left to do when this returns */
    void (*end)(void);            /* the thread has ended */
} mpix_work_t;

/* The first call prepares the library, with its thread if there may be one. The first call for each work adds it. Returns an MPI
 * error code. */
int mpix_agent_begin(mpix_work_t *work);
bool mpix_agent_has_thread(void);
/* A work may need more since the caller has stored something: wakes the thread if it sleeps. The caller has no lock that `need` takes. */
void mpix_agent_notify(void);
/* Without a thread of the library: one turn of all works. True: there was progress. */
bool mpix_agent_turn(void);

#endif
