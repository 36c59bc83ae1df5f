/*
 * Messages between processes of different nodes, over UCX.
 *
 * A dma_net_t is this process on the network: a UCP context and one worker, made when the first communicator that spans
 * nodes needs it. A dma_net_peer_t is another process; its endpoint is made with the first message to or from it, so
 * nothing here grows faster than the number of peers talked to. How a peer's address comes here is the caller's business.
 *
 * A message is sent with a tag and received with the same tag from the same peer; equal tags match in the order in which
 * they are sent. UCX promises no order between active messages; they keep it because all begin on one lane, so UCX gets one
 * rail for what it sends at once (MAX_EAGER_RAILS), also where the user wants more: on two, the parts of one message overtake
 * another. What goes by rendezvous uses all rails; its order is that of its promises, which are small messages.
 *
 * The tag travels in full, with a note and the sender's key, in a header of our own:
 *
 *     0        4        8        12       16       20       24           32
 *     | comm   | owner  | seq    | step   | note   | kind   | sender key |  data ...
 *
 *     comm    the communicator's number among those of
 *     owner   a process that its ranks have agreed on
 *     seq     the low 32 bits of the call's sequence number: a window of 2^32 calls, in which it wraps
 *     step    what the algorithm counts
 *     note    what both sides must agree on, not matched but compared: the lowest byte the operation, the others what
 *             belongs to the size
 *     kind    a message, or one of our own: hello, goodbye, given up, taken back
 *
 * A message whose communicator has not been joined here, or has been left, is given back as it comes.
 *
 * A message of another size than the receive was posted for ends it with DMA_ERR_TRUNCATE, one with another operation with
 * DMA_ERR_MISMATCH, and not one byte is written. That can be told before any data moves because the messages are UCP's
 * active messages, not its tagged ones. (The sender is not told, or with DMA_ERR_TRUNCATE by a newer UCX.) It is also why a
 * receive whose sender is gone can always be ended: until its message is there, whole or as a promise, UCX does not know the
 * buffer.
 *
 * Failure. Only evidence counts: an error of an endpoint, or a keepalive that the peer's *kernel* or adapter no longer
 * answers. A process that is stopped is not gone, however long. Both sides keep endpoints, so both notice, also a rank
 * that only receives, within `keepalive_seconds` (see dma_net_config_t). Then every request of that peer that is not
 * complete ends with DMA_ERR_PEER, and so do all later ones; messages that had arrived whole can still be received.
 *
 * Limits of that. Over TCP a link that dies while a connection is being made is noticed by the kernel's own retries only,
 * after two minutes or more. Where UCX has other networks beside TCP but uses TCP, its own keepalive keeps the idle
 * connection busy, and the side that sends may take a quarter of an hour (exclude what is not used with UCX_TLS). Over
 * InfiniBand's UD, acknowledgements need the peer's process: one that is stopped for longer than UCX_UD_*_TIMEOUT (30 s)
 * is taken for dead.
 *
 * Threads: any function from any thread, but for create and destroy. One lock guards the worker; dma_net_progress leaves
 * at once when another thread is in it. No lock is held while a function of the caller's runs.
 */
#ifndef DMA_UCX_TL_H
#define DMA_UCX_TL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"
#include "dma/status.h"

typedef struct dma_net dma_net_t;
typedef struct dma_net_peer dma_net_peer_t;
typedef struct dma_net_req dma_net_req_t;

/* Where a buffer is. */
typedef enum dma_net_memory {
    DMA_NET_HOST,
    DMA_NET_ROCM,
    DMA_NET_CUDA,
} dma_net_memory_t;

typedef struct dma_net_config {
    uint64_t key;        /* names this process, different from every other of the job */
    const char *devices; /* UCX_NET_DEVICES for this process (its rail), or NULL: what the environment or UCX says */
    /* A link that is dead is noticed after this long, at most 1 s later; >= 2. An interruption of less than half of it, from
     * 5 on three quarters, is survived. */
    double keepalive_seconds;
    /* How many processes there may be to talk to, and how many on each node: UCX takes transports that do with little for each
     * of them where there are many. */
    size_t processes, local_processes;
    const dma_host_t *host; /* only `report` is used; may be NULL */

    /* Writes the address of the process named `key`, as dma_net_address gave it there, into `address` (room for
     * DMA_NET_ADDRESS_MAX bytes). Asked once per peer, for peers that were named without one. May be NULL. */
    dma_status_t (*lookup)(void *arg, uint64_t key, void *address, size_t *bytes);
    /* A peer is gone that had not said goodbye, or that owed or was owed a message. Once per peer, from dma_net_progress,
     * never with a lock held. May be NULL. */
    void (*failed)(void *arg, dma_net_peer_t *peer, dma_status_t status);
    void *arg;
} dma_net_config_t;

#define DMA_NET_ADDRESS_MAX 16384

void dma_net_config_default(dma_net_config_t *config);

/* DMA_UNSUPPORTED: UCX cannot start here; reported with its reason.
 * Environment: UCX_* as everywhere, COLL_DMA_UCX_* for this worker alone. */
dma_status_t dma_net_create(const dma_net_config_t *config, dma_net_t **net);

/* Local, and bounded in time whatever the peers do: gives what is under way DMA_NET_DESTROY_SECONDS to leave, says
 * goodbye and closes. Requests that were not tested to their end end here. A send that has ended before is with its receiver,
 * or in memory that the receiver keeps, and not lost; one that has not is, if its receiver does nothing for so long. */
void dma_net_destroy(dma_net_t *net);
#define DMA_NET_DESTROY_SECONDS 2.0

/* What peers need to reach this process; lives as long as `net`. */
const void *dma_net_address(const dma_net_t *net, size_t *bytes);

/* UCX has no other network here. */
bool dma_net_over_tcp(const dma_net_t *net);

/* UCX reads and writes such memory itself; otherwise the caller stages through host memory. */
bool dma_net_can(const dma_net_t *net, dma_net_memory_t memory);

/* Finds or makes the peer. `address` may be NULL: then config.lookup is asked. Makes no connection yet. The peer lives
 * as long as `net`. */
dma_status_t dma_net_peer(dma_net_t *net, uint64_t key, const void *address, size_t bytes, dma_net_peer_t **peer);
/* Connects now instead of with the first message. DMA_UNSUPPORTED: no transport that notices a dead peer reaches it; a
 * message would then end with DMA_ERR_PEER. */
dma_status_t dma_net_connect(dma_net_t *net, dma_net_peer_t *peer);
/* DMA_OK, or why it counts as gone. */
dma_status_t dma_net_peer_status(const dma_net_peer_t *peer);
/* It has said goodbye: it has closed, and was not lost. True before any of its requests end because of that. */
bool dma_net_peer_left(const dma_net_peer_t *peer);
uint64_t dma_net_peer_key(const dma_net_peer_t *peer);
/* What went wrong last between here and a peer, in UCX's words; NULL: nothing has. */
const char *dma_net_trouble(dma_net_t *net, uint64_t *key);

typedef struct dma_net_tag {
    uint32_t comm, owner, seq, step; /* matched */
    uint32_t note;                   /* compared */
} dma_net_tag_t;

/* Post. The buffer is the network's until the request has been tested to its end. An error is also possible here at once,
 * and then there is no request.
 *
 * Sends to one peer leave in order, however many they are, and none waits for another's receive: which of its calls a
 * receiver comes to first is its business. How much is under way is the sender's. */
dma_status_t dma_net_isend(dma_net_t *net, dma_net_peer_t *peer, const dma_net_tag_t *tag, const void *buffer,
                           size_t bytes, dma_net_memory_t memory, dma_net_req_t **req);
dma_status_t dma_net_irecv(dma_net_t *net, dma_net_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes,
                           dma_net_memory_t memory, dma_net_req_t **req);

/* DMA_AGAIN, or how it ended: then the request is gone and *req is NULL. Takes no lock unless it has ended; no progress. */
dma_status_t dma_net_test(dma_net_t *net, dma_net_req_t **req);

/* For a communicator that has failed: ends a receive that has no message yet with DMA_ERR_NET. A send that its peer has not
 * received yet ends, in whatever way, when the peer's process next moves its network on; of several with the same tag, cancel
 * all. Those under way end by themselves. The request must still be tested. */
void dma_net_cancel(dma_net_t *net, dma_net_req_t *req);

/* The buffer is needed now: unless the request has ended, its peer counts as gone from here on, on both sides, and every request
 * of that peer ends within DMA_NET_GRACE_SECONDS of progress. UCX takes nothing back that it has begun but by closing an
 * endpoint. */
void dma_net_give_up(dma_net_t *net, dma_net_req_t *req);
#define DMA_NET_GRACE_SECONDS 0.5

/* Before anybody sends a message for the communicator to this process: now it is kept until it is received. */
dma_status_t dma_net_join(dma_net_t *net, uint32_t comm, uint32_t owner);
/* It is over, or has failed: messages for it that nobody has posted a receive for are given back, now and when they come. */
void dma_net_leave(dma_net_t *net, uint32_t comm, uint32_t owner);

/* Moves everything on; returns how many requests ended. Never waits. */
unsigned dma_net_progress(dma_net_t *net);

/* Requests posted and not ended: no progress is needed on their behalf while this is 0. */
unsigned dma_net_active(const dma_net_t *net);

#endif
