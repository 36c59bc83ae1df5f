/*
 * What the layers below the component ask of their surroundings.
 *
 * The component fills this table with Open MPI; unit tests fill it with threads. It is the only way from the core to
 * the world of MPI: nothing but component/ includes an MPI header.
 *
 * `comm` in every call is the opaque pointer the communicator was created with. All functions are thread-safe when the
 * caller said so at creation (dma_comm_config_t.threads).
 */
#ifndef DMA_HOST_H
#define DMA_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

typedef enum dma_report {
    DMA_REPORT_ERROR, /* something failed and a caller will get an error */
    DMA_REPORT_WARN,  /* something is missing; the text says what happens instead */
    DMA_REPORT_INFO,  /* only for those who asked (coll_dma_verbose) */
} dma_report_t;

/* Where the bytes of an element of a datatype are, if they are rows of equal length at regular distances: `n` rows, `stride`
 * bytes from one to the next; such a group n times; and so on. In this order they are packed. */
#define DMA_ROWS_LEVELS 4

typedef struct dma_level {
    uint64_t n;
    ptrdiff_t stride;
} dma_level_t;

typedef struct dma_rows {
    ptrdiff_t first; /* from the element's address to the first row */
    uint64_t row;    /* bytes */
    unsigned levels;
    dma_level_t level[DMA_ROWS_LEVELS]; /* the innermost first */
} dma_rows_t;

/* A part of an element, wherever the rest is: `n` rows of `bytes` bytes, `stride` bytes from one to the next; packed, `pitch`
 * bytes. */
typedef struct dma_strip {
    ptrdiff_t at;    /* from the element's address to the first row */
    uint64_t packed; /* from the packed element's beginning to it */
    uint64_t bytes, n;
    ptrdiff_t stride;
    uint64_t pitch;
} dma_strip_t;

typedef dma_status_t (*dma_visit_t)(void *arg, const dma_strip_t *strip);

typedef struct dma_host {
    /* Messages of the set-up: FIFO per pair, a tag of our own, never seen by the user. A request is released by the
     * `test` that finds it complete; `test` leaves *req NULL then. */
    dma_status_t (*isend)(void *comm, const void *buf, size_t bytes, int peer, void **req);
    dma_status_t (*irecv)(void *comm, void *buf, size_t bytes, int peer, void **req);
    dma_status_t (*test)(void *comm, void **req);

    /* Another communicator of the same ranks, whose messages are told apart from those of `comm`. Collective, and waits.
     * `prune` is local. */
    dma_status_t (*comm_dup)(void *comm, void **dup);
    void (*comm_free)(void *dup);

    /* Runs the progress engine once. Called from blocking waits, never with a lock held. */
    void (*progress)(void);

    /* Derived datatypes: `count` elements of `type` at `buf` to and from `bytes` contiguous bytes. */
    dma_status_t (*pack)(const void *buf, size_t count, void *type, void *packed, size_t bytes);
    dma_status_t (*unpack)(void *buf, size_t count, void *type, const void *packed, size_t bytes);

    /* DMA_UNSUPPORTED: it has none. NULL: no type has. */
    dma_status_t (*type_rows)(const void *type, dma_rows_t *rows);

    /* All strips of an element, until a visit fails. */
    dma_status_t (*type_strips)(const void *type, dma_visit_t visit, void *arg);

    /* One line of text for the user. `topic` names the line: a warning of one topic is printed once per job. */
    void (*report)(dma_report_t level, const char *topic, const char *text);
} dma_host_t;

#endif
