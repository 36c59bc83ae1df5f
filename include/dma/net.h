/*
 * What the core asks of a network: messages between processes of different nodes.
 *
 * The component fills this table, or has none; then communicators stay inside nodes. `comm` is what the communicator was
 * created with, `net` and `peer` are the network's own. Everything may be called from any thread.
 *
 * A message is sent with a tag and received with the same tag from the same peer; equal tags match in order. Where messages
 * meet whose sizes or notes differ the receive ends with DMA_ERR_TRUNCATE, or if the last bytes of the notes do, with
 * DMA_ERR_MISMATCH, and nothing is written.
 * Requests of a peer that is gone end with DMA_ERR_PEER.
 */
#ifndef DMA_NET_H
#define DMA_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

typedef struct dma_wire_tag {
    uint32_t comm, owner, seq, step; /* matched */
    uint32_t note;                   /* compared: the lowest byte is the operation's, the others belong to the size */
} dma_wire_tag_t;

#define DMA_WIRE_ADDRESS_MAX 16384

typedef struct dma_wire {
    /* This process on the network. DMA_UNSUPPORTED: there is none here. */
    dma_status_t (*open)(void **net);
    void (*close)(void *net);
    const void *(*address)(void *net, size_t *bytes);
    /* All it has is TCP. */
    bool (*over_tcp)(void *net);

    /* How processes get to know each other: one message each way per pair of ranks and communicator. A shorter one than
     * `bytes` may come. `heard`: DMA_OK once it is over, and *req is NULL then. */
    dma_status_t (*offer)(void *comm, const void *buf, size_t bytes, int rank, void **req);
    dma_status_t (*ask)(void *comm, void *buf, size_t bytes, int rank, void **req);
    dma_status_t (*heard)(void *comm, void **req);
    /* The process that is `rank` there. */
    dma_status_t (*peer)(void *net, void *comm, int rank, const void *address, size_t bytes, void **peer);
    /* A number of this process that no other of the job has. */
    uint32_t (*self)(void);

    /* This process belongs to a communicator: before anybody sends it a message for it. */
    dma_status_t (*join)(void *net, uint32_t owner, uint32_t comm);
    /* It is over, or has failed: messages for it that have no receive go back, also those to come. Once is enough. */
    void (*leave)(void *net, uint32_t owner, uint32_t comm);

    dma_status_t (*isend)(void *net, void *peer, const dma_wire_tag_t *tag, const void *buf, size_t bytes, void **req);
    dma_status_t (*irecv)(void *net, void *peer, const dma_wire_tag_t *tag, void *buf, size_t bytes, void **req);
    /* DMA_AGAIN, or how it ended; then *req is NULL. */
    dma_status_t (*test)(void *net, void **req);
    /* Ends it as soon as the peer's network allows; it must still be tested. */
    void (*cancel)(void *net, void *req);
    /* Its memory is needed now: unless it has ended, the peer is given up for good, and all requests of that peer end within
     * a second of progress. */
    void (*give_up)(void *net, void *req);
    /* The peer has gone in peace. */
    bool (*left)(void *net, void *peer);
    void (*progress)(void *net);
    /* Which process something went wrong with last, and what, in words; leaves the text as it is if nothing has. */
    void (*trouble)(void *net, char *text, size_t bytes);
} dma_wire_t;

#endif
