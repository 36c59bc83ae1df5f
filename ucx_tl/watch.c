/*
 * Whether the hosts of peers are there, over TCP.
 *
 * The rule. A peer is gone when for `keepalive_seconds` nothing has come from one of its addresses, neither data nor an
 * acknowledgement, on any TCP connection of any process of this host. Where all connections are idle, the answers to the
 * kernel's probes come.
 *
 * Where other peers' links are slow as well, the silent peer may be waiting behind them in a queue, and gets up to PATIENCE
 * times as long. The signs are that this process has sent or received a large message within the time, or that an address
 * which is alive has not acknowledged all data.
 *
 * So bytes that move are evidence of life, whoever they belong to. A probe that is not answered is no evidence of death: on a
 * slow link, probes and acknowledgements wait for many seconds behind the data of other processes, or are dropped because the
 * queue is full. What this cannot detect has another end: the host of a process that has ended closes its connections.
 *
 *     own connections        quiet for half the time?        all connections of the host        quiet for all of it?
 *     (/proc/self/fd,   ----------------------------->  (the kernel's socket monitoring,  ---------------------------> failed
 *      TCP_INFO)                                          NETLINK_SOCK_DIAG)
 *                                                                |
 *                                                                | quiet for half the time?
 *                                                                v
 *                                                        an idle connection
 *
 * If the kernel does not say which connections the host has, only those of this process count.
 *
 * Idle connections. The kernel probes only connections without outstanding data. A peer that is stopped does not take its data,
 * and then the kernel tries again at intervals that grow to minutes. So where nothing has come for half the time, this process
 * opens a connection to the peer's listener and sends nothing on it. The host of a stopped process answers its SYN and its
 * probes. A host that refuses the connection is there, too. The connection is closed when something comes on another one, or
 * when the peers there have failed. So it costs a descriptor for each host, and only meanwhile. UCX drops a connection that
 * closes without a byte.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

#define LONGEST_PAUSE    0.5 /* seconds between two checks, */
#define CHECKS_PER_LIMIT 8   /* at least so many before a peer counts as gone */
#define PATIENCE         4
#define ANSWER_BYTES     16384

static dma_ucx_path_t *find_path(const dma_ucx_watch_t *watch, const dma_ucx_ip_t *remote)
{
    for (uint32_t i = 0; i < watch->npaths; i++) {
        if (!memcmp(&watch->paths[i].remote, remote, sizeof(*remote))) {
            return &watch->paths[i];
        }
    }
    return NULL;
}

/* Without memory, a path is not watched. */
static dma_ucx_path_t *add_path(dma_ucx_watch_t *watch, const dma_ucx_ip_t *remote)
{
    dma_ucx_path_t *path = find_path(watch, remote);
    uint32_t room = watch->room ? 2 * watch->room : 16;

    if (!path && watch->npaths == watch->room) {
        if (!(path = realloc(watch->paths, room * sizeof(*path)))) {
            return NULL;
        }
        watch->paths = path;
        watch->room = room;
        path = NULL;
    }
    if (!path) {
        path = &watch->paths[watch->npaths++];
        *path = (dma_ucx_path_t){.remote = *remote, .silent_ms = UINT32_MAX, .own_ms = UINT32_MAX};
    }
    return path;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void count_evidence(dma_ucx_path_t *path, const struct tcp_info *info)
{
    path->waiting = path->waiting || info->tcpi_unacked;
    path->silent_ms = least(path->silent_ms, least(info->tcpi_last_data_recv, info->tcpi_last_ack_recv));
}

static dma_ucx_idle_t *find_idle(const dma_ucx_watch_t *watch, int fd)
{
    for (uint32_t i = 0; i < watch->nidle; i++) {
        if (watch->idle[i].fd == fd) {
            return &watch->idle[i];
        }
    }
    return NULL;
}

/* ---- the connections of this process ---- */

static bool has_option(int fd, int level, int name, int expected)
{
    int value = -1;
    socklen_t bytes = sizeof(value);

    return !getsockopt(fd, level, name, &value, &bytes) && value == expected;
}

/* Only what the kernel probes as this layer has asked for can be expected to receive something. */
static bool is_probed(int fd, const dma_ucx_keepalive_t *keepalive)
{
    return has_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && has_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive->idle) &&
           has_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive->interval) &&
           has_option(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive->kernel_count);
}

static void look_at_own(dma_ucx_watch_t *watch, int fd)
{
    struct tcp_info info = {0};
    struct sockaddr_storage peer;
    socklen_t info_bytes = sizeof(info), peer_bytes = sizeof(peer);
    dma_ucx_path_t *path;
    dma_ucx_ip_t remote;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes) || info.tcpi_state != TCP_ESTABLISHED ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) || !dma_ucx_ip_of(&peer, &remote) ||
        !(path = add_path(watch, &remote))) {
        return;
    }
    count_evidence(path, &info);
    if (!find_idle(watch, fd)) {
        path->own_ms = least(path->own_ms, least(info.tcpi_last_data_recv, info.tcpi_last_ack_recv));
        path->probed = path->probed || is_probed(fd, &watch->keepalive);
    }
}

static void look_at_own_connections(dma_ucx_watch_t *watch)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    watch->npaths = 0;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            look_at_own(watch, atoi(entry->d_name));
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* ---- the connections of all processes ---- */

/* The kernel's answer about one connection. */
static void look_at(dma_ucx_watch_t *watch, const struct nlmsghdr *message)
{
    const struct inet_diag_msg *diag = NLMSG_DATA(message);
    int left = (int)message->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*diag));
    dma_ucx_path_t *path;
    dma_ucx_ip_t remote;

    dma_ucx_ip_from(diag->idiag_family, diag->id.idiag_dst, &remote);
    if (!(path = find_path(watch, &remote))) {
        return;
    }
    for (struct rtattr *attr = (struct rtattr *)(diag + 1); RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
        struct tcp_info info = {0};

        if (attr->rta_type == INET_DIAG_INFO) {
            memcpy(&info, RTA_DATA(attr), RTA_PAYLOAD(attr) < sizeof(info) ? RTA_PAYLOAD(attr) : sizeof(info));
            count_evidence(path, &info);
        }
    }
}

/* Reads the answers; returns when the kernel has no more, or cannot answer. */
static void read_answers(dma_ucx_watch_t *watch, int fd)
{
    _Alignas(struct nlmsghdr) char buffer[ANSWER_BYTES];
    ssize_t bytes;

    while ((bytes = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
        unsigned left = (unsigned)bytes;

        for (struct nlmsghdr *message = (struct nlmsghdr *)buffer; NLMSG_OK(message, left);
             message = NLMSG_NEXT(message, left)) {
            if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
                return; /* the end, or an error */
            }
            look_at(watch, message);
        }
    }
}

static void look_at_connections_of(dma_ucx_watch_t *watch, unsigned char family)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } ask = {
        .header = {.nlmsg_len = sizeof(ask),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                    .idiag_states = 1 << TCP_ESTABLISHED},
    };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0) {
        return;
    }
    if (send(fd, &ask, sizeof(ask), 0) == sizeof(ask)) {
        read_answers(watch, fd);
    }
    close(fd);
}

/* ---- idle connections ---- */

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* A port of a peer at this address, or NULL. */
static const dma_ucx_port_t *find_port(const dma_ucx_t *net, const dma_ucx_ip_t *ip)
{
    for (const dma_ucx_peer_t *peer = net->peers; peer; peer = peer->next) {
        for (uint32_t i = 0; i < peer->nports && peer->ep; i++) {
            if (!memcmp(&peer->ports[i].ip, ip, sizeof(*ip))) {
                return &peer->ports[i];
            }
        }
    }
    return NULL;
}

/* Without a descriptor or memory there is none. */
static void open_idle(dma_ucx_watch_t *watch, const dma_ucx_port_t *port)
{
    const dma_ucx_keepalive_t *keepalive = &watch->keepalive;
    dma_ucx_idle_t *idle = realloc(watch->idle, (watch->nidle + 1) * sizeof(*idle));
    struct sockaddr_storage address;
    socklen_t bytes = dma_ucx_address_of(port, &address);
    int fd;

    if (!idle) {
        return;
    }
    watch->idle = idle;
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive->idle);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive->interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive->kernel_count);
    connect(fd, (const struct sockaddr *)&address, bytes); /* its error is read later */
    watch->idle[watch->nidle++] = (dma_ucx_idle_t){.remote = port->ip, .fd = fd};
}

static void close_idle(dma_ucx_watch_t *watch, uint32_t i)
{
    close(watch->idle[i].fd);
    watch->idle[i] = watch->idle[--watch->nidle];
}

/* Closes idle connections that have ended or are not needed any more. A host that refuses one is alive. */
static void look_at_idle(dma_ucx_t *net, dma_ucx_watch_t *watch)
{
    for (uint32_t i = watch->nidle; i-- > 0;) {
        dma_ucx_path_t *path = find_path(watch, &watch->idle[i].remote);
        int error = 0;
        socklen_t bytes = sizeof(error);

        getsockopt(watch->idle[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (path) {
            path->has_idle = true;
            path->silent_ms = error == ECONNREFUSED || error == ECONNRESET ? 0 : path->silent_ms;
        }
        if (error || !path || path->own_ms <= watch->limit_ms / 2 || !find_port(net, &watch->idle[i].remote)) {
            close_idle(watch, i);
        }
    }
}

/* One more for each address that nothing comes from. */
static void open_idles(dma_ucx_t *net, dma_ucx_watch_t *watch)
{
    for (uint32_t i = 0; i < watch->npaths; i++) {
        const dma_ucx_path_t *path = &watch->paths[i];
        const dma_ucx_port_t *port;

        if (path->probed && path->silent_ms > watch->limit_ms / 2 && !path->has_idle &&
            (port = find_port(net, &path->remote))) {
            open_idle(watch, port);
        }
    }
}

void dma_ucx_watch_free(dma_ucx_watch_t *watch)
{
    while (watch->nidle) {
        close_idle(watch, watch->nidle - 1);
    }
    free(watch->idle);
    free(watch->paths);
}

/* ---- the rule ---- */

/* Whether something should have come from there, and nothing has for this time. */
static bool is_silent(const dma_ucx_path_t *path, uint32_t ms)
{
    return path->probed && path->silent_ms > ms;
}

static bool is_any_silent(const dma_ucx_watch_t *watch, uint32_t ms)
{
    uint32_t i = 0;

    while (i < watch->npaths && !is_silent(&watch->paths[i], ms)) {
        i++;
    }
    return i < watch->npaths;
}

static bool is_slow(const dma_ucx_watch_t *watch, double now)
{
    bool slow = 1000 * (now - watch->last_large) < watch->limit_ms;

    for (uint32_t i = 0; i < watch->npaths; i++) {
        slow = slow || (watch->paths[i].waiting && watch->paths[i].silent_ms < watch->limit_ms);
    }
    return slow;
}

static void fail_peers_at(dma_ucx_t *net, const dma_ucx_ip_t *ip)
{
    for (dma_ucx_peer_t *peer = net->peers; peer; peer = peer->next) {
        for (uint32_t i = 0; i < peer->nports && peer->ep; i++) {
            if (!memcmp(&peer->ports[i].ip, ip, sizeof(*ip))) {
                dma_ucx_peer_fail(peer, UCS_ERR_ENDPOINT_TIMEOUT);
            }
        }
    }
}

void dma_ucx_watch_init(dma_ucx_watch_t *watch, double seconds, bool kernel_alone)
{
    dma_ucx_keepalive_t keepalive = dma_ucx_keepalive_of(seconds);

    if (kernel_alone) {
        keepalive.kernel_count = keepalive.count;
    }
    *watch = (dma_ucx_watch_t){
        .keepalive = keepalive,
        .limit_ms = kernel_alone ? 0 : 1000 * (uint32_t)(keepalive.idle + keepalive.interval * keepalive.count)};
}

void dma_ucx_watch_peers(dma_ucx_t *net)
{
    dma_ucx_watch_t *watch = &net->watch;
    double now = dma_now(), pause = 0.001 * watch->limit_ms / CHECKS_PER_LIMIT;
    uint32_t limit;

    if (!watch->limit_ms || !net->peers || now < watch->next) {
        return;
    }
    watch->next = now + (pause < LONGEST_PAUSE ? pause : LONGEST_PAUSE);
    look_at_own_connections(watch);
    look_at_idle(net, watch);
    if (is_any_silent(watch, watch->limit_ms / 2)) {
        look_at_connections_of(watch, AF_INET);
        look_at_connections_of(watch, AF_INET6);
        open_idles(net, watch);
    }
    limit = is_slow(watch, now) ? PATIENCE * watch->limit_ms : watch->limit_ms;
    for (uint32_t i = 0; i < watch->npaths; i++) {
        if (is_silent(&watch->paths[i], limit)) {
            fail_peers_at(net, &watch->paths[i].remote);
        }
    }
}
