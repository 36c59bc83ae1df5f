/*
 * The kernel's keepalive on connections that UCX accepts.
 *
 * Two processes that connect to each other share one connection, and UCX (1.13 at least) turns the keepalive on only on the
 * side that called connect; the other would never notice that the link is dead. But an accepted socket inherits the
 * options of the listening one, and UCX opens that while it makes the worker. So: what listens now and did not before.
 * Should another thread have begun to listen meanwhile, its connections get a keepalive that does them no harm.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"

/* The idle time is as short as that leaves an idle link quiet: what remains is how long a link may be interrupted. */
#define MOST_PROBES  12
#define MOST_SECONDS 32767 /* the kernel's */

dma_net_probes_t dma_net_probes(double seconds)
{
    int whole = seconds < 2 ? 2 : seconds < MOST_SECONDS ? (int)seconds : MOST_SECONDS;
    int idle = whole < 8 ? 1 : whole < 12 ? 2 : whole / 6, rest = whole - idle;
    int interval = (rest - 1) / MOST_PROBES + 1, count = rest / interval;

    return (dma_net_probes_t){.idle = whole - interval * count, .interval = interval, .count = count};
}

static bool listens(int fd)
{
    int on = 0, family = 0;
    socklen_t bytes = sizeof(on);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) || !on) {
        return false;
    }
    bytes = sizeof(family);
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) && (family == AF_INET || family == AF_INET6);
}

static void each_listener(dma_net_listeners_t *found, void (*visit)(dma_net_listeners_t *, int, const void *),
                          const void *arg)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd < DMA_NET_FDS && listens(fd)) {
            visit(found, fd, arg);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static void remember(dma_net_listeners_t *found, int fd, const void *arg)
{
    (void)arg;
    found->fd[fd / 8] |= (unsigned char)(1u << fd % 8);
}

void dma_net_listeners(dma_net_listeners_t *found)
{
    memset(found, 0, sizeof(*found));
    each_listener(found, remember, NULL);
}

static void watch(dma_net_listeners_t *before, int fd, const void *arg)
{
    const dma_net_probes_t *probes = arg;
    int on = 1;

    if (!(before->fd[fd / 8] >> fd % 8 & 1)) {
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probes->idle, sizeof(int));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probes->interval, sizeof(int));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes->count, sizeof(int));
    }
}

void dma_net_watch_new_listeners(dma_net_listeners_t *before, double seconds)
{
    dma_net_probes_t probes = dma_net_probes(seconds);

    each_listener(before, watch, &probes);
}
