/*
 * Starts of persistent collectives in a stream of the application: what libmpix_dma asks of the component.
 *
 * All that a start needs is put into the stream at once: the store that says that this rank has started, the waits for the other
 * ranks, the copies to them, the stores that say that the copies have landed, and the waits for those of the others. So work
 * behind a start waits until the start is complete, and a waitall gives the stream nothing to do. No thread and no call of MPI is needed. A call
 * of the program that waits for the stream (cudaFree) only waits until the other ranks have enqueued theirs, and nothing that they
 * need is behind it.
 *
 * To other ranks such a start looks like one that the host has made. So each rank decides by itself, anew for each start.
 *
 * The component has one object of type dma_in_stream_t with the symbol DMA_IN_STREAM_SYMBOL. The library finds it among the
 * objects of the process. So neither needs the other, and any series of Open MPI will do.
 *
 * From the first start to `end` the request is active. So MPI refuses to start or to free it.
 */
#ifndef DMA_IN_STREAM_H
#define DMA_IN_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define DMA_IN_STREAM_OBJECT "mca_coll_dma.so"
#define DMA_IN_STREAM_SYMBOL "mca_coll_dma_in_stream"
#define DMA_IN_STREAM_MAGIC  UINT64_C(0x336d616572747364) /* "dstream3": another layout gets another number */

struct ompi_request_t;

/* A stream of the application. */
typedef struct dma_app_stream {
    bool cuda; /* else HIP */
    void *stream;
    void *handle; /* of the component, as the next; NULL at first */
    int device;
} dma_app_stream_t;

typedef enum dma_in_stream_result {
    DMA_IN_STREAM_DONE,
    DMA_IN_STREAM_UNSERVED, /* nothing has happened: start the request as any other */
    DMA_IN_STREAM_ACTIVE,   /* the request is active; nothing has happened */
    DMA_IN_STREAM_FAILED    /* the request has failed, or could not be started */
} dma_in_stream_result_t;

/* What `start` says of a start. */
typedef struct dma_in_stream_started {
    bool first;          /* the request was inactive before */
    uint32_t number;     /* for has_begun */
    unsigned operations; /* that have been put into the stream, about */
} dma_in_stream_started_t;

/* One thread at a time may use a stream. */
typedef struct dma_in_stream {
    uint64_t magic;
    dma_in_stream_result_t (*start)(dma_app_stream_t *stream, struct ompi_request_t *request,
                                    dma_in_stream_started_t *started);
    /* Has the stream reached the start of this number? Before `end`. */
    bool (*has_begun)(struct ompi_request_t *request, uint32_t number);
    /* Has a start of the request failed, as far as is known? Before `end`. */
    bool (*has_failed)(struct ompi_request_t *request);
    /* Has the stream done everything of the request? ACTIVE: not yet. FAILED: the device has failed, and nobody will know. Does not use
     * the stream, which the program may have destroyed: then it still does what it has. Before `end`. */
    dma_in_stream_result_t (*look)(struct ompi_request_t *request);
    /* The stream has done everything of the request; or `broken`: the stream has failed, and does not go on. Afterwards the
     * request is inactive. DONE or FAILED. */
    dma_in_stream_result_t (*end)(struct ompi_request_t *request, bool broken);
    /* Whoever waits for a stream calls this again and again: a stream does not wait for requests that have failed. */
    void (*push_on)(void);
    /* The stream is not used any more. */
    void (*forget)(dma_app_stream_t *stream);
} dma_in_stream_t;

#endif
