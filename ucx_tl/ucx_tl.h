/*
 * Messages between processes of different nodes, over UCX.
 *
 * A dma_ucx_t is the network as this process uses it: a UCP context and one worker, created when the first communicator
 * over several nodes needs them. A dma_ucx_peer_t is another process. Its endpoint is created with the first message
 * to or from it. So memory grows with the number of peers that exchange messages, and not with the job. The caller
 * exchanges the addresses.
 *
 * A message is sent with a tag and matches a receive with the same tag from the same peer; equal tags match in the
 * order in which they are sent. UCX does not promise an order between active messages. They keep their order here
 * because all begin on one lane of UCX: this layer sets MAX_EAGER_RAILS to 1, whatever the user's environment says.
 * With two rails, fragments of one message could overtake another message. Rendezvous messages use all rails for their
 * data; their order is that of their RTS messages, which are small.
 *
 * The tag travels in full, with a note and the sender's key, in the active message header:
 *
 *     0        4        8        12       16       20       24           32
 *     | comm   | owner  | seq    | step   | note   | kind   | sender key |  data ...
 *
 *     comm    the number of the communicator, chosen by the owner
 *     owner   a process that the ranks of the communicator have agreed on
 *     seq     the call's sequence number modulo 2^31 - 1; UINT32_MAX: an alarm
 *     step    chosen by the algorithm
 *     note    not matched, but compared: the operation in the lowest byte, a value made from the sizes in the others
 *     kind    data, or a control message of this layer: hello, goodbye, abort, withdraw. In a goodbye, comm and owner are a hash
 *             of the sender's address
 *
 * A message for a communicator that is not registered here (dma_ucx_comm_register) is dropped when it arrives.
 *
 * If the message has another size than the receive, the receive ends with DMA_ERR_TRUNCATE; if it has another operation, with
 * DMA_ERR_MISMATCH. In both cases no byte is written. This can be decided before data moves because the messages are UCP active
 * messages, not UCP tagged messages. (The sender gets no error, or with newer versions of UCX DMA_ERR_TRUNCATE.) For the same
 * reason a receive from a failed peer can always be ended: UCX does not know the buffer until the message is there, as data or
 * as an RTS.
 *
 * Failure. Only evidence counts: an error of an endpoint, silence of the peer's host over TCP although the kernel probes it
 * (watch.c has the rule), or a keepalive that the peer's adapter does not answer. A link that is slow is not silent. A
 * process that is stopped has not failed, however long it is stopped; UD is an exception, see below. Both
 * sides have an endpoint. So both sides detect a failure within `keepalive_seconds` (see dma_ucx_config_t), also a rank
 * that only receives. Then all requests of that peer that are not complete end with DMA_ERR_PEER, and so do all later
 * ones. Messages that had arrived as a whole can still be received.
 *
 * Limits of failure detection. Over TCP, a link that dies while a connection is being made is detected only by the kernel's
 * retries, after two minutes or more. A connection that alone is dead, while others to the same host are not, is given up after
 * 127 probes of the kernel if it is idle. If the user sets UCX_TCP_KEEPIDLE, UCX_TCP_KEEPINTVL or UCX_TCP_KEEPCNT, the kernel
 * alone decides, and a slow link may count as dead. Over InfiniBand UD,
 * acknowledgements need the peer's process: a process that is stopped for longer than UCX_UD_*_TIMEOUT (30 s) counts as failed.
 *
 * Threads: all functions may be called from any thread, except create and destroy. One lock guards the worker;
 * dma_ucx_progress returns at once if another thread holds the lock. `report` is called with the lock held.
 */
#ifndef DMA_UCX_TL_H
#define DMA_UCX_TL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"
#include "dma/net.h"
#include "dma/status.h"

typedef struct dma_ucx dma_ucx_t;
typedef struct dma_ucx_peer dma_ucx_peer_t;
typedef struct dma_ucx_req dma_ucx_req_t;

typedef struct dma_ucx_config {
    uint64_t key; /* identifies this process, different from all others */
    /* A dead link is detected after this time, at most 1 s later; at least 2. Up to four times as long while other links of this
     * host are slow or this process exchanges large messages with others. A link survives an interruption of less than half of
     * this time, or from 5 s on less than three quarters. */
    double keepalive_seconds;
    /* Processes of the job, and of this node, at least 1. With many, UCX prefers transports that need little memory for each. */
    size_t processes, local_processes;
    /* Only hosts that dma_ucx_admit has named may connect over TCP and IPv4. */
    bool closed;
    /* TCP interfaces to be used alone, and not to be used, unless the user has set UCX_NET_DEVICES: names and networks such as
     * 10.0.0.0/8, with commas between them. NULL or empty: no such wish. They live as long as `net`. */
    const char *include, *exclude;
    const dma_host_t *host; /* only `report` is used; may be NULL */
} dma_ucx_config_t;

/* DMA_UNSUPPORTED: UCX cannot start; the reason is reported.
 * Fewer than DMA_UCX_DESCRIPTORS may be opened before the limit: also DMA_UNSUPPORTED.
 * Environment: UCX_* as in any program that uses UCX, COLL_DMA_UCX_* for this worker alone. Without UCX_TLS there, UCX's
 * transports over shared memory are left out. */
#define DMA_UCX_DESCRIPTORS 24
dma_status_t dma_ucx_create(const dma_ucx_config_t *config, dma_ucx_t **net);

/* A transport over a device. `unused`: why no message takes it, or NULL. */
typedef struct dma_ucx_resource {
    char transport[24], device[40];
    const char *unused;
} dma_ucx_resource_t;

#define DMA_UCX_RESOURCES 64

typedef struct dma_ucx_found {
    unsigned version[3]; /* of the library that is used at run time; 0: there is none */
    bool by_user;        /* the user has named the devices, so that none is excluded */
    bool tcp_only;       /* TCP is the only transport between nodes */
    char filter_why[64]; /* why the kernel takes no filter of connections over TCP; "": it takes one */
    unsigned n;
    dma_ucx_resource_t resources[DMA_UCX_RESOURCES];
    char why[200]; /* it cannot be used */
} dma_ucx_found_t;

/* What dma_ucx_create would use on this node alone; addresses that other hosts have too are known in a job only. Creates no worker
 * and no connection. DMA_UNSUPPORTED: found->why says why. */
dma_status_t dma_ucx_inspect(const dma_ucx_config_t *config, dma_ucx_found_t *found);

/* Local, and bounded in time whatever the peers do: waits up to DMA_UCX_DESTROY_SECONDS for sends in progress, says goodbye to
 * the peers, and closes. Requests that have not been tested to completion end here. A send that has completed before is at its
 * receiver, or in memory that the receiver keeps, and is not lost. A send that has not completed is lost if the receiver makes
 * no progress for that time. */
void dma_ucx_destroy(dma_ucx_t *net);
#define DMA_UCX_DESTROY_SECONDS 2.0

/* See dma_net_ops_t. If the user has named the interfaces (UCX_NET_DEVICES), none of them is excluded. */
void dma_ucx_get_place(dma_ucx_t *net, dma_net_place_t *place);
dma_status_t dma_ucx_exclude(dma_ucx_t *net, const uint32_t *addresses, uint32_t n);

/* See dma_net_ops_t and admit.c. DMA_ERR_NOMEM: not all of these hosts can connect. DMA_UNSUPPORTED: everybody can. */
dma_status_t dma_ucx_admit(dma_ucx_t *net, const uint32_t *addresses, uint32_t n);

/* What peers need to reach this process; valid as long as `net`. */
const void *dma_ucx_get_address(dma_ucx_t *net, size_t *bytes);

/* Whether TCP is the only transport between nodes. */
bool dma_ucx_is_tcp_only(const dma_ucx_t *net);

/* Finds or creates the peer with this key. Does not connect. The peer lives as long as `net`. A process that has closed this
 * network before is not connected; what it has sent can be received. */
dma_status_t dma_ucx_peer_create(dma_ucx_t *net, uint64_t key, const void *address, size_t bytes,
                                 dma_ucx_peer_t **peer);
/* Whether the peer with this key exists and has been connected. */
bool dma_ucx_is_connected(dma_ucx_t *net, uint64_t key);
/* Whether the peer has said goodbye: it has closed and has not failed. Already true when its requests end because of
 * that. */
bool dma_ucx_peer_closed(const dma_ucx_peer_t *peer);
/* The last error, in UCX's words, and the peer that it occurred with; NULL: there was none. */
const char *dma_ucx_last_error(dma_ucx_t *net, uint64_t *key);

/* The buffer belongs to the network until a test has returned the result of the request. If these functions return an error,
 * there is no request.
 *
 * Sends to one peer leave in order, however many they are, and none waits for the receive of another: the receiver may post
 * receives in any order. The caller limits the number of sends in progress. */
dma_status_t dma_ucx_isend(dma_ucx_t *net, dma_ucx_peer_t *peer, const dma_net_tag_t *tag, const void *buffer,
                           size_t bytes, dma_ucx_req_t **req);
dma_status_t dma_ucx_irecv(dma_ucx_t *net, dma_ucx_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes,
                           dma_ucx_req_t **req);

/* DMA_AGAIN, or the result: then the request is freed and *req is NULL. Takes the lock only if the request is complete. Makes
 * no progress. */
dma_status_t dma_ucx_test(dma_ucx_t *net, dma_ucx_req_t **req);

/* For a communicator that has failed. A receive without a message ends with DMA_ERR_NET. A send that the peer has not received
 * yet ends, with any status, when the peer's process next makes progress; of several sends with the same tag, cancel all.
 * Others end by themselves. The request must still be tested. */
void dma_ucx_cancel(dma_ucx_t *net, dma_ucx_req_t *req);

/* The caller needs the buffer now: unless the request is complete, its peer counts as failed from now on, on both sides, and
 * every request of that peer ends within DMA_UCX_GRACE_SECONDS of progress. UCX can take an operation back only by closing the
 * endpoint. */
void dma_ucx_abort(dma_ucx_t *net, dma_ucx_req_t *req);
#define DMA_UCX_GRACE_SECONDS 0.5

/* From now on unexpected messages of the communicator are kept until they are received. To be called before any process sends
 * a message of the communicator to this process. */
dma_status_t dma_ucx_comm_register(dma_ucx_t *net, uint32_t comm, uint32_t owner);
/* The communicator has ended or failed: its unexpected messages are dropped, those here and those to come. */
void dma_ucx_comm_unregister(dma_ucx_t *net, uint32_t comm, uint32_t owner);

/* Makes progress; returns how many requests have completed. Never waits. */
unsigned dma_ucx_progress(dma_ucx_t *net);

#endif
