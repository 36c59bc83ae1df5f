/*
 * Peers that die, stop, or close early, and links that fail. A rank that waits for a peer that has ended gets an error
 * within the time that ucx_tl.h promises, on both sides and whatever was under way. All other ranks go on. A process
 * that is only stopped is not taken for dead.
 */
#include <check.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../ucx/procs.h"
#include "internal.h"
#include "libunit.h"

static const char *const transports[] = {"tcp", "posix,sysv"};
#define TRANSPORTS 2

#define KEEPALIVE 2.0
/* The keepalive, the second by which it may be late, and time for a busy machine. */
#define BOUND (KEEPALIVE + 1 + 3)

#define LARGE ((size_t)4 << 20)

enum { GO, DEAD, DONE };

static dma_ucx_req_t *post(proc_t *p, bool send, int peer, uint32_t comm, uint32_t seq, void *buffer, size_t bytes)
{
    dma_net_tag_t tag = {.comm = comm, .seq = seq};
    dma_ucx_req_t *req = NULL;
    dma_status_t status = send ? dma_ucx_isend(p->net, p->peers[peer], &tag, buffer, bytes, &req)
                               : dma_ucx_irecv(p->net, p->peers[peer], &tag, buffer, bytes, &req);

    must(p, status == DMA_OK || status == DMA_ERR_PEER, "post: %s", dma_status_name(status));
    return req;
}

static void exchange(proc_t *p, int other, uint32_t seq, char *buffer, size_t bytes)
{
    dma_ucx_req_t *in = post(p, false, other, 1, seq, buffer, bytes), *out;
    dma_status_t status;

    proc_fill(buffer + bytes, bytes, seq * 2 + (uint32_t)p->rank);
    out = post(p, true, other, 1, seq, buffer + bytes, bytes);
    status = in ? proc_wait(p, &in, 30) : DMA_ERR_PEER;
    must(p, status == DMA_OK, "receive %u: %s", seq, dma_status_name(status));
    must(p, proc_right(buffer, bytes, seq * 2 + (uint32_t)other), "wrong data");
    status = out ? proc_wait(p, &out, 30) : DMA_ERR_PEER;
    must(p, status == DMA_OK, "send %u: %s", seq, dma_status_name(status));
}

#define FLOW 12

/* Rank 2 is killed while messages of all sizes are under way to and from it. The others notice, and go on together. */
static void killed(proc_t *p)
{
    const int *how = p->arg;
    size_t sizes[] = {0, 3000, 60000, 300000, LARGE, 100};
    char *buffer = calloc(2, LARGE);
    dma_ucx_req_t *reqs[4 * FLOW] = {NULL};
    int posted = 0;
    double start;

    for (uint32_t i = 0; i < FLOW; i++) {
        for (int other = p->rank == 2 ? 0 : 2; other < (p->rank == 2 ? 2 : 3); other++) {
            size_t bytes = sizes[(i + (uint32_t)*how) % 6];

            reqs[posted++] = post(p, true, other, 7, i, buffer, bytes);
            /* Rank 2 does not post every other receive, so that rendezvous messages stay open. */
            if (p->rank != 2 || i % 2) {
                reqs[posted++] = post(p, false, other, 7, i, buffer + LARGE, bytes);
            }
        }
        proc_turn(p);
    }
    /* Messages that never come, too. */
    if (p->rank < 2) {
        reqs[posted++] = post(p, false, 2, 7, 1000, buffer + LARGE, 8);
    }
    if (p->rank == 2) {
        for (double end = proc_now() + 0.001 * (double)proc_random(p, 60); proc_now() < end;) {
            proc_turn(p);
        }
        atomic_store(&p->shared->flag[DEAD], 1);
        kill(getpid(), SIGKILL);
    }
    while (!atomic_load(&p->shared->flag[DEAD])) {
        proc_turn(p);
    }
    start = proc_patience(p);
    for (int i = 0; i < posted; i++) {
        dma_status_t status = reqs[i] ? proc_wait(p, &reqs[i], BOUND) : DMA_ERR_PEER;

        must(p, status == DMA_OK || status == DMA_ERR_PEER, "request %d of %d: %s; %d peers have failed", i, posted,
             dma_status_name(status), proc_failures(p));
        must(p, i < posted - 1 || status == DMA_ERR_PEER, "the last: %s", dma_status_name(status));
    }
    must(p, proc_patience(p) - start < BOUND, "known after %.1f s", proc_patience(p) - start);
    must(p, proc_failures(p) == 1, "%d peers have failed", proc_failures(p));
    must(p, proc_peer_status(p, 2) == DMA_ERR_PEER, "the peer counts as alive");
    must(p, !dma_ucx_peer_closed(p->peers[2]), "it has left in peace");
    must(p, !post(p, true, 2, 8, 0, buffer, 8), "a send to the dead");
    must(p, !proc_requests(p), "%u left", proc_requests(p));
    p->n = 2;
    for (uint32_t i = 0; i < 5; i++) {
        exchange(p, 1 - p->rank, i, buffer, i * 100000);
    }
    proc_barrier(p);
    free(buffer);
}

START_TEST(a_peer_is_killed)
{
    int how = _i;
    procs_spec_t spec = {
        .n = 3, .tls = transports[_i % TRANSPORTS], .keepalive = KEEPALIVE, .killed = 4, .seconds = 30, .arg = &how};

    ck_assert_int_eq(procs_run(&spec, killed), 0);
}
END_TEST

/* Until the kernel has cleaned up. */
static void quiet(proc_t *p)
{
    for (double end = proc_now() + 0.5; proc_now() < end;) {
        proc_turn(p);
    }
    proc_barrier(p);
}

/* A rank that only receives, before anything has arrived: its own endpoint reports the error. */
static void killed_before_the_first(proc_t *p)
{
    char byte = 0;
    dma_ucx_req_t *req;
    dma_status_t status;

    if (p->rank == 1) {
        /* As many messages as a connection needs. */
        while (!atomic_load(&p->shared->flag[GO])) {
            proc_turn(p);
        }
        kill(getpid(), SIGKILL);
    }
    req = post(p, false, 1, 1, 1, &byte, 1);
    must(p, proc_wait(p, &req, 0.5) == DMA_AGAIN, "too early");
    atomic_store(&p->shared->flag[GO], 1);
    status = proc_wait(p, &req, BOUND);
    must(p, status == DMA_ERR_PEER, "%s", dma_status_name(status));
    must(p, proc_failures(p) == 1, "%d peers have failed", proc_failures(p));
}

START_TEST(a_sender_dies_before_it_sends)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .keepalive = KEEPALIVE, .killed = 2, .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, killed_before_the_first), 0);
}
END_TEST

/* A message that had arrived as a whole can be received after the death of its sender. */
static void legacy(proc_t *p)
{
    char small[100];
    dma_ucx_req_t *req;

    if (p->rank == 1) {
        proc_fill(small, sizeof(small), 5);
        req = post(p, true, 0, 1, 1, small, sizeof(small));
        must(p, proc_wait(p, &req, 5) == DMA_OK, "not sent");
        while (!atomic_load(&p->shared->flag[GO])) {
            proc_turn(p);
        }
        kill(getpid(), SIGKILL);
    }
    must(p, proc_connect(p, 1) == DMA_OK, "not connected");
    for (double end = proc_now() + 0.5; proc_now() < end;) {
        proc_turn(p);
    }
    atomic_store(&p->shared->flag[GO], 1);
    for (double end = proc_patience(p) + BOUND; !proc_failures(p) && proc_patience(p) < end;) {
        proc_turn(p);
    }
    must(p, proc_failures(p) == 1, "%d peers have failed", proc_failures(p));
    req = post(p, false, 1, 1, 1, small, sizeof(small));
    must(p, req && proc_wait(p, &req, 1) == DMA_OK && proc_right(small, sizeof(small), 5), "the message is lost");
    must(p, !post(p, false, 1, 1, 2, small, 1), "another is awaited");
}

START_TEST(a_message_outlives_its_sender)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .keepalive = KEEPALIVE, .killed = 2, .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, legacy), 0);
}
END_TEST

/* The sender leaves before its receiver has done anything, so there is no connection when it posts. What it has
 * posted may take DMA_UCX_DESTROY_SECONDS to leave. A send that has ended is never lost, however late the receiver
 * is. */
static void hasty(proc_t *p)
{
    const bool *waits = p->arg;
    enum { BYTES = 100000, N = 4 };
    static const uint64_t lengths[N] = {0, 8, 5000, BYTES};
    static char buffer[N][BYTES];
    dma_ucx_req_t *req;

    for (uint32_t i = 0; p->rank == 1 && i < N; i++) {
        proc_fill(buffer[i], lengths[i], i);
        req = post(p, true, 0, 1, i, buffer[i], lengths[i]);
        must(p, req && (!*waits || proc_wait(p, &req, 10) == DMA_OK), "send %u", i);
    }
    usleep(p->rank == 1 ? 0 : *waits ? 2500000 : 700000);
    for (uint32_t i = 0; p->rank == 0 && i < N; i++) {
        req = post(p, false, 1, 1, i, buffer[i], lengths[i]);
        must(p, req && proc_wait(p, &req, 10) == DMA_OK, "message %u is lost", i);
        must(p, proc_right(buffer[i], lengths[i], i), "message %u is wrong", i);
    }
}

START_TEST(a_sender_leaves_before_it_is_connected)
{
    bool waits = _i / TRANSPORTS;
    procs_spec_t spec = {
        .n = 2, .tls = transports[_i % TRANSPORTS], .keepalive = KEEPALIVE, .seconds = 20, .arg = &waits};

    ck_assert_int_eq(procs_run_often(waits ? 1 : 4, &spec, hasty), 0); /* on a busy machine, other sends may be lost */
}
END_TEST

/* A peer that leaves regularly while another rank still needs it has failed. If no rank needs it, it has not. */
static void leaver(proc_t *p)
{
    char byte = 0;
    dma_ucx_req_t *req;

    must(p, proc_connect(p, 1 - p->rank) == DMA_OK, "not connected");
    proc_barrier(p);
    req = post(p, p->rank != 0, 1 - p->rank, 1, 1, &byte, 1);
    must(p, req && proc_wait(p, &req, 10) == DMA_OK, "the first message");
    if (p->rank == 1) {
        return;
    }
    req = post(p, false, 1, 1, 2, &byte, 1);
    /* Refused at once, or reported later. */
    if (req) {
        dma_status_t status = proc_wait(p, &req, BOUND);

        must(p, status == DMA_ERR_PEER, "a receive from one who has left: %s", dma_status_name(status));
    }
    must(p, proc_peer_status(p, 1) == DMA_ERR_PEER, "it counts as there");
    must(p, dma_ucx_peer_closed(p->peers[1]), "its goodbye is lost");
}

START_TEST(a_peer_leaves_too_early)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .keepalive = KEEPALIVE, .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, leaver), 0);
}
END_TEST

/* A network of our own, whose only link can be taken down. */
static bool own_network(void)
{
    return !unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET);
}

static bool link_up(bool up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &request);

    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    good = good && !ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return good;
}

static void await_stop(pid_t pid)
{
    char path[64], state = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (state != 'T') {
        FILE *file = fopen(path, "r");

        ck_assert(file && fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        usleep(1000);
    }
}

/* A peer is stopped for several times the keepalive (arg), with more under way than the kernel buffers: it is late,
 * not dead. */
static void stopped(proc_t *p)
{
    enum { N = 400, BYTES = 60000 };
    char *buffer = malloc((size_t)N * 2 * BYTES);
    dma_ucx_req_t *in[N], *out[N];
    double start;

    for (uint32_t i = 0; i < 5; i++) {
        exchange(p, 1 - p->rank, i, buffer, 50000);
    }
    proc_barrier(p);
    if (p->rank == 1) {
        raise(SIGSTOP);
    } else {
        await_stop(p->shared->pid[1]);
    }
    start = proc_now();
    for (uint32_t i = 0; i < N; i++) {
        out[i] = post(p, true, 1 - p->rank, 2, i, buffer, i % 8 ? BYTES : 8);
        in[i] = post(p, false, 1 - p->rank, 2, i, buffer + (N + i) * BYTES, i % 8 ? BYTES : 8);
    }
    if (p->rank == 0) {
        while (proc_now() < start + *(const int *)p->arg * KEEPALIVE) {
            dma_ucx_progress(p->net);
            usleep(1000);
        }
        must(p, proc_requests(p), "the other was not stopped");
        must(p, !proc_failures(p) && proc_peer_status(p, 1) == DMA_OK, "taken for dead");
        kill(p->shared->pid[1], SIGCONT);
    }
    for (int i = 0; i < N; i++) {
        dma_status_t status = in[i] ? proc_wait(p, &in[i], 10) : DMA_ERR_PEER;

        must(p, status == DMA_OK, "receive %d: %s", i, dma_status_name(status));
        status = out[i] ? proc_wait(p, &out[i], 10) : DMA_ERR_PEER;
        must(p, status == DMA_OK, "send %d: %s", i, dma_status_name(status));
    }
    for (uint32_t i = 5; i < 10; i++) {
        exchange(p, 1 - p->rank, i, buffer, 50000);
    }
    must(p, !proc_failures(p), "a peer has failed");
    proc_barrier(p);
    free(buffer);
}

START_TEST(a_peer_is_stopped)
{
    int times = 3;
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .keepalive = KEEPALIVE, .seconds = 40, .arg = &times};

    ck_assert_int_eq(procs_run(&spec, stopped), 0);
}
END_TEST

/* The kernel tries again at growing intervals. Nobody else on this host has news from there. */
START_TEST(a_peer_is_stopped_for_long)
{
    int times = 8;
    procs_spec_t spec = {.n = 2, .tls = "tcp", .keepalive = KEEPALIVE, .seconds = 60, .arg = &times};

    if (!own_network() || !link_up(true)) {
        puts("not tested: a peer that is stopped for long, because this user may not have a network of its own");
        return;
    }
    ck_assert_int_eq(procs_run(&spec, stopped), 0);
}
END_TEST

/* A peer whose network makes no progress is given up. What it has not received may be gone when it asks for it. */
static void given_up(proc_t *p)
{
    char *buffer = mmap(NULL, 2 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dma_ucx_req_t *out[2], *in = NULL;
    dma_status_t status;

    exchange(p, 1 - p->rank, 1, buffer, 1000);
    proc_barrier(p);
    if (p->rank == 0) {
        out[0] = post(p, true, 1, 1, 2, buffer, LARGE);
        out[1] = post(p, true, 1, 1, 3, buffer + LARGE, LARGE);
        must(p, proc_wait(p, &out[0], 0.3) == DMA_AGAIN, "it has been taken");
        dma_ucx_abort(p->net, out[0]);
        for (int i = 0; i < 2; i++) {
            status = proc_wait(p, &out[i], DMA_UCX_GRACE_SECONDS + 1);
            must(p, status == DMA_ERR_PEER, "send %d: %s", i, dma_status_name(status));
        }
        must(p, proc_failures(p) == 1 && proc_peer_status(p, 1) == DMA_ERR_PEER, "the peer counts as there");
        munmap(buffer, 2 * LARGE);
        proc_barrier(p);
        while (!atomic_load(&p->shared->flag[DONE])) {
            proc_turn(p);
        }
        return;
    }
    proc_barrier(p);
    in = post(p, false, 0, 1, 2, buffer, LARGE);
    status = in ? proc_wait(p, &in, BOUND) : DMA_ERR_PEER;
    must(p, status == DMA_ERR_PEER, "a receive of what has been taken back: %s", dma_status_name(status));
    atomic_store(&p->shared->flag[DONE], 1);
}

START_TEST(a_peer_is_given_up)
{
    procs_spec_t spec = {.n = 2, .tls = "tcp", .keepalive = KEEPALIVE, .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, given_up), 0);
}
END_TEST

/* The link fails while messages go in both directions (arg 0), or while one side only waits (1). Both sides notice. */
static void unplugged(proc_t *p)
{
    const int *how = p->arg;
    bool sends = *how == 0 || p->rank == 0;
    char *buffer = calloc(2, LARGE);
    dma_ucx_req_t *reqs[3] = {NULL};
    dma_status_t status;
    double start;

    exchange(p, 1 - p->rank, 1, buffer, 1000);
    quiet(p);
    if (p->rank == 0) {
        must(p, link_up(false), "the link stays up");
    }
    proc_barrier(p);
    start = proc_now();
    reqs[0] = post(p, false, 1 - p->rank, 2, 9, buffer, 8);
    if (sends) {
        reqs[1] = post(p, true, 1 - p->rank, 2, 1, buffer, 20000);
        reqs[2] = post(p, true, 1 - p->rank, 2, 2, buffer, LARGE);
    }
    /* A small send has ended when it is in the kernel. A large one needs an answer. */
    for (int i = 0; i < 3; i++) {
        status = reqs[i] ? proc_wait(p, &reqs[i], BOUND) : DMA_ERR_PEER;
        must(p, status == DMA_ERR_PEER || (i == 1 && status == DMA_OK), "request %d: %s after %.1f s", i,
             dma_status_name(status), proc_now() - start);
    }
    printf("rank %d: noticed after %.1f s\n", p->rank, proc_now() - start);
    must(p, proc_failures(p) == 1, "%d peers have failed", proc_failures(p));
    free(buffer);
}

START_TEST(the_link_goes_down)
{
    int how = _i;
    procs_spec_t spec = {.n = 2, .tls = "tcp", .keepalive = KEEPALIVE, .seconds = 30, .arg = &how};

    if (!own_network() || !link_up(true)) {
        puts("not tested: a link that goes down, because this user may not have a network of its own");
        return;
    }
    ck_assert_int_eq(procs_run(&spec, unplugged), 0);
}
END_TEST

/* Each of three ranks with each other. */
static void exchange_all(proc_t *p, uint32_t seq, char *buffer)
{
    for (int absent = 0; absent < 3; absent++) {
        if (p->rank != absent) {
            exchange(p, 3 - p->rank - absent, seq, buffer, 5000);
        }
    }
}

/* Nothing arrives at rank 0 for three times the keepalive. The other processes still receive from the addresses of
 * its peers, so rank 0 need not open a connection to find out whether these are there. */
static void deaf(proc_t *p)
{
    char *buffer = calloc(2, 5000);
    int connections;

    exchange_all(p, 1, buffer);
    quiet(p);
    connections = proc_connections();
    proc_make_deaf(p->rank == 0);
    proc_barrier(p);
    for (uint32_t i = 10; p->rank && i < 10 + 300 * (uint32_t)KEEPALIVE; i++) {
        exchange(p, 3 - p->rank, i, buffer, 5000);
        usleep(10000);
    }
    atomic_fetch_add(&p->shared->flag[DONE], p->rank > 0);
    while (atomic_load(&p->shared->flag[DONE]) < 2) {
        proc_turn(p);
        must(p, p->rank || proc_connections() == connections, "%d connections", proc_connections());
    }
    must(p, !proc_failures(p), "%d peers have failed", proc_failures(p));
    proc_barrier(p);
    proc_make_deaf(false);
    exchange_all(p, 2, buffer);
    proc_barrier(p);
    free(buffer);
}

START_TEST(a_process_that_receives_nothing)
{
    procs_spec_t spec = {.n = 3, .tls = "tcp", .keepalive = KEEPALIVE, .seconds = 30};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0) {
        puts("not tested: a process that receives nothing, because the kernel does not list connections");
        return;
    }
    close(fd);
    /* on a busy machine both peers may stand still */
    ck_assert_int_eq(procs_run_often(3, &spec, deaf), 0);
}
END_TEST

/* A dead link is given up when the time is over and not a second later. A link that comes back in time is not given up. */
START_TEST(when_an_idle_link_is_probed)
{
    for (int seconds = -1; seconds <= 40000; seconds++) {
        dma_ucx_keepalive_t p = dma_ucx_keepalive_of(seconds + 0.5);
        int whole = seconds < 2 ? 2 : seconds < 32767 ? seconds : 32767, silent = p.interval * p.count;

        ck_assert_int_ge(p.idle, 1);
        ck_assert_int_ge(p.interval, 1);
        ck_assert_int_ge(p.count, 1);
        ck_assert_int_eq(p.kernel_count, 127); /* the kernel's limit */
        ck_assert_int_eq(p.idle + silent, whole);
        ck_assert_int_ge(2 * silent, whole);
        ck_assert(whole < 5 || 4 * silent >= 3 * whole);
    }
}
END_TEST

/* The link is down for five eighths of the keepalive: only time is lost, also if this begins when the first probe is due. */
static void flap(proc_t *p)
{
    char *buffer = calloc(2, LARGE);

    exchange(p, 1 - p->rank, 1, buffer, 1000);
    quiet(p);
    if (p->rank == 0) {
        usleep(*(const unsigned *)p->arg);
        must(p, link_up(false), "the link stays up");
        usleep(100000);
        atomic_store(&p->shared->flag[GO], 1);
        if (!fork()) {
            usleep(5000000);
            _exit(!link_up(true));
        }
    }
    while (!atomic_load(&p->shared->flag[GO])) {
        usleep(1000);
    }
    for (uint32_t i = 2; i < 6; i++) {
        exchange(p, 1 - p->rank, i, buffer, LARGE / i);
    }
    must(p, !proc_failures(p), "a peer has failed");
    proc_barrier(p);
    free(buffer);
}

START_TEST(the_link_comes_back)
{
    static const unsigned idle[] = {0, 3400000};
    procs_spec_t spec = {.n = 2, .tls = "tcp", .keepalive = 8, .seconds = 40, .arg = (void *)&idle[_i]};

    if (!own_network() || !link_up(true)) {
        puts("not tested: a link that comes back, because this user may not have a network of its own");
        return;
    }
    /* On a busy machine the kernel's next probe may come too late. A link that is given up too early is always an error. */
    int failed = 1;
    for (int try = 0; try < 3 && failed; try++) {
        link_up(true);
        failed = procs_run(&spec, flap);
    }
    ck_assert_int_eq(failed, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl_faults");

    unit_loop(suite, a_peer_is_killed, 0, 12, 35);
    unit_loop(suite, a_sender_dies_before_it_sends, 0, TRANSPORTS, 25);
    unit_loop(suite, a_message_outlives_its_sender, 0, TRANSPORTS, 25);
    unit_loop(suite, a_sender_leaves_before_it_is_connected, 0, 2 * TRANSPORTS, 25);
    unit_loop(suite, a_peer_leaves_too_early, 0, TRANSPORTS, 25);
    unit_loop(suite, a_peer_is_stopped, 0, TRANSPORTS, 45);
    unit_test(suite, a_peer_is_stopped_for_long, 60);
    unit_test(suite, a_peer_is_given_up, 25);
    unit_loop(suite, the_link_goes_down, 0, 2, 35);
    unit_test(suite, a_process_that_receives_nothing, 35);
    unit_test(suite, when_an_idle_link_is_probed, 4);
    unit_loop(suite, the_link_comes_back, 0, 2, 135);
    return unit_main(suite);
}
