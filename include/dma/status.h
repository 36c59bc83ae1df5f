/*
 * Status values of every layer below the component.
 *
 * Negative values are errors and poison the communicator they happen on; the component translates them into MPI error
 * classes. Zero and above are answers: "not here" is a value that moves on to the next candidate, never an error.
 */
#ifndef DMA_STATUS_H
#define DMA_STATUS_H

typedef enum dma_status {
    DMA_OK = 0,
    DMA_AGAIN = 1,       /* not finished: call again after progress */
    DMA_UNSUPPORTED = 2, /* this candidate cannot: try the next one */

    DMA_ERR_TRUNCATE = -1, /* the ranks of one call disagree about its bytes */
    DMA_ERR_MISMATCH = -2, /* the ranks of one call disagree about its operation */
    DMA_ERR_PEER = -3,     /* a process of the communicator is gone */
    DMA_ERR_NOMEM = -4,
    DMA_ERR_NET = -5,     /* a message of the set-up or of the network failed */
    DMA_ERR_ARG = -6,     /* an argument no caller of ours may pass */
    DMA_ERR_ENGINE = -7,  /* an engine faulted */
    DMA_ERR_TIMEOUT = -8, /* only where the user asked for one */
} dma_status_t;

/* One word for a status, for reports and tests. */
const char *dma_status_name(dma_status_t status);

#endif
