/* A UCX that does nothing: it records what an endpoint is told, and ends it in a later progress. For fuzz_ucx.c. */
#ifndef DMA_TEST_STUB_UCX_H
#define DMA_TEST_STUB_UCX_H

#include <stdbool.h>

#include "internal.h"

/* Fills dma_ucx_api. `net` gets the messages. */
void stub_open(dma_ucx_t *net);
/* Whether the next operations end at once, and the status with which the others end. */
void stub_behave(bool at_once, ucs_status_t status);
/* A message that the next progress delivers. */
void stub_arrive(const void *header, size_t header_bytes, const void *data, size_t bytes, bool rndv);
/* The next progress reports that the endpoint is broken. */
void stub_break(ucp_ep_h ep);
/* Checks that nothing is left that UCX has lent. */
bool stub_is_clean(void);

#endif
