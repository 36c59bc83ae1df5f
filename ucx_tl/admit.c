/*
 * Who may connect.
 *
 * UCX accepts every connection that begins with a number which is public, and then takes addresses to write to from it. It has no
 * place for a secret. So the kernel turns connections away: a filter on UCX's listening sockets drops the first segment (SYN)
 * of each connection that does not come from a host of the job. UCX never sees it. Sockets that are accepted inherit the
 * filter, which lets their other segments pass.
 *
 *     worker created   nobody may connect; what has connected between listen() and the filter is shut down
 *     set-up           dma_ucx_admit: the hosts of the communicator are added before anybody has an address of this process
 *
 * Addresses of this host are never among them, unless two of the job's nodes share a host, so no other user of this host can
 * connect. What this leaves: users of the job's other hosts. Listeners of interfaces that have only IPv6 have no filter.
 *
 * A filter has a limited size. Where the job has more addresses than fit, their first 24 or 16 bits are compared. If the kernel
 * takes none, the listeners have no filter, and dma_ucx_admit says so.
 *
 * Descriptors belong to UCX, which may close one at any time, and the application may then get its number. So nothing is done to a
 * number: what it stands for is looked at first, in a duplicate of an accepted socket because that is shut down.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define MOST_ADDRESSES 2000 /* two instructions each, of 4096 */
#define TCP_FLAGS_AT   13
#define TCP_SYN        2
#define SOURCE_AT      12 /* in the IPv4 header */

/* The program: pass what is no SYN, then what comes from one of the addresses. */
static unsigned write_filter(struct sock_filter *code, const uint32_t *addresses, uint32_t n, uint32_t mask)
{
    const struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), drop = BPF_STMT(BPF_RET | BPF_K, 0);
    unsigned at = 0;

    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT);
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TCP_SYN, 1, 0);
    code[at++] = pass;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + SOURCE_AT);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask);
    for (uint32_t i = 0; i < n; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(addresses[i]) & mask, 0, 1);
        code[at++] = pass;
    }
    code[at++] = drop;
    return at;
}

/* Adds an address unless there is one with the same first bits. */
static uint32_t add(uint32_t *addresses, uint32_t n, uint32_t address, uint32_t mask)
{
    for (uint32_t i = 0; i < n; i++) {
        if (((addresses[i] ^ address) & htonl(mask)) == 0) {
            return n;
        }
    }
    addresses[n] = address;
    return n + 1;
}

/* Whether `fd` is a socket with the address of this listener: the listener itself, or a connection that it has accepted. */
static bool is_at(int fd, const dma_ucx_port_t *port)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own);
    dma_ucx_port_t at;

    return !getsockname(fd, (struct sockaddr *)&own, &bytes) && dma_ucx_port_of(&own, &at) && at.port == port->port &&
           !memcmp(&at.ip, &port->ip, sizeof(at.ip));
}

/* UCX stops to listen where it gets no descriptor. */
static bool still_listens(const dma_ucx_port_t *port)
{
    int on = 0;
    socklen_t bytes = sizeof(on);

    return !getsockopt(port->fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) && on && is_at(port->fd, port);
}

static bool attach_to(int fd, const struct sock_filter *code, unsigned length)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = (struct sock_filter *)code};

    return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static bool attach(const dma_ucx_stack_t *stack, const struct sock_filter *code, unsigned length)
{
    bool good = true;

    for (uint32_t i = 0; i < stack->nports; i++) {
        const dma_ucx_port_t *port = &stack->ports[i];

        if (dma_ucx_is_ipv4(&port->ip) && still_listens(port)) {
            good = attach_to(port->fd, code, length) && good;
        }
    }
    return good;
}

static void detach(const dma_ucx_stack_t *stack)
{
    for (uint32_t i = 0; i < stack->nports; i++) {
        if (still_listens(&stack->ports[i])) {
            setsockopt(stack->ports[i].fd, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0);
        }
    }
}

dma_status_t dma_ucx_try_filter(void)
{
    struct sock_filter code[8];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    dma_status_t status =
        fd >= 0 && attach_to(fd, code, write_filter(code, NULL, 0, UINT32_MAX)) ? DMA_OK : DMA_UNSUPPORTED;
    int error = errno;

    if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return status;
}

static bool attach_with(const dma_ucx_stack_t *stack, const dma_ucx_admitted_t *admitted, uint32_t mask)
{
    struct sock_filter *code = malloc((2 * MOST_ADDRESSES + 6) * sizeof(*code));
    uint32_t *some = malloc(MOST_ADDRESSES * sizeof(*some)), n = 0, i = 0;
    bool good = code && some;

    while (good && i < admitted->n && n < MOST_ADDRESSES) {
        n = add(some, n, admitted->addresses[i++], mask);
    }
    good = good && i == admitted->n && attach(stack, code, write_filter(code, some, n, mask));
    free(code);
    free(some);
    return good;
}

void dma_ucx_filter(const dma_ucx_stack_t *stack, dma_ucx_admitted_t *admitted)
{
    static const uint32_t masks[] = {0xffffffff, 0xffffff00, 0xffff0000};
    size_t i = 0;

    while (i < sizeof(masks) / sizeof(masks[0]) && !attach_with(stack, admitted, masks[i])) {
        i++;
    }
    admitted->refused = i == sizeof(masks) / sizeof(masks[0]);
    if (admitted->refused) {
        detach(stack);
    }
}

static bool is_accepted_at(int fd, const dma_ucx_stack_t *stack)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    bool found = false;

    if (getpeername(fd, (struct sockaddr *)&peer, &bytes)) {
        return false;
    }
    for (uint32_t i = 0; i < stack->nports && !found; i++) {
        found = is_at(fd, &stack->ports[i]);
    }
    return found;
}

static bool is_socket(int fd)
{
    int type;
    socklen_t bytes = sizeof(type);

    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
}

/* Only sockets are duplicated: closing a duplicate of a file gives up the application's locks on it. */
static void shut_if_accepted(int fd, const dma_ucx_stack_t *stack)
{
    int held = is_socket(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (held < 0) {
        return;
    }
    if (is_accepted_at(held, stack)) {
        shutdown(held, SHUT_RDWR);
    }
    close(held);
}

void dma_ucx_shut_accepted(const dma_ucx_stack_t *stack)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            shut_if_accepted(atoi(entry->d_name), stack);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

dma_status_t dma_ucx_admit(dma_ucx_t *net, const uint32_t *addresses, uint32_t n)
{
    dma_ucx_admitted_t *admitted = &net->admitted;
    uint32_t *more, before;
    dma_status_t status;

    if (!net->config.closed) {
        return DMA_OK;
    }
    pthread_mutex_lock(&net->lock);
    more = realloc(admitted->addresses, (admitted->n + n) * sizeof(*more) + 1);
    if (!more) {
        pthread_mutex_unlock(&net->lock);
        return DMA_ERR_NOMEM;
    }
    admitted->addresses = more;
    before = admitted->n;
    for (uint32_t i = 0; i < n; i++) {
        admitted->n = add(more, admitted->n, addresses[i], UINT32_MAX);
    }
    if (!net->address_given) {
        dma_ucx_shut_accepted(&net->ucx); /* whoever has connected does not know the address from us */
    }
    if (admitted->n > before) {
        dma_ucx_filter(&net->ucx, admitted);
    }
    status = admitted->refused ? DMA_UNSUPPORTED : DMA_OK;
    pthread_mutex_unlock(&net->lock);
    return status;
}
