/* Giving file descriptors to other processes: see giver.h. */
#include "node/giver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "dma/clock.h"
#include "dma/thread.h"

#define BACKLOG 128 /* processes that ask at the same time; others wait in connect */

struct dma_giver {
    pthread_t thread;
    atomic_bool ends;
    int folder, fd; /* of the socket; that listens */
    uint64_t nonce, secret;
    dma_give_t give;
    void *arg;
};

/* The answer, or a part of it. No parts: there is no such memory. */
typedef struct parcel {
    uint64_t n;
    uint64_t bytes[GIVER_MOST];
    int fds[GIVER_MOST]; /* not of the data */
} parcel_t;

enum { PARCEL_BYTES = offsetof(parcel_t, fds), NAME_BYTES = 40 };

/* Room for the file descriptors of a message. */
typedef union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(GIVER_MOST * sizeof(int))];
} control_t;

/* ---- both sides ---- */

static void make_name(uint64_t nonce, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "coll_dma.%016llx.fds", (unsigned long long)nonce);
}

/* The address of a socket holds some 100 characters, and paths are longer. So it goes through its folder, which is open. */
static struct sockaddr_un address_of(int folder, uint64_t nonce)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[NAME_BYTES];

    make_name(nonce, name);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder, name);
    return address;
}

static int open_folder(const char *dir)
{
    return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

/* Bounds all waits for the other side. That for room in the backlog counts as a wait to send. */
static bool limit_waits(int fd)
{
    struct timeval most = {.tv_sec = GIVER_SECONDS};

    return !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) &&
           !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
}

/* The other side must be of the same user. */
static bool is_acceptable(int fd)
{
    struct ucred other;
    socklen_t bytes = sizeof(other);

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) && other.uid == geteuid();
}

/* Whether a call that may wait was ended by a signal, and is to be repeated. A wait with a limit ends so even if the handler wants
 * calls to be restarted; and a thread without signals ends it when the process goes on after a stop (signal(7)). */
static bool is_interrupted(ssize_t result, double began)
{
    return result < 0 && errno == EINTR && dma_now() - began < GIVER_SECONDS;
}

static bool send_message(int to, void *data, size_t bytes, const int *fds, size_t nfds)
{
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    control_t control = {.bytes = {0}};
    double began = dma_now();
    ssize_t sent;

    if (nfds) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.align = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(nfds * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
    }
    do {
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    } while (is_interrupted(sent, began));
    return sent == (ssize_t)bytes;
}

/* The file descriptors that have come are the caller's; fewer come if this process has no room for more files. `fds` NULL: none may
 * come. false: nothing came in time. */
static bool receive_message(int from, void *data, size_t bytes, int *fds, size_t *nfds)
{
    control_t control;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = fds ? &control : NULL,
                             .msg_controllen = fds ? sizeof(control) : 0};
    double began = dma_now();
    ssize_t got;

    do {
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    } while (is_interrupted(got, began));
    if (got < (ssize_t)bytes) { /* such a message carries none */
        return false;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            *nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), *nfds * sizeof(int));
        }
    }
    return true;
}

/* ---- who gives ---- */

/* Fills a parcel with the parts from *at on. false: one of them cannot be opened. */
static bool fill_parcel(const dma_giver_t *g, const dma_wish_t *wish, uint64_t *at, parcel_t *p)
{
    uint64_t end = wish->base + wish->size;

    for (p->n = 0; p->n < GIVER_MOST && *at < end;) {
        dma_given_t part = {.addr = *at};
        int fd = g->give(g->arg, wish, &part);

        if (fd < 0) {
            return false;
        }
        p->fds[p->n] = fd;
        p->bytes[p->n++] = part.bytes;
        if (!part.bytes || part.bytes > end - *at) {
            return false;
        }
        *at += part.bytes;
    }
    return true;
}

static void answer_wish(const dma_giver_t *g, int to)
{
    parcel_t p = {.n = 0};
    dma_wish_t wish;
    uint64_t at;
    bool good;

    if (!limit_waits(to) || !is_acceptable(to) || !receive_message(to, &wish, sizeof(wish), NULL, NULL) ||
        wish.secret != g->secret || wish.size > UINT64_MAX - wish.base) {
        return;
    }
    at = wish.base;
    do {
        good = fill_parcel(g, &wish, &at, &p) && send_message(to, &p, PARCEL_BYTES, p.fds, p.n);
        for (uint64_t i = 0; i < p.n; i++) {
            close(p.fds[i]);
        }
    } while (good && at < wish.base + wish.size);
    if (!good) {
        p.n = 0;
        (void)send_message(to, &p, PARCEL_BYTES, NULL, 0);
    }
}

static void *main_of_giver(void *arg)
{
    const dma_giver_t *g = arg;

    prctl(PR_SET_NAME, "coll_dma fds");
    while (!atomic_load_explicit(&g->ends, memory_order_relaxed)) {
        int to = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC);

        if (to >= 0) {
            answer_wish(g, to);
            close(to);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            usleep(10000); /* until the application has closed something */
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break; /* dma_giver_stop */
        }
    }
    return NULL;
}

static void remove_socket(const dma_giver_t *g)
{
    char name[NAME_BYTES];

    make_name(g->nonce, name);
    unlinkat(g->folder, name, 0);
}

/* false: errno says why. */
static bool start(dma_giver_t *g)
{
    struct sockaddr_un address = address_of(g->folder, g->nonce);

    if (bind(g->fd, (struct sockaddr *)&address, sizeof(address))) {
        return false;
    }
    if (!chmod(address.sun_path, 0600) && !listen(g->fd, BACKLOG) &&
        !(errno = dma_thread_create(&g->thread, NULL, main_of_giver, g))) {
        return true;
    }
    remove_socket(g);
    return false;
}

static void free_giver(dma_giver_t *g)
{
    int error = errno;

    close_if_open(g->fd);
    close_if_open(g->folder);
    free(g);
    errno = error;
}

dma_status_t dma_giver_start(const char *dir, uint64_t nonce, uint64_t secret, dma_give_t give, void *arg,
                             dma_giver_t **result)
{
    dma_giver_t *g = calloc(1, sizeof(*g));

    if (!g) {
        return DMA_ERR_NOMEM;
    }
    *g = (dma_giver_t){.nonce = nonce, .secret = secret, .give = give, .arg = arg};
    g->folder = open_folder(dir);
    g->fd = g->folder < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (g->fd < 0 || !start(g)) {
        free_giver(g);
        return DMA_UNSUPPORTED;
    }
    *result = g;
    return DMA_OK;
}

void dma_giver_stop(dma_giver_t *g)
{
    remove_socket(g);
    atomic_store_explicit(&g->ends, true, memory_order_relaxed); /* the join orders what the thread has done */
    shutdown(g->fd, SHUT_RDWR);                                  /* accept returns */
    pthread_join(g->thread, NULL);
    free_giver(g);
}

/* ---- who asks ---- */

/* Takes what one message has brought. Each file descriptor is closed as soon as it has been used. */
static dma_status_t take_parcel(const parcel_t *p, size_t nfds, const dma_wish_t *wish, uint64_t *at, dma_take_t take,
                                void *arg)
{
    dma_status_t status = DMA_OK;

    for (size_t i = 0; i < nfds; i++) {
        dma_given_t part = {.addr = *at, .bytes = p->bytes[i]};

        if (status == DMA_OK) {
            bool fits = part.bytes && part.bytes <= wish->base + wish->size - *at;

            status = fits ? take(arg, p->fds[i], &part) : DMA_UNSUPPORTED;
            *at += part.bytes;
        }
        close(p->fds[i]);
    }
    return status;
}

/* The wait for room in the backlog. What a signal has ended has not connected, so it can be repeated. */
static bool connect_address(int fd, const struct sockaddr_un *address)
{
    double began = dma_now();
    int rc;

    do {
        rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    } while (is_interrupted(rc, began));
    return !rc;
}

static int connect_to(const char *dir, uint64_t nonce)
{
    int folder = open_folder(dir), fd = folder < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = address_of(folder, nonce);

    if (fd >= 0 && !(limit_waits(fd) && connect_address(fd, &address) && is_acceptable(fd))) {
        close(fd);
        fd = -1;
    }
    close_if_open(folder);
    return fd;
}

dma_status_t dma_giver_ask(const char *dir, uint64_t nonce, const dma_wish_t *wish, dma_take_t take, void *arg,
                           const char **why)
{
    dma_wish_t asked = *wish;
    uint64_t at = wish->base;
    dma_status_t status;
    parcel_t p;
    int fd;

    *why = "its owner cannot be asked for file descriptors";
    if ((fd = connect_to(dir, nonce)) < 0) {
        return DMA_UNSUPPORTED;
    }
    *why = "its owner has not given its file descriptors";
    status = send_message(fd, &asked, sizeof(asked), NULL, 0) ? DMA_OK : DMA_UNSUPPORTED;
    while (status == DMA_OK && at < wish->base + wish->size) {
        size_t nfds = 0;
        bool received = receive_message(fd, &p, PARCEL_BYTES, p.fds, &nfds);

        if ((status = take_parcel(&p, nfds, wish, &at, take, arg)) != DMA_OK) {
            *why = NULL;
        } else if (!received || !nfds || p.n != nfds) {
            status = DMA_UNSUPPORTED;
        }
    }
    close(fd);
    return status;
}
