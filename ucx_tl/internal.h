/*
 * Types and functions that the files of ucx_tl/ share.
 *
 * net->lock guards everything here, except what is atomic. UCX calls the callbacks of this layer only from within
 * ucp_worker_progress and while endpoints are closed, so always with the lock held. The callbacks only record what happened;
 * dma_ucx_progress_locked acts on it after ucp_worker_progress has returned.
 *
 *     a request     posted --------> started -------> completed    `completed` is the last store to a request, a release: the
 *                   a receive,       UCX has it                     caller of dma_ucx_test may free the request at once
 *                   in the table
 *
 *     a message     An expected message takes its receive out of the table `posted`. An unexpected one is kept in the table
 *                   `unexpected` until a receive takes it or its communicator is unregistered.
 *
 *     a peer        created -> connected -> failed or closed        never back: a process that failed once is not used again
 *                   goodbye of an unknown process -> closed         until it is created with the address of a new network
 *
 * Descriptors. A peer over TCP costs one: both processes create one endpoint for the other, and UCX joins the two into one
 * connection, also if both connect at the same time. The kernel's keepalive probes this connection only while no data is
 * outstanding on it; with data outstanding the kernel retransmits instead, at growing intervals, and so it does where a stopped
 * process has not taken its data. Where nothing comes for that reason, watch.c opens a connection that stays idle, one for a
 * host, and closes it when something comes again. watch.c decides what it means that nothing comes. If the user has set how
 * the kernel probes, watch.c does nothing. Only then each peer has a second endpoint, which stays idle.
 *
 * Without peers, UCX has two descriptors for each interface (its listener, and an epoll), one epoll for the worker, and four ends
 * of pipes for its thread.
 */
#ifndef DMA_UCX_TL_INTERNAL_H
#define DMA_UCX_TL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "calls.h"
#include "dma/clock.h"
#include "ucx_tl.h"

#define DMA_UCX_AM_ID 1 /* of the active messages of this layer */

typedef enum dma_ucx_kind {
    DMA_UCX_DATA = 1,
    DMA_UCX_HELLO,    /* makes every transport connect */
    DMA_UCX_GOODBYE,  /* the sender closes */
    DMA_UCX_ABORT,    /* the sender treats the receiver as failed */
    DMA_UCX_WITHDRAW, /* the sender has cancelled the send with this tag */
} dma_ucx_kind_t;

/* Sent in the byte order of the processors, which must be the same on all nodes of a job. */
typedef struct dma_ucx_header {
    dma_net_tag_t tag;
    uint32_t kind;
    uint64_t key; /* of the sender */
} dma_ucx_header_t;
_Static_assert(sizeof(dma_ucx_header_t) == 32, "the header has no holes");

/* An element of a table: a posted receive, an unexpected message, a registered communicator (only comm and owner are used), or
 * a peer (only its key is used). */
typedef struct dma_ucx_entry {
    dma_ucx_header_t header; /* key: the sender's */
    struct dma_ucx_entry *next;
} dma_ucx_entry_t;

/* A hash table with chains. The number of chains doubles to keep them short; without memory for that it stays. All zero is
 * an empty table. */
#define DMA_UCX_INLINE_CHAINS 256
typedef struct dma_ucx_table {
    dma_ucx_entry_t **array; /* the chains; NULL: inline_chains */
    uint32_t nchains;        /* of `array`, a power of 2 */
    uint32_t count;          /* of entries */
    dma_ucx_entry_t *inline_chains[DMA_UCX_INLINE_CHAINS];
} dma_ucx_table_t;

/* A message that has arrived and whose data has not been delivered. */
typedef struct dma_ucx_message {
    dma_ucx_entry_t entry;
    void *data; /* owned by UCX; NULL without bytes */
    size_t bytes;
    bool rndv;                    /* the data is still with the sender */
    dma_ucx_req_t *recv;          /* in the list `matched`: the receive; NULL: the message is to be freed */
    struct dma_ucx_message *next; /* in the list `matched` */
} dma_ucx_message_t;

struct dma_ucx_req {
    dma_ucx_entry_t entry; /* of a send: the header, which UCX reads until the message has left */
    dma_ucx_peer_t *peer;
    void *buffer;
    size_t bytes;
    bool send;
    bool started;   /* UCX has the request */
    bool abandoned; /* UCX has the request and may keep it until the worker is destroyed; nothing waits for that */
    dma_status_t status;
    _Atomic bool completed;
    dma_ucx_req_t *next; /* in the free list */
};

/* Probes of the kernel (keepalive), and the time without an answer after which a peer is gone: idle + count * interval equals
 * `seconds` rounded down, but at least 2. A link survives an interruption of less than half of this time, or from 5 s on less
 * than three quarters. The kernel itself gives a connection up after kernel_count probes. */
typedef struct dma_ucx_keepalive {
    int idle, interval, count, kernel_count; /* seconds, seconds, numbers of probes */
} dma_ucx_keepalive_t;

/* Requests are freed with the worker, not one by one: UCX may still have one that the caller has tested to its end. */
#define DMA_UCX_SLAB 64
typedef struct dma_ucx_slab {
    struct dma_ucx_slab *next;
    dma_ucx_req_t reqs[DMA_UCX_SLAB];
} dma_ucx_slab_t;

/* An IP address; IPv4 as in IPv6. */
typedef struct dma_ucx_ip {
    unsigned char bytes[16];
} dma_ucx_ip_t;

/* A place where a process listens. */
typedef struct dma_ucx_port {
    dma_ucx_ip_t ip;
    uint32_t port; /* in host byte order */
    int32_t fd;    /* of the listening socket, in its process */
} dma_ucx_port_t;

/* The IPv4 addresses of hosts that may connect. */
typedef struct dma_ucx_admitted {
    uint32_t *addresses, n;
    bool refused; /* the kernel takes no filter: everybody may */
} dma_ucx_admitted_t;

struct dma_ucx_peer {
    dma_ucx_entry_t entry; /* in peer_table */
    dma_ucx_t *net;
    void *address;         /* of its worker, until the peer is connected */
    dma_ucx_port_t *ports; /* that it can be reached at over TCP */
    uint32_t nports;
    ucp_ep_h ep;
    ucp_ep_h idle_ep;      /* NULL unless only the kernel watches */
    unsigned sends, recvs; /* started */
    _Atomic dma_status_t status;
    double deadline;             /* of a failed peer: until then UCX may end its requests */
    _Atomic bool closed;         /* the peer has said goodbye */
    uint64_t goodbye_hash;       /* only its goodbye is known: dma_ucx_address_hash of the address in it; otherwise 0 */
    dma_ucx_peer_t *next;        /* of all peers */
    dma_ucx_peer_t *next_failed; /* in the list `failed`, then in `draining` */
};

/* The objects of UCX. */
#define DMA_UCX_PORTS 32
typedef struct dma_ucx_stack {
    ucp_context_h context;
    ucp_worker_h worker;
    bool tcp, tcp_only;
    dma_net_place_t place;
    uint32_t nports;                     /* of `ports` */
    dma_ucx_port_t ports[DMA_UCX_PORTS]; /* where it listens on TCP; further ones are not watched */
    void *address;                       /* what peers get: nports, ports, and the address of the worker */
    size_t address_bytes;
} dma_ucx_stack_t;

/* The TCP connections to one remote address. */
typedef struct dma_ucx_path {
    dma_ucx_ip_t remote;
    uint32_t silent_ms; /* since something has come from there */
    uint32_t own_ms;    /* the same, on connections of this process except idle ones */
    bool waiting;       /* data sent to there have not been acknowledged */
    bool probed;        /* the kernel probes at least one of this process */
    bool has_idle;      /* this process has an idle connection to there */
} dma_ucx_path_t;

/* A connection to a peer's host that nothing is sent on. */
typedef struct dma_ucx_idle {
    dma_ucx_ip_t remote;
    int fd;
} dma_ucx_idle_t;

typedef struct dma_ucx_watch {
    dma_ucx_keepalive_t keepalive;
    uint32_t limit_ms; /* 0: only the kernel watches */
    double next;       /* check */
    double last_large; /* message that has been sent or received */
    dma_ucx_path_t *paths;
    uint32_t npaths, room;
    dma_ucx_idle_t *idle;
    uint32_t nidle;
} dma_ucx_watch_t;

struct dma_ucx {
    pthread_mutex_t lock;
    dma_ucx_config_t config;
    dma_ucx_stack_t ucx;
    dma_ucx_watch_t watch;
    bool address_given;          /* peers may have the address */
    dma_ucx_admitted_t admitted; /* if config.closed */
    dma_ucx_table_t posted, unexpected, comms, peer_table;
    dma_ucx_peer_t *peers;                 /* all in peer_table */
    dma_ucx_peer_t *failed;                /* peers whose endpoints are to be closed */
    dma_ucx_peer_t *draining;              /* failed peers that UCX may have requests of */
    const dma_ucx_peer_t *last_error_peer; /* NULL: there was no error */
    ucs_status_t last_error;
    dma_ucx_message_t *matched, **matched_tail; /* to be delivered or freed after progress */
    dma_ucx_req_t *free;
    dma_ucx_slab_t *slabs;
    dma_ucx_header_t hello, goodbye, abort; /* UCX reads them until they have left */
    unsigned completed;                     /* requests since dma_ucx_progress last returned */
    unsigned closing_eps;                   /* endpoints whose close is in progress */
    bool message_lost;                      /* there was no memory to keep a message */
};

/* match.c */
uint32_t dma_ucx_hash(const dma_ucx_header_t *header);
void dma_ucx_table_add(dma_ucx_table_t *table, dma_ucx_entry_t *entry);
/* Removes the oldest entry with this tag and key; NULL: there is none. */
dma_ucx_entry_t *dma_ucx_table_pop(dma_ucx_table_t *table, const dma_ucx_header_t *header);
/* The same, without removing it. */
dma_ucx_entry_t *dma_ucx_table_find(dma_ucx_table_t *table, const dma_ucx_header_t *header);
/* Returns whether the entry was there. */
bool dma_ucx_table_remove(dma_ucx_table_t *table, const dma_ucx_entry_t *entry);
/* Removes one entry for which `match` returns true; NULL: there is none. */
dma_ucx_entry_t *dma_ucx_table_pop_if(dma_ucx_table_t *table, bool (*match)(const dma_ucx_entry_t *, const void *),
                                      const void *arg);
/* Frees the chains. The entries belong to the caller. */
void dma_ucx_table_free(dma_ucx_table_t *table);

/* listen.c */
dma_ucx_keepalive_t dma_ucx_keepalive_of(double seconds);
/* A bit for each file descriptor that is a listening TCP socket. */
#define DMA_UCX_FDS 8192
typedef struct dma_ucx_listeners {
    unsigned char fd[DMA_UCX_FDS / 8];
} dma_ucx_listeners_t;
void dma_ucx_listeners_find(dma_ucx_listeners_t *found);
/* Turns the keepalive on for listening sockets that are not in `before`. */
void dma_ucx_listeners_set_keepalive(dma_ucx_listeners_t *before, const dma_ucx_keepalive_t *keepalive);
/* Their addresses. */
void dma_ucx_listeners_find_addresses(dma_ucx_listeners_t *before, dma_ucx_stack_t *stack);

/* place.c */
/* Returns whether it is an IP address. `bytes`: in network byte order. */
bool dma_ucx_ip_from(int family, const void *bytes, dma_ucx_ip_t *ip);
bool dma_ucx_ip_of(const struct sockaddr_storage *address, dma_ucx_ip_t *ip);
bool dma_ucx_port_of(const struct sockaddr_storage *address, dma_ucx_port_t *port);
bool dma_ucx_is_ipv4(const dma_ucx_ip_t *ip);
/* The other way round; returns the size of the address. */
socklen_t dma_ucx_address_of(const dma_ucx_port_t *port, struct sockaddr_storage *address);
/* Makes stack->address from stack->ports and the worker's address. */
dma_status_t dma_ucx_address_pack(dma_ucx_stack_t *stack, const void *worker_address, size_t bytes);
/* Takes such an address apart, into peer->ports and peer->address. */
dma_status_t dma_ucx_address_unpack(const void *address, size_t bytes, dma_ucx_peer_t *peer);
/* Of the whole address; not 0. A process that opens its network again has another address. */
uint64_t dma_ucx_address_hash(const void *address, size_t bytes);
/* Fills stack->place from the rest. */
void dma_ucx_place_fill(dma_ucx_stack_t *stack);
/* The number of descriptors that this process may open before its limit. */
uint32_t dma_ucx_count_descriptors_left(void);
/* Whether the interface is in a list like Open MPI's, of names and of networks such as 10.0.0.0/8. */
bool dma_ucx_interface_in(const char *interface, const char *list);
/* Whether the interface has one of these IPv4 addresses. */
bool dma_ucx_interface_has(const char *interface, const uint32_t *addresses, uint32_t n);
/* Whether it is a bridge that only containers and virtual machines of this host are connected to. */
bool dma_ucx_interface_is_inner(const char *interface);

/* message.c */
ucs_status_t dma_ucx_am_handler(void *net, const void *am_header, size_t header_bytes, void *data, size_t bytes,
                                const ucp_am_recv_param_t *param);
void dma_ucx_req_complete(dma_ucx_t *net, dma_ucx_req_t *req, dma_status_t status);
/* Completes the peer's requests that UCX does not end. */
void dma_ucx_peer_abandon_requests(dma_ucx_t *net, dma_ucx_peer_t *peer);
void dma_ucx_message_free(dma_ucx_t *net, dma_ucx_message_t *message);
/* Delivers or frees the messages in the list `matched`. */
void dma_ucx_start_matched(dma_ucx_t *net);

/* admit.c */
/* Only these may connect, unless the kernel refuses the filter. */
void dma_ucx_filter(const dma_ucx_stack_t *stack, dma_ucx_admitted_t *admitted);
/* Whether the kernel takes a filter; DMA_UNSUPPORTED: errno says why not. */
dma_status_t dma_ucx_try_filter(void);
/* Ends the connections that have been accepted. */
void dma_ucx_shut_accepted(const dma_ucx_stack_t *stack);

/* peer.c */
dma_ucx_peer_t *dma_ucx_peer_find(dma_ucx_t *net, uint64_t key);
/* A goodbye has arrived. A process that is not known yet becomes a peer that has closed: it is not connected any more, but its
 * messages that have arrived can be received. */
void dma_ucx_peer_closes(dma_ucx_t *net, const dma_ucx_header_t *goodbye);
/* DMA_UNSUPPORTED: UCX has no transport to the peer that detects its failure. */
dma_status_t dma_ucx_peer_connect(dma_ucx_peer_t *peer);
/* Sends a control message: goodbye and abort on the idle endpoint if there is one, whose only message this is. */
void dma_ucx_peer_send_control(dma_ucx_peer_t *peer, dma_ucx_kind_t kind);
/* Asks the peer to drop a message that it has not received yet. */
void dma_ucx_withdraw_send(const dma_ucx_req_t *send);
/* Marks the peer as failed; dma_ucx_close_failed_peers does the rest. */
void dma_ucx_peer_fail(dma_ucx_peer_t *peer, ucs_status_t reason);
void dma_ucx_set_last_error(const dma_ucx_peer_t *peer, ucs_status_t error);
void dma_ucx_peer_close(dma_ucx_peer_t *peer);
/* Lets UCX call back, and nothing more. */
void dma_ucx_poll(dma_ucx_t *net);

/* failed.c */
/* Closes the endpoints of peers that have failed and completes their requests. */
void dma_ucx_close_failed_peers(dma_ucx_t *net);

/* transports.c: transports to other nodes. UCP detects failures on those other than TCP by itself, the kernel on TCP. */
typedef struct dma_ucx_transports {
    bool tcp, other, ud_verbs; /* `other` counts ud_verbs too */
} dma_ucx_transports_t;
dma_ucx_transports_t dma_ucx_transports_query(ucp_context_h context);
/* Where the kernel lists devices of InfiniBand, RoCE and what else is used by verbs; and whether there is one. */
#define DMA_UCX_INFINIBAND "/sys/class/infiniband"
bool dma_ucx_has_infiniband(const char *folder);
/* Whether one of them has the driver mlx5. */
bool dma_ucx_has_mlx5(const char *folder);
/* From what ucp_context_print_info prints. The text is modified. */
dma_ucx_transports_t dma_ucx_transports_parse(char *text);
/* TCP interfaces that are not to be used. */
typedef struct dma_ucx_unwanted {
    const uint32_t *addresses; /* those that have one of these IPv4 addresses */
    uint32_t n;
    const char *include,
        *exclude; /* lists as for dma_ucx_interface_in; NULL: none. Those not in `include`; those in `exclude` */
} dma_ucx_unwanted_t;
/* The network devices without those that are not wanted and those that do not lead out of the host, for UCX_NET_DEVICES; and how
 * many that excludes. DMA_UNSUPPORTED: none is left that leads to another node, or they do not fit. */
#define DMA_UCX_DEVICES_BYTES 1024
dma_status_t dma_ucx_devices_without(ucp_context_h context, const dma_ucx_unwanted_t *unwanted,
                                     char devices[DMA_UCX_DEVICES_BYTES], unsigned *excluded);

/* What the context has, for users. `unwanted`: what is left out; NULL: nothing, because the user has named the devices. Returns how
 * many. */
unsigned dma_ucx_resources_list(ucp_context_h context, const dma_ucx_unwanted_t *unwanted,
                                dma_ucx_resource_t *resources, unsigned most);

/* net.c: a context to see which transports and devices there are. */
ucs_status_t dma_ucx_probe(const dma_ucx_t *net, const char *devices, ucp_context_h *context);
bool dma_ucx_user_names_devices(void);

/* watch.c */
#define DMA_UCX_LARGE 1024 /* bytes of a message that may fill a queue; announcements are smaller */
/* kernel_alone: the user has changed how the kernel probes, so this layer does not know what silence means. */
void dma_ucx_watch_init(dma_ucx_watch_t *watch, double seconds, bool kernel_alone);
/* Declares peers failed whose host is gone. Most calls do nothing. */
void dma_ucx_watch_peers(dma_ucx_t *net);
void dma_ucx_watch_free(dma_ucx_watch_t *watch);

/* progress.c */
void dma_ucx_progress_locked(dma_ucx_t *net);

#endif
