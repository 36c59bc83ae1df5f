/* What a process opens between nodes: interfaces, who may connect to it, and what it does if it may open no more files. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "libunit.h"
#include "ucx_tl.h"

static char reported[400];

static void keep_report(dma_report_t level, const char *topic, const char *text)
{
    (void)level;
    (void)topic;
    snprintf(reported, sizeof(reported), "%s", text);
}

static const dma_host_t host = {.report = keep_report};

static dma_ucx_t *create(dma_ucx_config_t config)
{
    dma_ucx_t *net;

    config.keepalive_seconds = 15;
    config.processes = config.local_processes = 1;
    config.host = &host;
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_OK);
    return net;
}

/* ---- interfaces ---- */

START_TEST(lists_of_interfaces)
{
    static const struct {
        const char *list;
        bool has_lo;
    } rows[] = {
        {"", false},
        {"lo", true},
        {"eth9,lo", true},
        {"lo,eth9", true},
        {"lo0,l", false},
        {"127.0.0.1", true},
        {"127.0.0.0/8", true},
        {"128.0.0.0/8", false},
        {"0.0.0.0/0", true},
        {"127.0.0.1/33", false},
        {"eth9,127.0.0.0/30", true},
        {"127.0.0.2/32", false},
        {"127.0.0,lo", true},
        {",,lo", true},
        {"127.0.0", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(dma_ucx_interface_in("lo", rows[i].list) == rows[i].has_lo, "%s", rows[i].list);
    }
}
END_TEST

static bool listens_on(const dma_ucx_t *net, uint32_t address)
{
    for (uint32_t i = 0; i < net->ucx.nports; i++) {
        if (!memcmp(net->ucx.ports[i].ip.bytes + 12, &address, 4)) {
            return true;
        }
    }
    return false;
}

/* There is no listener on the loopback interface, unless there is no other interface, and none where Open MPI's own
 * TCP has none. */
START_TEST(where_it_listens)
{
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1});
    uint32_t first = net->ucx.place.naddresses ? net->ucx.place.addresses[0] : 0;
    char text[INET_ADDRSTRLEN] = "";

    inet_ntop(AF_INET, &first, text, sizeof(text));
    ck_assert(listens_on(net, htonl(INADDR_LOOPBACK)) == !first);
    dma_ucx_destroy(net);
    if (!first) {
        puts("not tested: interfaces, because there is only the loopback interface");
        return;
    }
    net = create((dma_ucx_config_t){.key = 1, .include = text});
    ck_assert(listens_on(net, first) && net->ucx.nports == 1);
    dma_ucx_destroy(net);
    net = create((dma_ucx_config_t){.key = 1, .exclude = text});
    /* it is used nevertheless, because it is the only one */
    ck_assert(!listens_on(net, first) || net->ucx.place.naddresses == 1);
    dma_ucx_destroy(net);
}
END_TEST

/* ---- strangers ---- */

/* A connection to a listener of the process; -1 if nobody answers. */
static int knock(const dma_ucx_port_t *port)
{
    struct sockaddr_storage address;
    socklen_t bytes = dma_ucx_address_of(port, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    socklen_t error_bytes = sizeof(error);

    connect(fd, (struct sockaddr *)&address, bytes);
    if (poll(&wait, 1, 300) == 1 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) && !error) {
        return fd;
    }
    close(fd);
    return -1;
}

static bool is_open(dma_ucx_t *net)
{
    int fd = knock(&net->ucx.ports[0]);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Nobody may connect, then only the hosts that were named. */
START_TEST(only_who_is_admitted_connects)
{
    const uint32_t others[] = {htonl(0x0a000001), htonl(0x0a000002)};
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1, .closed = true}), *open = create((dma_ucx_config_t){.key = 2});
    uint32_t own;

    ck_assert(is_open(open));
    memcpy(&own, net->ucx.ports[0].ip.bytes + 12, sizeof(own)); /* the source address of the connections */
    ck_assert(dma_ucx_is_ipv4(&net->ucx.ports[0].ip));
    ck_assert(!is_open(net));
    ck_assert_int_eq(dma_ucx_admit(net, others, 2), DMA_OK);
    ck_assert(!is_open(net));
    ck_assert_int_eq(dma_ucx_admit(net, &own, 1), DMA_OK);
    ck_assert(is_open(net));
    ck_assert_int_eq(dma_ucx_admit(net, others, 2), DMA_OK);
    ck_assert(is_open(net));
    ck_assert_uint_eq(net->admitted.n, 3);
    dma_ucx_destroy(net);
    dma_ucx_destroy(open);
}
END_TEST

/* More hosts than a filter has room for: the first 24 bits of their addresses are compared, or the first 16. */
START_TEST(many_hosts)
{
    enum { HOSTS = 5000 };
    uint32_t *hosts = malloc(HOSTS * sizeof(*hosts)), own;
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1, .closed = true});

    memcpy(&own, net->ucx.ports[0].ip.bytes + 12, sizeof(own));
    for (uint32_t i = 0; i < HOSTS; i++) {
        hosts[i] = htonl(0xc6120000 + (i << (_i ? 8 : 1))); /* 198.18.0.0/15 and what follows; or 5000 networks */
    }
    ck_assert_int_eq(dma_ucx_admit(net, hosts, HOSTS), DMA_OK);
    ck_assert(!is_open(net));
    ck_assert_int_eq(dma_ucx_admit(net, &own, 1), DMA_OK);
    ck_assert(is_open(net));
    dma_ucx_destroy(net);
    free(hosts);
}
END_TEST

/* A host that connected before the filter was there. */
START_TEST(what_was_accepted_is_shut)
{
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1});
    int fd = knock(&net->ucx.ports[0]);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    double end = dma_now() + 120;
    char byte;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(poll(&wait, 1, 100), 0);
    do { /* UCX accepts it in a thread */
        dma_ucx_shut_accepted(&net->ucx);
    } while (poll(&wait, 1, 50) != 1 && dma_now() < end);
    ck_assert_int_le(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
    ck_assert(dma_now() < end);
    close(fd);
    dma_ucx_destroy(net);
}
END_TEST

/* ---- a kernel that takes no filter ---- */

static _Atomic bool refuses;

/* Takes the place of libc's. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    if (refuses && level == SOL_SOCKET && name == SO_ATTACH_FILTER) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, bytes);
}

START_TEST(a_filter_is_refused)
{
    const uint32_t other = htonl(0x0a000001), another = htonl(0x0a000002);
    const dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 1, .local_processes = 1};
    static dma_ucx_found_t found;
    dma_ucx_t *net;

    ck_assert_int_eq(dma_ucx_inspect(&config, &found), DMA_OK);
    ck_assert_str_eq(found.filter_why, "");
    refuses = true;
    net = create((dma_ucx_config_t){.key = 1, .closed = true});
    ck_assert_int_eq(dma_ucx_inspect(&config, &found), DMA_OK);
    ck_assert_str_eq(found.filter_why, strerror(EPERM));
    ck_assert_int_eq(dma_ucx_admit(net, &other, 1), DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_ucx_admit(net, &other, 1), DMA_UNSUPPORTED);
    ck_assert(is_open(net));
    refuses = false;
    ck_assert_int_eq(dma_ucx_admit(net, &another, 1), DMA_OK);
    ck_assert(!is_open(net));
    dma_ucx_destroy(net);
}
END_TEST

/* ---- a descriptor that UCX closes, and whose number the application gets ---- */

static _Atomic int taken = -1, takes; /* the number, and what the application has there; -1: nothing happens */

/* dup2; ThreadSanitizer would see a race with UCX's thread, which has opened the number. */
static int renumber(int from, int to)
{
    return (int)syscall(SYS_dup3, from, to, O_CLOEXEC);
}

/* Takes the place of libc's. The number changes hands when its address has been looked at. */
int getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    int result = (int)syscall(SYS_getsockname, fd, address, bytes);
    struct sockaddr_storage own, other;
    socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);

    if (taken >= 0 && !result && !getpeername(fd, (struct sockaddr *)&own, &own_bytes) &&
        !getpeername(taken, (struct sockaddr *)&other, &other_bytes) && own_bytes == other_bytes &&
        !memcmp(&own, &other, own_bytes)) {
        ck_assert_int_eq(renumber(takes, taken), taken);
        taken = -1;
    }
    return result;
}

/* The socket that UCX has accepted from `fd`; UCX does that in a thread. */
static int accepted_from(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_bytes = sizeof(own), peer_bytes;
    double end = dma_now() + 60;

    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&own, &own_bytes), 0);
    while (dma_now() < end) {
        for (int other = 0; other < 1024; other++) {
            peer_bytes = sizeof(peer);
            if (!getpeername(other, (struct sockaddr *)&peer, &peer_bytes) && peer_bytes == own_bytes &&
                !memcmp(&peer, &own, own_bytes)) {
                return other;
            }
        }
        usleep(1000);
    }
    ck_abort_msg("UCX does not accept");
}

START_TEST(a_number_changes_hands)
{
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1});
    int fd = knock(&net->ucx.ports[0]), pair[2], number, accepted;
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    takes = pair[0];
    number = accepted_from(fd);
    accepted = fcntl(number, F_DUPFD_CLOEXEC, 0);
    taken = number;
    dma_ucx_shut_accepted(&net->ucx);
    ck_assert_int_eq(taken, -1);
    ck_assert_int_eq(send(pair[1], "", 1, MSG_NOSIGNAL), 1); /* the application's is open */
    ck_assert_int_eq(poll(&wait, 1, 10000), 1);              /* the stranger's is shut */
    ck_assert_int_eq(renumber(accepted, number), number);    /* UCX has not really closed it */
    dma_ucx_destroy(net);
    close(accepted);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}
END_TEST

/* UCX stops to listen where it gets no descriptor for a connection. */
START_TEST(a_listeners_number_changes_hands)
{
    const uint32_t other = htonl(0x0a000001);
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1, .closed = true});
    int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), number = net->ucx.ports[0].fd, listener = dup(number);
    socklen_t instructions = 0;

    ck_assert_int_ge(own, 0);
    ck_assert_int_eq(dup2(own, number), number);
    dma_ucx_admit(net, &other, 1);
    ck_assert_int_eq(getsockopt(own, SOL_SOCKET, SO_GET_FILTER, NULL, &instructions), 0);
    ck_assert_uint_eq(instructions, 0);
    ck_assert_int_eq(dup2(listener, number), number);
    close(own);
    close(listener);
    dma_ucx_destroy(net);
}
END_TEST

/* ---- limits ---- */

/* From now on this number of files can be opened. The limit is about descriptor numbers, so all free ones below the
 * highest are taken. */
static void leave(uint32_t descriptors)
{
    int highest = 0, fd, any;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    any = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(any, 0);
    for (fd = 0; fd < 4096; fd++) {
        highest = fcntl(fd, F_GETFD) >= 0 ? fd : highest;
    }
    while ((fd = fcntl(any, F_DUPFD, 0)) < highest) {
    }
    close(fd);
    limit.rlim_cur = (rlim_t)highest + 1 + descriptors;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_le(dma_ucx_count_descriptors_left(), descriptors); /* UCX may accept a connection in between */
}

START_TEST(too_few_to_begin)
{
    dma_ucx_config_t config = {.keepalive_seconds = 15, .processes = 1, .local_processes = 1, .host = &host};
    dma_ucx_t *net;

    leave(DMA_UCX_DESCRIPTORS - 1);
    ck_assert_int_eq(dma_ucx_create(&config, &net), DMA_UNSUPPORTED);
    ck_assert_msg(strstr(reported, "too many open files"), "%s", reported);
}
END_TEST

/* UCX would end the process */
START_TEST(too_few_to_connect)
{
    const dma_net_tag_t tag = {.comm = 1};
    dma_ucx_t *net = create((dma_ucx_config_t){.key = 1}), *other = create((dma_ucx_config_t){.key = 2});
    size_t bytes;
    const void *address = dma_ucx_get_address(other, &bytes);
    dma_ucx_peer_t *peer;
    dma_ucx_req_t *req;

    ck_assert_int_eq(dma_ucx_peer_create(net, 2, address, bytes, &peer), DMA_OK);
    ck_assert(!dma_ucx_is_connected(net, 2) && !dma_ucx_is_connected(net, 3));
    leave((uint32_t)_i);
    if (_i < 6) {
        ck_assert_int_eq(dma_ucx_isend(net, peer, &tag, NULL, 0, &req), DMA_ERR_PEER);
        ck_assert_msg(strstr(reported, "too many open files"), "%s", reported);
    } else {
        ck_assert_int_eq(dma_ucx_isend(net, peer, &tag, NULL, 0, &req), DMA_OK);
        ck_assert(dma_ucx_is_connected(net, 2));
    }
    leave(100); /* the next test may run in the same process */
    dma_ucx_destroy(net);
    dma_ucx_destroy(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl_open");

    unit_test(suite, lists_of_interfaces, 4);
    unit_test(suite, where_it_listens, 20);
    unit_test(suite, only_who_is_admitted_connects, 20);
    unit_loop(suite, many_hosts, 0, 2, 20);
    unit_test(suite, what_was_accepted_is_shut, 20);
    unit_test(suite, a_filter_is_refused, 20);
    unit_test(suite, a_number_changes_hands, 80);
    unit_test(suite, a_listeners_number_changes_hands, 20);
    unit_test(suite, too_few_to_begin, 10);
    unit_loop(suite, too_few_to_connect, 0, 8, 20);
    return unit_main(suite);
}
