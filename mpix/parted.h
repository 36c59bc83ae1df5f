/*
 * Partitioned collectives of libmpix_dma.
 *
 * A block of a rank consists of units: one or several partitions that are sent together. Each unit has a persistent collective
 * of MPI, which places the data in all blocks of the receive buffer, so the library copies nothing. The collective is started
 * when all partitions of the unit are ready. MPI matches starts by request and not by their order, so every rank starts units
 * in its own order.
 *
 *     block, 6 partitions of the sender    | 0 | 1 | 2 | 3 | 4 | 5 |
 *     units                                |   0   |   1   |   2   |     unit 1 is sent when 2 and 3 are ready
 *     4 partitions of the receiver         |  0  |  1  |  2  |  3  |     1 has arrived when units 0 and 1 are complete
 *
 * If the component coll/dma can make engines wait for partitions (dma/parts.h), there is one collective for the whole block
 * instead, in requests[0], and one unit. The collective is started when the round begins. The engines then poll the ready
 * words, and write `arrived` words of the receivers in memory that all processes have mapped. If kernels can use that memory at
 * the address of the host, the program gets these words. Otherwise the agent (agent.h) and MPIX_Parrived copy them.
 *
 * The program's handle is a persistent synchronous send from the process to itself, without data:
 *
 *     MPI_Start by the program  --->  a message, tag: number of the request   --->  the agent finds it: the round begins
 *     MPI_Wait returns          <---  the send is complete                    <---  receives it when all units are complete
 *
 * So the handle is a request of MPI in every respect, and the library never uses it. The library keeps its own part of the
 * request, mpix_parted_t, until MPIX_Request_free or MPI_Finalize. If the program has called MPI_Request_free, it keeps the
 * part until the next partitioned request is made.
 *
 * The library notices MPI_Request_free by the handle's datatype, which only this handle has. The library sets an attribute of
 * the type and frees the type at once. MPI deletes the attribute when the last user of the type, the handle, is gone. Open MPI
 * retains the type of a send only if its count is not zero, so the handle sends one element of a type without data. An MPI that
 * does not retain the type deletes the attribute too early. The library ignores that, and frees its part when MPI gives the
 * same handle to a new request.
 *
 * Words. Rounds are numbered from 0. Round n uses bank n % 2 of the words:
 *
 *     | ready: sparts | arrived: ranks * rparts | ready: sparts | arrived: ranks * rparts |      all begin at lines
 *     |<------------- bank 0 ------------------>|<------------- bank 1 ------------------>|
 *
 * When all units of round n are complete, the bank of round n + 1 is set to zero, then `round` becomes n + 1, then the message
 * is received. So words that are stored after MPI_Wait has returned are never lost, and the words of round n do not change
 * until round n + 1 is complete.
 *
 * MPIX_Pready and kernels only store words. MPIX_Pready also wakes the agent if it sleeps. One agent at a time (agent.h) does all the
 * rest: it probes for messages, starts and tests units, stores `arrived` words, and takes requests out of the list. It holds no lock
 * during a call of MPI.
 */
#ifndef MPIX_PARTED_H
#define MPIX_PARTED_H

#include <mpix_dma.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/parts.h"
#include "stream.h"

/* The most units of a partitioned request. If there are more partitions, several share a unit. */
enum {
    MPIX_MOST_UNITS = DMA_PARTS_UNITS,
    MPIX_PARTED_LINE = 64,
    MPIX_PARTED_TAGS = 32767 /* MPI_TAG_UB is not smaller */
};

typedef struct mpix_unit {
    int sends, sends_end; /* the partitions that it sends */
    int recvs, recvs_end; /* the partitions of each block for which it carries data */
    int ready;            /* in this round: all partitions before this one are ready */
    bool started;
} mpix_unit_t;

/* A partition of a received block. */
typedef struct mpix_part {
    int waits;   /* for units that are not complete */
    bool failed; /* a unit has */
} mpix_part_t;

typedef struct mpix_parted {
    struct mpix_parted *next;
    MPI_Request handle; /* the program has a copy */
    unsigned long
        number; /* from 1: the attribute of the handle's type; modulo MPIX_PARTED_TAGS it is the tag of the message */
    int ranks, sparts, rparts, nunits;
    size_t bank_words, arrived_at; /* in words: size of a bank; offset of `arrived` in it */
    mpix_memory_t *memory;         /* that has the words */
    uint32_t *words;
    bool mapped;           /* kernels can use the words, or there is no device */
    dma_parts_t *engines;  /* NULL: no engines wait for the words, so the agent polls them */
    mpix_stream_t device;  /* the device that was current when the request was made */
    MPI_Datatype atoms[2]; /* the type whose multiples are blocks sent; blocks received */
    int *counts[3];        /* of each rank: of all units except the last; of the last; places of blocks */

    /* Atomic. A partition is ready: the round needs the agent until it ends, also if the agent has not seen its start. */
    bool expected;

    /* With the lock of all requests. */
    unsigned round;         /* atomic: read without the lock, too */
    bool active, finishing; /* a round is under way; is complete, except for the handle */
    bool give_up;           /* send partitions that are not ready as they are */
    bool freed;             /* the program has freed the handle, so the request may be retired */
    bool leaving, gone;     /* claimed, to be taken out of the list; has been taken out */
    bool silent; /* rounds may need the agent before a call of the library: for stores to the words, or for engines */
    int error;   /* the first that was not returned yet */

    /* Of the agent. */
    MPI_Message message;
    int left; /* units that are not complete */
    mpix_part_t *parts;
    mpix_unit_t units[MPIX_MOST_UNITS];
    MPI_Request requests[MPIX_MOST_UNITS]; /* of the units */
    int indices[MPIX_MOST_UNITS];
    MPI_Status statuses[MPIX_MOST_UNITS];
} mpix_parted_t;

/* ---- armed.c: engines that wait for the words ---- */

/* The words of the round. */
uint32_t *mpix_parted_ready(const mpix_parted_t *parted, unsigned round);
uint32_t *mpix_parted_arrived(const mpix_parted_t *parted, unsigned round);
/* Collective: asks the component for engines that wait, and sets parted->engines if they do. `make` makes a persistent
 * collective of whole blocks with an info object. Returns an error code of MPI. */
typedef int (*mpix_parted_make_t)(void *arg, MPI_Info info, MPI_Request *request);
int mpix_parted_ask_engines(mpix_parted_t *parted, uint64_t block, const uint64_t *ends, MPI_Comm comm,
                            mpix_parted_make_t make, void *arg);
/* Copies words of the round that engines have written to the words of the program. With the lock, or in the agent. */
void mpix_parted_copy_words(const mpix_parted_t *parted);

/* ---- parted_list.c: the list of all requests, its lock, and how requests are found ---- */

typedef struct mpix_parted_list {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request is gone, or has finished a round */
    mpix_parted_t *first;
    bool ending; /* MPI_Finalize has begun: no round waits for partitions that are not ready */
} mpix_parted_list_t;
extern mpix_parted_list_t mpix_parted_all;

void mpix_parted_lock_all(void);
void mpix_parted_unlock(void);
/* Returns the request with this handle, or NULL. Without a lock: for handles that the program may use. */
mpix_parted_t *mpix_parted_of(MPI_Request handle);
/* With the lock: mpix_parted_of returns this request from now on. False: no memory, which cannot be for NULL. */
bool mpix_parted_map(MPI_Request handle, mpix_parted_t *parted);
/* Finds the request with this handle, and takes the lock. NULL: there is none, and the lock is not taken. */
mpix_parted_t *mpix_parted_lock(MPI_Request handle);
/* If a round of this request is under way: sends partitions that are not ready as they are. */
void mpix_parted_give_up(MPI_Request handle);
/* MPI_Finalize has begun: does the same for all rounds of all requests from now on. */
void mpix_parted_give_up_all(void);
/* Returns the first error of this request since the last call, and clears it. MPI_SUCCESS if it is no partitioned request. */
int mpix_parted_take_error(MPI_Request handle);

/* ---- parted_round.c, in the agent ---- */

/* `message`: by which the program has started the round. True: there was progress. */
void mpix_parted_begin_round(mpix_parted_t *parted, MPI_Message message);
bool mpix_parted_advance(mpix_parted_t *parted, bool is_thread);

/* ---- parted.c: the life of requests ---- */

/* Prepares what all requests share, and destroys requests whose handles the program has freed. Returns an MPI error code. */
int mpix_parted_begin(void);
/* Makes the handle and adds the request to the list. After an error, which is one of MPI, the request is destroyed. */
int mpix_parted_add(mpix_parted_t *parted);
/* Nobody finds the request with this handle from now on. The caller must retire it. NULL: there is none. */
mpix_parted_t *mpix_parted_claim(MPI_Request handle);
/* Waits until the agent has taken a request that was claimed out of the list, which it does when its round is complete. Then
 * destroys it. NULL: nothing. */
void mpix_parted_retire(mpix_parted_t *parted);
/* Frees a request that is in no list, except its handle. */
void mpix_parted_destroy(mpix_parted_t *parted);

#endif
