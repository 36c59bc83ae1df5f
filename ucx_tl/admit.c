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
 * takes none, the listeners have no filter.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

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

static bool attach(const dma_ucx_stack_t *stack, const struct sock_filter *code, unsigned length)
{
    struct sock_fprog program = {.len = (unsigned short)length, .filter = (struct sock_filter *)code};
    bool good = true;

    for (uint32_t i = 0; i < stack->nports; i++) {
        if (dma_ucx_is_ipv4(&stack->ports[i].ip)) {
            good = !setsockopt(stack->ports[i].fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) && good;
        }
    }
    return good;
}

static void detach(const dma_ucx_stack_t *stack)
{
    for (uint32_t i = 0; i < stack->nports; i++) {
        setsockopt(stack->ports[i].fd, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0);
    }
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

void dma_ucx_filter(const dma_ucx_stack_t *stack, const dma_ucx_admitted_t *admitted)
{
    static const uint32_t masks[] = {0xffffffff, 0xffffff00, 0xffff0000};
    size_t i = 0;

    while (i < sizeof(masks) / sizeof(masks[0]) && !attach_with(stack, admitted, masks[i])) {
        i++;
    }
    if (i == sizeof(masks) / sizeof(masks[0])) {
        detach(stack);
    }
}

static bool is_accepted_at(int fd, const dma_ucx_stack_t *stack)
{
    struct sockaddr_storage peer, own;
    socklen_t peer_bytes = sizeof(peer), own_bytes = sizeof(own);
    dma_ucx_port_t at;
    bool found = false;

    if (getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) ||
        getsockname(fd, (struct sockaddr *)&own, &own_bytes) || !dma_ucx_port_of(&own, &at)) {
        return false;
    }
    for (uint32_t i = 0; i < stack->nports; i++) {
        found = found || (at.port == stack->ports[i].port && !memcmp(&at.ip, &stack->ports[i].ip, sizeof(at.ip)));
    }
    return found;
}

void dma_ucx_shut_accepted(const dma_ucx_stack_t *stack)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.' && is_accepted_at(atoi(entry->d_name), stack)) {
            shutdown(atoi(entry->d_name), SHUT_RDWR);
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
    pthread_mutex_unlock(&net->lock);
    return DMA_OK;
}
