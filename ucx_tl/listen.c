/*
 * The kernel's keepalive on connections that UCX accepts.
 *
 * Two processes that connect to each other share one connection, and UCX (at least 1.13) turns the keepalive on only on the
 * side that called connect. The other side would never detect a dead link. But an accepted socket inherits the options of the
 * listening socket, which UCX opens while it creates the worker. So the keepalive is turned on for all sockets that listen
 * after that and did not listen before. If another thread has begun to listen meanwhile, its connections get a keepalive too,
 * which does no harm.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "internal.h"

#define MOST_PROBES   12
#define KERNEL_PROBES 127   /* limit of the kernel */
#define MOST_SECONDS  32767 /* limit of the kernel */

uint32_t dma_ucx_count_descriptors_left(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct rlimit limit;
    rlim_t open = 0;

    if (!dir || getrlimit(RLIMIT_NOFILE, &limit)) {
        return 0;
    }
    while ((entry = readdir(dir))) {
        open += entry->d_name[0] != '.';
    }
    closedir(dir);
    open--; /* that of the folder has been counted */
    return limit.rlim_cur > open + INT32_MAX ? INT32_MAX
           : limit.rlim_cur > open           ? (uint32_t)(limit.rlim_cur - open)
                                             : 0;
}

/* The time before the first probe is short: the rest of the time is how long a link may be interrupted. */
dma_ucx_keepalive_t dma_ucx_keepalive_of(double seconds)
{
    int whole = seconds < 2 ? 2 : seconds < MOST_SECONDS ? (int)seconds : MOST_SECONDS;
    int idle = whole < 8 ? 1 : whole < 12 ? 2 : whole / 6, rest = whole - idle;
    int interval = (rest - 1) / MOST_PROBES + 1, count = rest / interval;

    return (dma_ucx_keepalive_t){
        .idle = whole - interval * count, .interval = interval, .count = count, .kernel_count = KERNEL_PROBES};
}

static bool is_listening(int fd)
{
    int on = 0, family = 0;
    socklen_t bytes = sizeof(on);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) || !on) {
        return false;
    }
    bytes = sizeof(family);
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) && (family == AF_INET || family == AF_INET6);
}

static void each_listener(dma_ucx_listeners_t *found, void (*visit)(dma_ucx_listeners_t *, int, void *), void *arg)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd < DMA_UCX_FDS && is_listening(fd)) {
            visit(found, fd, arg);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static void add_listener(dma_ucx_listeners_t *found, int fd, void *arg)
{
    (void)arg;
    found->fd[fd / 8] |= (unsigned char)(1u << fd % 8);
}

void dma_ucx_listeners_find(dma_ucx_listeners_t *found)
{
    memset(found, 0, sizeof(*found));
    each_listener(found, add_listener, NULL);
}

static bool is_new(const dma_ucx_listeners_t *before, int fd)
{
    return !(before->fd[fd / 8] >> fd % 8 & 1);
}

static void set_keepalive(dma_ucx_listeners_t *before, int fd, void *arg)
{
    const dma_ucx_keepalive_t *keepalive = arg;
    int on = 1;

    if (is_new(before, fd)) {
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive->idle, sizeof(int));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keepalive->interval, sizeof(int));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &keepalive->kernel_count, sizeof(int));
    }
}

void dma_ucx_listeners_set_keepalive(dma_ucx_listeners_t *before, const dma_ucx_keepalive_t *keepalive)
{
    dma_ucx_keepalive_t copy = *keepalive;

    each_listener(before, set_keepalive, &copy);
}

static void add_address(dma_ucx_listeners_t *before, int fd, void *arg)
{
    dma_ucx_stack_t *stack = arg;
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);

    if (is_new(before, fd) && stack->nports < DMA_UCX_PORTS && !getsockname(fd, (struct sockaddr *)&address, &bytes) &&
        dma_ucx_port_of(&address, &stack->ports[stack->nports])) {
        stack->ports[stack->nports++].fd = fd;
    }
}

void dma_ucx_listeners_find_addresses(dma_ucx_listeners_t *before, dma_ucx_stack_t *stack)
{
    each_listener(before, add_address, stack);
}
