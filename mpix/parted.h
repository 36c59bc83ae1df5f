/*
 * Partitioned collectives of libmpix_dma.
 *
 * A block of a rank is cut into units: one or several partitions that are sent together. Each unit has a persistent
 * collective of MPI, which places its data in all blocks of the receive buffer, so nothing is copied. It is started when all
 * its partitions are ready. MPI matches starts by request, and not by their order, so every rank starts units in its own
 * order.
 *
 *     block, 6 partitions of the sender    | 0 | 1 | 2 | 3 | 4 | 5 |
 *     units                                |   0   |   1   |   2   |     unit 1 is sent when 2 and 3 are ready
 *     4 partitions of the receiver         |  0  |  1  |  2  |  3  |     1 has arrived when units 0 and 1 are complete
 *
 * If the component coll/dma can let engines wait for partitions (dma/parts.h), there is one collective for the whole block
 * instead, in `requests[0]`, and a unit that stands for all. It is started when the round begins, and the engines do the rest:
 * they look at the words of partitions, and write words of the receivers in memory that all processes have mapped. If kernels
 * know that memory by the address of the host, these are the words that the program gets; otherwise whoever carries out, and
 * MPIX_Parrived, copy them.
 *
 * The program's handle is a persistent synchronous send from the process to itself, without data:
 *
 *     MPI_Start by the program  --->  a message, tag: number of the request   --->  whoever carries out finds it: round begins
 *     MPI_Wait returns          <---  the send is complete                    <---  receives it when all units are complete
 *
 * So it is a request of MPI in every respect, and the library never touches it. Its own part of a request stays until
 * MPIX_Request_free, MPI_Finalize, or until the program has called MPI_Request_free and makes another partitioned request.
 *
 * MPI_Request_free is seen by the handle's datatype. Nobody else has this type: the library frees it at once, with an attribute
 * on it, and MPI deletes the attribute when the handle, which still uses the type, is gone. Open MPI keeps the type of a handle
 * that sends elements, so the handle sends one, of a type without data. In an MPI that deletes the attribute before, the
 * library's part goes when MPI gives the same handle to a new request.
 *
 * Words. Rounds count from 0. Round n uses bank n % 2 of the words:
 *
 *     | ready: sparts | arrived: ranks * rparts | ready: sparts | arrived: ranks * rparts |      all begin at lines
 *     |<------------- bank 0 ------------------>|<------------- bank 1 ------------------>|
 *
 * When all units of round n are complete, the bank of round n + 1 is set to zero, then `round` becomes n + 1, then the message
 * is received. So what is stored after MPI_Wait has returned is never lost, and the words of round n stay until round n + 1 is
 * complete.
 *
 * Who does what. Pready and kernels store words and do nothing else. One agent at a time carries out (agent.c): it alone
 * looks for messages, starts and tests units, sets words that say what has arrived, and takes a request out of the list. No
 * lock is held during a call of MPI.
 */
#ifndef MPIX_PARTED_H
#define MPIX_PARTED_H

#include <mpix_dma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/parts.h"
#include "stream.h"

/* Requests of MPI for one partitioned request. Partitions share a unit if there are more. */
enum { MPIX_MOST_UNITS = DMA_PARTS_UNITS, MPIX_PARTED_LINE = 64 };

typedef struct mpix_unit {
    int sends, sends_end; /* the partitions that it sends */
    int recvs, recvs_end; /* those that it brings a part of, in each block */
    int ready;            /* in this round: all before this one are ready */
    bool started;
} mpix_unit_t;

typedef struct mpix_parted {
    struct mpix_parted *next;
    MPI_Request handle;   /* the program has a copy */
    unsigned long number; /* from 1: the attribute of the handle's type */
    int tag, ranks, sparts, rparts, nunits;
    size_t bank_words, arrived_at; /* in words: of a bank, and in it */
    uint32_t *words;
    bool mapped;             /* kernels can use the words, or there is no device */
    dma_parts_t *engines;    /* they wait for the words; NULL: whoever carries out does */
    mpix_stream_t device;    /* the current one when the request was made */
    MPI_Datatype atoms[2];   /* what both blocks are multiples of: sent, received */
    int *counts[2], *places; /* of all units except the last, of the last; of the blocks */

    /* With the lock of all. */
    unsigned round;
    bool active, finishing; /* a round is under way; it is complete, and the program may not see that yet */
    bool give_up;           /* what is not ready is sent as it is */
    bool freed;             /* the program has freed the handle: whoever finds it so may retire it */
    bool leaving, gone;     /* to be taken out of the list; has been */
    int error;              /* the first that nobody has asked for */

    /* Of whoever carries out. */
    MPI_Message message;
    int left;     /* units that are not complete */
    int *waits;   /* of each received partition: units that are not complete */
    bool *failed; /* and whether one has failed */
    mpix_unit_t *units;
    MPI_Request *requests; /* of the units; inactive when not under way */
    int *indices;
    MPI_Status *statuses;
} mpix_parted_t;

/* The words of the round. */
uint32_t *mpix_parted_ready(const mpix_parted_t *parted, unsigned round);
uint32_t *mpix_parted_arrived(const mpix_parted_t *parted, unsigned round);

/* armed.c: asks the component for engines that wait, if `wanted`, which is the same on all ranks. `make`: makes a collective of whole
 * blocks with this info object. Collective. An error is one of MPI; whether engines wait is in parted->engines. */
typedef int (*mpix_parted_make_t)(void *arg, MPI_Info info, MPI_Request *request);
int mpix_parted_ask_engines(mpix_parted_t *parted, uint64_t block, const uint64_t *ends, MPI_Comm comm,
                            mpix_parted_make_t make, void *arg);
/* With the lock, or by whoever carries out: words of the round that engines have written get to the program. */
void mpix_parted_copy_words(const mpix_parted_t *parted);

/* Prepares what all requests share, and destroys those whose handles the program has freed. An MPI error class. */
int mpix_parted_begin(void);
/* The handle is made, and the request gets into the list. An MPI error class. */
int mpix_parted_add(mpix_parted_t *parted);
/* Waits until it is in no list and nobody looks at it, and destroys it. Its round must be complete, or will be. */
void mpix_parted_retire(mpix_parted_t *parted);
/* Frees what a request has, except its handle. It is in no list. */
void mpix_parted_destroy(mpix_parted_t *parted);

/* The request with this handle, or with these words, and the lock of all. NULL: there is none, and the lock is not taken. */
mpix_parted_t *mpix_parted_lock(MPI_Request handle);
mpix_parted_t *mpix_parted_lock_words(const uint32_t *ready, unsigned *bank);
void mpix_parted_unlock(void);
/* With the lock: until a round that is complete looks so to the program. */
void mpix_parted_settle(mpix_parted_t *parted);

/* Carries out what can be done now. Whether anything has moved. */
bool mpix_parted_turn(bool is_thread);
/* There are requests, so somebody has to look for starts. */
bool mpix_parted_any(void);
/* If a round of a request with this handle is under way: what is not ready is sent as it is. */
void mpix_parted_give_up(MPI_Request handle);
/* MPI_Finalize has begun: the same from now on, for all rounds of all requests. */
void mpix_parted_give_up_all(void);
/* The first error since the last call, if it is one. */
int mpix_parted_take_error(MPI_Request handle);
/* Then, when the library has no thread any more. */
void mpix_parted_end(void);

#endif
