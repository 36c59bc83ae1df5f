/*
 * The services that the layers below the component need from their host.
 *
 * The component implements this table with Open MPI, and the unit tests implement it with threads. The core reaches
 * MPI only through it: no folder except component/ includes an MPI header.
 *
 * `comm` in every function is the opaque pointer that the communicator was created with (dma_comm_config_t.handle). All
 * functions are thread-safe if the caller asked for that at creation (dma_comm_config_t.threads).
 */
#ifndef DMA_HOST_H
#define DMA_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

typedef enum dma_report {
    DMA_REPORT_ERROR, /* something has failed, and the caller gets an error */
    DMA_REPORT_WARN,  /* something is missing; the text says what is done instead */
    DMA_REPORT_NOTE,  /* something could be used and is not; printed if the user asks for it (coll_dma_verbose 1) */
    DMA_REPORT_INFO,  /* printed only if the user asks for more (coll_dma_verbose 2) */
} dma_report_t;

/* The layout of an element of a datatype as rows of equal length at regular distances. The innermost level repeats the
 * row `n` times, `stride` bytes apart; the next level repeats that group; and so on. Packing follows this order. */
#define DMA_ROWS_LEVELS 4

typedef struct dma_level {
    uint64_t n;
    ptrdiff_t stride;
} dma_level_t;

typedef struct dma_rows {
    ptrdiff_t first; /* from the element's address to the first row */
    uint64_t row;    /* bytes */
    unsigned levels;
    dma_level_t level[DMA_ROWS_LEVELS]; /* the innermost level first */
} dma_rows_t;

/* A part of an element: `n` rows of `bytes` bytes. One row is `stride` bytes after the other in memory, and `pitch`
 * bytes after the other when packed. */
typedef struct dma_strip {
    ptrdiff_t at;    /* from the element's address to the first row */
    uint64_t packed; /* offset in the packed element */
    uint64_t bytes, n;
    ptrdiff_t stride;
    uint64_t pitch;
} dma_strip_t;

typedef dma_status_t (*dma_visit_t)(void *arg, const dma_strip_t *strip);

#define DMA_HOST_TAGS 1000000

struct dma_side;

typedef struct dma_host {
    /* Messages. Those with the same tag, from 0 to DMA_HOST_TAGS, are ordered per pair of ranks. The user's receives never match
     * them. `test` releases a request that it finds complete and sets *req to NULL. */
    dma_status_t (*isend)(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req);
    dma_status_t (*irecv)(void *comm, void *buf, size_t bytes, int peer, int tag, void **req);
    dma_status_t (*test)(void *comm, void **req);
    /* Takes back a receive, and sets *req to NULL; not if a message has come for it already. NULL: none can be taken back. */
    void (*cancel)(void *comm, void **req);

    /* The lowest rank whose process has not loaded coll/dma; -1: none, as far as can be found out. All ranks that are told one
     * are told the same. Asked when messages of a set-up have not come for long; it may take some time. NULL: there is none. */
    int (*find_absent)(void *comm);

    /* Runs the progress engine once. Called by blocking waits, never with a lock held. */
    void (*progress)(void);

    /* Derived datatypes: copy `count` elements of `type` at `buf` to and from `bytes` contiguous bytes. */
    dma_status_t (*pack)(const void *buf, size_t count, void *type, void *packed, size_t bytes);
    dma_status_t (*unpack)(void *buf, size_t count, void *type, const void *packed, size_t bytes);

    /* Describes the elements of a side of a call (dma/comm.h) whose blocks have this type: sets `dense`, the size, the extent, the
     * bounds and the type, and moves the address of dense blocks to where their data begins. */
    void (*type_side)(void *type, struct dma_side *side);

    /* The rows of a type. DMA_UNSUPPORTED: the type has no such layout. If this member is NULL, no type has one. */
    dma_status_t (*type_rows)(const void *type, dma_rows_t *rows);

    /* Calls `visit` for every strip of an element, until one call fails. */
    dma_status_t (*type_strips)(const void *type, dma_visit_t visit, void *arg);

    /* Reports one line of text to the user. `topic` identifies the report: a warning or note of one topic is printed once
     * per process. */
    void (*report)(dma_report_t level, const char *topic, const char *text);
} dma_host_t;

#endif
