/*
 * What becomes of a call with device memory. Nothing else decides that.
 *
 *     facts      what this rank's buffers and device allow, before it enters     ->  an offer: how it enters
 *     census     what all ranks have entered with; equal on all ranks            ->  a mode: how all of them carry it out
 *
 * Both functions are pure. test_decide compares them with tables of all combinations.
 *
 *     offer      the rank enters                               if it has
 *     DATA       with its data, in host memory                 no other way: device memory is staged before
 *     JOIN       without data                                  host memory, and expects device memory on others (join.h)
 *     SLOTS      without data and without an export            device memory that engines cannot use, and slots can
 *     ENGINE     without data, and publishes an export         device memory for engines, or scratch memory in its place
 *     PREPARE    likewise                                      the same in *_init of a persistent call, which moves no data
 *     NOTHING    as with data, but moves nothing               anything else in *_init
 *
 *     mode       the call is carried out by                    if
 *     HOST       cores; device memory is staged                a rank has entered with data, one has joined and none has device
 *                                                              memory, or the engines of some rank cannot do the shapes
 *     SLOTS      runtimes, through pinned memory of all ranks  a rank has offered only SLOTS, or could not open a new export
 *     ENGINE     engines between the users' buffers            none of the above, and blocks go as a whole
 *     PIECES     engines, piece by piece                       a rank has scratch memory for a part of each block
 *     VOTE       not known yet                                 exports are new, or shapes not supported: all ranks vote first
 *     PREPARE    nobody: *_init keeps what its starts need     it would be carried out by ENGINE
 *     NOTHING    nobody: each start is decided by itself       it would be carried out in another way, or some ranks' calls differ
 *
 * A rank that takes the host plan enters a second time and overwrites its record. It must not do so before all ranks have read the
 * record. So a call whose shapes some engine cannot do needs a vote, too.
 */
#ifndef DMA_DEVICE_DECIDE_H
#define DMA_DEVICE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/reason.h"

typedef struct dma_facts {
    bool prepares; /* the call of *_init; `ready` is all that matters */
    bool joins;    /* both sides are host memory */
    bool served;   /* engines could move the data */
    bool rows;     /* none could, because of the datatypes; slots can */
    bool state;    /* the communicator has its state for calls of this device */
    bool ready;    /* what engines need has been leased and exported */
    bool
        slots; /* slots could do the call, and it is large enough for them. Looked at if it is not served, or not ready */
} dma_facts_t;

typedef enum dma_offer {
    DMA_OFFER_DATA,
    DMA_OFFER_JOIN,
    DMA_OFFER_SLOTS,
    DMA_OFFER_ENGINE,
    DMA_OFFER_PREPARE,
    DMA_OFFER_NOTHING
} dma_offer_t;

dma_offer_t dma_device_offer(const dma_facts_t *facts);

typedef enum dma_vote { DMA_VOTE_NONE, DMA_VOTE_YES, DMA_VOTE_NO } dma_vote_t;

typedef struct dma_census {
    bool prepares;   /* the call of *_init */
    bool data;       /* a rank has entered with data; of *_init, has nothing to offer, or makes another call */
    bool joined;     /* a rank has joined */
    bool device;     /* a rank has device memory */
    bool slots;      /* a rank has offered SLOTS */
    bool repeats;    /* all ranks repeat the last call, which engines have carried out */
    bool fresh;      /* a rank has published a new export */
    bool shapes;     /* the engines of all ranks can do all shapes; known when the records have been read */
    bool in_place;   /* all ranks are in place. Says nothing about the mode, but variants cost less then */
    uint64_t piece;  /* least of the pieces that ranks have room for, in bytes; 0: none has published one */
    dma_vote_t vote; /* of all ranks: could they open all exports? */
} dma_census_t;

typedef enum dma_mode {
    DMA_MODE_HOST,
    DMA_MODE_SLOTS,
    DMA_MODE_ENGINE,
    DMA_MODE_PIECES,
    DMA_MODE_VOTE,
    DMA_MODE_PREPARE,
    DMA_MODE_NOTHING
} dma_mode_t;

typedef struct dma_decision {
    dma_mode_t mode;
    dma_reason_t why; /* of HOST and SLOTS */
} dma_decision_t;

dma_decision_t dma_device_decide(const dma_census_t *census);

#endif
