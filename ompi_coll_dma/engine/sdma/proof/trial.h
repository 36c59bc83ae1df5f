/*
 * Trials: what a packet does, found out by sending it. A trial fills four places with patterns, runs packets on a queue and
 * compares. The self-test of jobs and coll_dma_accept use the same trials. Jobs try only what their record proves
 * (record.h), because a trial that goes wrong may hang the engine for all processes.
 *
 *     copy       a plain copy, with a fence behind it: without it nothing works
 *     timestamp  the engine writes its clock, twice, and it runs forward
 *     strides    a strided copy at odd addresses
 *     broadcast  a copy to two places
 *     swap       the exchange of two places
 *     poll       a POLL waits until the host releases it, and not less
 *     prelaunch  conditional execution; a program that waits, and is started or revoked (arm.c)
 *
 * The places are in the scratch memory, or wherever the caller wants: then plain copies bring the patterns there and back.
 */
#ifndef DMA_SDMA_TRIAL_H
#define DMA_SDMA_TRIAL_H

#include "engine/sdma/private.h"
#include "engine/sdma/proof/record.h"

#define DMA_TRIAL_PLACES      4
#define DMA_TRIAL_PLACE_BYTES 256
#define DMA_TRIAL_HANGS       "hangs" /* the reason if no answer comes */

typedef struct dma_trial {
    dma_sdma_unit_t *unit;
    dma_queue_t *queue;
    uint64_t places[DMA_TRIAL_PLACES]; /* the device's addresses */
    double seconds;                    /* timeout of each step */
    double hold;                       /* how long a POLL must have waited, in seconds */
    unsigned rounds;                   /* repetitions of the trials with a POLL */
    bool late;                         /* a queue may still write to the scratch memory */
    unsigned char *host;               /* the scratch memory: one page */
    uint64_t addr;                     /* its address on the device */
    uint32_t done;                     /* value of the last fence */
    char reason[DMA_FAULT_BYTES];      /* of a failure that has no constant text */
} dma_trial_t;

/* What is not proven on every machine, the least dangerous first. */
typedef struct dma_trial_packet {
    dma_gen_has_t has;
    dma_record_feature_t feature;
    const char *(*run)(dma_trial_t *t); /* NULL: it works; otherwise how it fails */
} dma_trial_packet_t;

#define DMA_TRIAL_PACKETS 6
extern const dma_trial_packet_t dma_trial_packets[DMA_TRIAL_PACKETS];

/* Allocates the scratch memory, with the places in it. false: no memory. */
bool dma_trial_begin(dma_trial_t *t, dma_sdma_unit_t *unit);
/* Frees it, or leaves it to the end of the unit if a queue is late. */
void dma_trial_end(dma_trial_t *t);

/* One packet that copies so many bytes, DMA_TRIAL_PLACE_BYTES or more. NULL: it works; otherwise how it fails. More may be more
 * than a job ever puts into a packet (DMA_GEN_LARGEST): then the first of the bytes are places 0 and 1, and the last of them
 * places 2 and 3. */
const char *dma_trial_copy(dma_trial_t *t, uint64_t bytes);

#endif
