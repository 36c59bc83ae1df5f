/* Persistent calls of ranks that are threads: a channel on the first communicator, and how far it is. */
#ifndef DMA_TEST_LIBPERSISTENT_H
#define DMA_TEST_LIBPERSISTENT_H

#include "core/comm.h"
#include "libengine_call.h"

typedef struct persistent {
    call_t *call;
    dma_channel_t *channel;
    _Atomic int ended; /* starts that have */
    int started;
    dma_status_t status;
} persistent_t;

void persistent_make(rank_t *r, persistent_t *p, const call_spec_t *spec);
/* Of a call that exists. */
void persistent_make_of(rank_t *r, persistent_t *p, call_t *call);
void persistent_start(rank_t *r, persistent_t *p, uint64_t tag);
/* Waits for the starts, and checks the data of the last one. */
void persistent_finish(rank_t *r, persistent_t *p);
void persistent_end(rank_t *r, persistent_t *p);

/* The communicator of the channel, and whether an engine serves it. */
const dma_comm_t *persistent_inside(const persistent_t *p);
bool persistent_is_prepared(const persistent_t *p);

#endif
