/*
 * An all-gather of small fixed-size records over the host's messages, as a resumable state machine: the means by which the
 * ranks of a communicator agree. Bruck's algorithm: the records held double in every round.
 */
#ifndef DMA_CORE_SETUP_BOOTSTRAP_H
#define DMA_CORE_SETUP_BOOTSTRAP_H

#include "dma/host.h"

typedef struct dma_bootstrap {
    const dma_host_t *host;
    void *handle;
    int rank, nranks;
    size_t bytes;  /* of a record */
    char *records; /* record i is rank (rank + i) % nranks's */
    int have;
    void *sending, *receiving;
    int incoming; /* records under way; 0: none */
} dma_bootstrap_t;

dma_status_t dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                 const void *record, size_t bytes);
/* Another one, of a record that is no larger, when the last has ended. It needs no memory: whoever has begun can go on. The
 * old records are gone. */
void dma_bootstrap_restart(dma_bootstrap_t *ex, const void *record, size_t bytes);
/* DMA_OK once all records are here; DMA_AGAIN; or an error of the host. */
dma_status_t dma_bootstrap_advance(dma_bootstrap_t *ex);
void *dma_bootstrap_record(const dma_bootstrap_t *ex, int rank);
/* Forgets the records. Messages under way keep their buffers: then the memory is left to them. */
void dma_bootstrap_end(dma_bootstrap_t *ex);

#endif
