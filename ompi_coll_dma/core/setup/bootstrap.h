/*
 * An all-gather of small records of one size over the messages of the host services, as a state machine. The ranks of a
 * communicator use it to agree. The number of records that a rank has doubles in every round. Where the number of ranks is a power
 * of two, ranks exchange in pairs (recursive doubling), so that a rank needs connections to few others; otherwise it is Bruck's
 * algorithm.
 */
#ifndef DMA_CORE_SETUP_BOOTSTRAP_H
#define DMA_CORE_SETUP_BOOTSTRAP_H

#include "core/state.h"
#include "dma/host.h"

typedef struct dma_bootstrap {
    const dma_host_t *host;
    void *handle;
    int rank, nranks;
    size_t bytes;  /* of a record */
    char *records; /* record i is that of the rank at distance i: rank ^ i in pairs, otherwise (rank + i) % nranks */
    int have;      /* records that have arrived, including this rank's own */
    void *sending, *receiving;
    int incoming; /* records of the present round; 0: no round is under way */
} dma_bootstrap_t;

dma_status_t dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                 const void *record, size_t bytes);
/* Begins another all-gather after one has ended, with records that are no larger. It allocates no memory, so it cannot
 * fail. The old records are overwritten. */
void dma_bootstrap_restart(dma_bootstrap_t *ex, const void *record, size_t bytes);
/* DMA_OK: all records are here. DMA_AGAIN, or an error of the host services. */
dma_status_t dma_bootstrap_advance(dma_bootstrap_t *ex);
/* The rank whose message is waited for. */
dma_wait_t dma_bootstrap_waits_for(const dma_bootstrap_t *ex);
void *dma_bootstrap_record(const dma_bootstrap_t *ex, int rank);
/* Ends it while messages are under way: takes the receive back, if that is still possible. */
void dma_bootstrap_cancel(dma_bootstrap_t *ex);
/* Frees the records. If messages are still under way, which use that memory, it stays until the process ends. */
void dma_bootstrap_end(dma_bootstrap_t *ex);

#endif
