/*
 * The interface of a network: messages between processes of different nodes.
 *
 * The component fills the table dma_net_ops_t with functions over UCX (component/net.c); unit tests fill it with
 * functions over memory. Without a table, communicators over several nodes are not served. `comm` as a pointer is the
 * handle that the communicator was created with (dma_comm_config_t); `net` and `peer` are objects of the network. All
 * functions may be called from any thread.
 *
 * A message is sent with a tag and matches a receive with the same tag from the same peer. Messages with equal tags match in
 * the order in which they were sent. If sender and receiver disagree about the size, or about the upper bytes of the note, the
 * receive ends with DMA_ERR_TRUNCATE; if they disagree about the lowest byte of the note, with DMA_ERR_MISMATCH. Then nothing
 * is written into the buffer. Requests to a failed peer end with DMA_ERR_PEER.
 *
 * Requests. Until `test` has returned the result, the buffer belongs to the network; the tag does not. If isend or irecv
 * returns an error, there is no request. A send ends when its buffer may be used again, which may be before its receive is
 * posted. Receives are posted in any order, so no send may wait for the receive of another one.
 *
 * Ends. A process that is late or stopped has not failed. The failure of a process must be noticed by all that have connected
 * to it, also by those that only receive. Messages that have arrived as a whole can be received after their sender has failed
 * or closed. Requests to a peer that has closed end with DMA_ERR_PEER, and peer_closed returns true by then.
 */
#ifndef DMA_NET_H
#define DMA_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

typedef struct dma_net_tag {
    /* matched */
    uint32_t comm;  /* number of the communicator, chosen by `owner` */
    uint32_t owner; /* process_id of a process that all ranks of the communicator have agreed on */
    uint32_t seq;   /* the sequence number of the call modulo 2^31 - 1; UINT32_MAX: an alarm */
    uint32_t step;  /* chosen by the algorithm */
    /* compared, not matched: the operation in the lowest byte, a value computed from the sizes in the others */
    uint32_t note;
} dma_net_tag_t;

#define DMA_NET_ADDRESS_MAX 16384 /* bytes */

/* Where a process is. Two hosts may have the same IPv4 address, such as that of a bridge for containers. A message to it never
 * leaves its sender's host. */
#define DMA_NET_PLACE_ADDRESSES 16
typedef struct dma_net_place {
    uint64_t space;         /* identifies the network stack: equal addresses in one are one address */
    uint32_t address_bytes; /* of what get_address returns, now and later, at most */
    /* IPv4: first those of the interfaces that the network uses, then others of the host; further ones are left out. */
    uint32_t naddresses, nhost_addresses;
    uint32_t addresses[DMA_NET_PLACE_ADDRESSES];
    uint32_t descriptors; /* that the process may still open; UINT32_MAX: connections cost none */
} dma_net_place_t;

typedef struct dma_net_ops {
    /* Opens the network for this process. DMA_UNSUPPORTED: there is no network. In the component it also registers a progress
     * callback: the network's progress and dma_proc_poll_notices must run while no call is in progress, too. */
    dma_status_t (*open)(void **net);
    /* Takes a bounded time, whatever the peers do. Sends that have ended are not lost; requests that are left end. */
    void (*close)(void *net);
    void (*get_place)(void *net, dma_net_place_t *place);
    /* Does without the interfaces that have these IPv4 addresses. Has no effect once get_address has been called, because peers
     * may have the address. DMA_UNSUPPORTED: no interface is left. */
    dma_status_t (*exclude)(void *net, const uint32_t *addresses, uint32_t n);
    /* From now on hosts with these IPv4 addresses may connect, too. To be called before a process there gets the address of this
     * one. DMA_ERR_NOMEM: they may not. DMA_UNSUPPORTED: they may, and so may all others, because the system does not keep them
     * out. */
    dma_status_t (*admit)(void *net, const uint32_t *addresses, uint32_t n);
    /* Whether this process has connected to `rank` in the communicator, so that messages to it cost no descriptor. */
    bool (*is_connected)(void *net, void *comm, int rank);
    /* What peers need to reach this process, at most DMA_NET_ADDRESS_MAX bytes; valid as long as `net`. */
    const void *(*get_address)(void *net, size_t *bytes);
    /* Whether TCP is the only transport between nodes: then the built-in network profile is that of TCP. */
    bool (*is_tcp_only)(void *net);
    /* A number that identifies this process within its job. */
    uint32_t (*process_id)(void);

    /* Exchange of addresses, which does not use this network: one message in each direction per pair of ranks and
     * communicator. The message may be shorter than the receive. address_test returns DMA_OK when the request has
     * completed, and sets *req to NULL. */
    dma_status_t (*address_send)(void *comm, const void *buf, size_t bytes, int rank, void **req);
    dma_status_t (*address_recv)(void *comm, void *buf, size_t bytes, int rank, void **req);
    dma_status_t (*address_test)(void *comm, void **req);

    /* Finds or creates the peer that is `rank` in the communicator. It lives as long as `net`. The first message to or from
     * the peer connects. */
    dma_status_t (*peer_create)(void *net, void *comm, int rank, const void *address, size_t bytes, void **peer);
    /* Whether the peer has closed its side in an orderly way, and so has not failed. */
    bool (*peer_closed)(void *net, void *peer);

    /* From now on this process keeps unexpected messages of the communicator. To be called before any peer sends one. */
    dma_status_t (*comm_register)(void *net, uint32_t comm, uint32_t owner);
    /* The communicator has ended or failed: unexpected messages for it are dropped, those here and those to come. A second
     * call has no effect. */
    void (*comm_unregister)(void *net, uint32_t comm, uint32_t owner);

    dma_status_t (*isend)(void *net, void *peer, const dma_net_tag_t *tag, const void *buf, size_t bytes, void **req);
    dma_status_t (*irecv)(void *net, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req);
    /* DMA_AGAIN, or the result of the request; then *req is NULL. */
    dma_status_t (*test)(void *net, void **req);
    /* Ends the request as soon as possible: a send ends when the peer makes progress. The request must still be tested. */
    void (*cancel)(void *net, void *req);
    /* Releases the buffer of the request within a second of progress. Unless the request has completed, this declares its peer
     * failed, on both sides: all requests of that peer end. The request must still be tested. */
    void (*abort)(void *net, void *req);
    void (*progress)(void *net);

    /* Writes the last error and the process it occurred with into `text`; without an error, `text` is left unchanged. */
    void (*last_error)(void *net, char *text, size_t bytes);
} dma_net_ops_t;

#endif
