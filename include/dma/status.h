/*
 * Status values of every layer below the component.
 *
 * Negative values are errors. An error poisons the communicator it happens on, and the component translates it into
 * an MPI error class. Values of zero and above are answers, not errors. With DMA_UNSUPPORTED the caller tries the
 * next candidate.
 */
#ifndef DMA_STATUS_H
#define DMA_STATUS_H

typedef enum dma_status {
    DMA_OK = 0,
    DMA_AGAIN = 1,       /* not finished: call again after progress */
    DMA_UNSUPPORTED = 2, /* this candidate cannot do it: try the next one */

    DMA_ERR_TRUNCATE = -1, /* the ranks of one call disagree about its bytes */
    DMA_ERR_MISMATCH = -2, /* the ranks of one call disagree about its operation */
    DMA_ERR_PEER = -3,     /* a process of the communicator has ended */
    DMA_ERR_NOMEM = -4,
    DMA_ERR_NET = -5,     /* a message of the set-up or of the network failed */
    DMA_ERR_ARG = -6,     /* an invalid argument of an internal caller */
    DMA_ERR_ENGINE = -7,  /* an engine has failed */
    DMA_ERR_TIMEOUT = -8, /* only if the user has set a time limit for late ranks (coll_dma_entry_timeout) */
} dma_status_t;

/* A short name of a status, for reports and tests. */
const char *dma_status_name(dma_status_t status);

#endif
