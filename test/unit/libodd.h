/*
 * Calls with memory that the engines cannot use where it is, on all ranks or on rank 1 only: shared by
 * test_device_scratch and test_device_pieces.
 */
#ifndef DMA_TEST_LIBODD_H
#define DMA_TEST_LIBODD_H

#include "libengine_call.h"

enum { ODD_PLACES = 7 };

/* Where the two sides of an odd rank are. */
extern const struct odd_place {
    call_place_t send, recv;
} odd_places[ODD_PLACES];

typedef struct odd {
    int which; /* of `odd_places` */
    bool all;  /* all ranks are odd; otherwise only rank 1 */
    bool vector;
    bool out; /* no all-to-all in place, for which the stream engine needs memory */
} odd_t;

/* The rank's part of a call. */
call_spec_t odd_spec(const rank_t *r, const odd_t *odd, dma_coll_t coll, bool in_place, size_t bytes);
/* A call whose two sides are on the rank's own device. From then on the communicator uses this device. */
void odd_begin(rank_t *r, dma_comm_t *comm);

#endif
