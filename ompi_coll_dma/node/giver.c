/* Giving file descriptors to other processes: see giver.h. */
#include "node/giver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
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
    int fd; /* listens */
    uint64_t secret;
    dma_give_t give;
    void *arg;
    char path[];
};

/* The answer, or a part of it. No parts: there is no such memory. */
typedef struct answer {
    uint64_t n;
    uint64_t bytes[GIVER_MOST];
} answer_t;

/* A message with the file descriptors that it carries. */
typedef struct parcel {
    answer_t answer;
    int fds[GIVER_MOST];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(GIVER_MOST * sizeof(int))];
    } control;
} parcel_t;

/* ---- both sides ---- */

static bool make_path(const char *dir, uint64_t nonce, char *path, size_t bytes)
{
    int n = snprintf(path, bytes, "%s/coll_dma.%016llx.fds", dir, (unsigned long long)nonce);

    return n > 0 && (size_t)n < bytes;
}

/* The address of a socket holds some 100 characters. A longer path goes through its folder, which *folder keeps open. */
static bool make_address(const char *path, struct sockaddr_un *address, int *folder)
{
    const char *name = strrchr(path, '/');
    char dir[4096];
    int n;

    *folder = -1;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) < sizeof(address->sun_path)) {
        memcpy(address->sun_path, path, strlen(path) + 1);
        return true;
    }
    snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
    if ((*folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0) {
        return false;
    }
    n = snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d%s", *folder, name);
    return n > 0 && (size_t)n < sizeof(address->sun_path);
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

/* Bounds all waits for the other side, which must be of the same user. */
static bool is_acceptable(int fd)
{
    struct timeval most = {.tv_sec = GIVER_SECONDS};
    struct ucred other;
    socklen_t bytes = sizeof(other);

    return !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) &&
           !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) &&
           !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) && other.uid == geteuid();
}

/* Whether a call that may wait was ended by a signal, and is to be repeated. A wait with a limit ends so even if the handler wants
 * calls to be restarted; and a thread without signals ends it when the process goes on after a stop (signal(7)). */
static bool is_interrupted(ssize_t result, double began)
{
    return result < 0 && errno == EINTR && dma_now() - began < GIVER_SECONDS;
}

/* ---- who gives ---- */

static bool send_parcel(int to, parcel_t *p)
{
    struct iovec data = {&p->answer, sizeof(p->answer)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    size_t bytes = p->answer.n * sizeof(int);
    double began = dma_now();
    ssize_t sent;

    if (bytes) {
        message.msg_control = &p->control;
        message.msg_controllen = CMSG_SPACE(bytes);
        memset(&p->control, 0, sizeof(p->control));
        *CMSG_FIRSTHDR(&message) =
            (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), p->fds, bytes);
    }
    do {
        sent = sendmsg(to, &message, MSG_NOSIGNAL);
    } while (is_interrupted(sent, began));
    return sent == (ssize_t)sizeof(p->answer);
}

static bool receive_wish(int from, dma_wish_t *wish)
{
    double began = dma_now();
    ssize_t got;

    do {
        got = recv(from, wish, sizeof(*wish), 0);
    } while (is_interrupted(got, began));
    return got == (ssize_t)sizeof(*wish);
}

/* Fills a parcel with the parts from *at on. false: one of them cannot be opened. */
static bool fill_parcel(const dma_giver_t *g, const dma_wish_t *wish, uint64_t *at, parcel_t *p)
{
    uint64_t end = wish->base + wish->size;

    for (p->answer.n = 0; p->answer.n < GIVER_MOST && *at < end;) {
        dma_given_t part = {.addr = *at};
        int fd = g->give(g->arg, wish, &part);

        if (fd < 0) {
            return false;
        }
        p->fds[p->answer.n] = fd;
        p->answer.bytes[p->answer.n++] = part.bytes;
        if (!part.bytes || part.bytes > end - *at) {
            return false;
        }
        *at += part.bytes;
    }
    return true;
}

static void answer_wish(const dma_giver_t *g, int to)
{
    parcel_t p = {.answer = {0}};
    dma_wish_t wish;
    uint64_t at;
    bool good;

    if (!is_acceptable(to) || !receive_wish(to, &wish) || wish.secret != g->secret ||
        wish.size > UINT64_MAX - wish.base) {
        return;
    }
    at = wish.base;
    do {
        good = fill_parcel(g, &wish, &at, &p) && send_parcel(to, &p);
        for (uint64_t i = 0; i < p.answer.n; i++) {
            close(p.fds[i]);
        }
    } while (good && at < wish.base + wish.size);
    if (!good) {
        p.answer.n = 0;
        (void)send_parcel(to, &p);
    }
}

/* Without room for one more file, accept says so before it looks at the socket. */
static bool has_been_shut(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static void *main_of_giver(void *arg)
{
    const dma_giver_t *g = arg;

    prctl(PR_SET_NAME, "coll_dma fds");
    for (;;) {
        int to = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC);

        if (to >= 0) {
            answer_wish(g, to);
            close(to);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (has_been_shut(g->fd)) {
                return NULL;
            }
            usleep(10000); /* until the application has closed something */
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return NULL; /* dma_giver_stop */
        }
    }
}

static bool listen_at(dma_giver_t *g)
{
    struct sockaddr_un address;
    int folder;
    bool listens = false;

    if (make_address(g->path, &address, &folder) && !bind(g->fd, (struct sockaddr *)&address, sizeof(address))) {
        listens = !chmod(address.sun_path, 0600) && !listen(g->fd, BACKLOG);
        if (!listens) {
            unlink(g->path);
        }
    }
    close_if_open(folder);
    return listens;
}

dma_status_t dma_giver_start(const char *dir, uint64_t nonce, uint64_t secret, dma_give_t give, void *arg,
                             dma_giver_t **result)
{
    size_t room = strlen(dir) + 64;
    dma_giver_t *g = calloc(1, sizeof(*g) + room);
    int error;

    if (!g) {
        return DMA_ERR_NOMEM;
    }
    *g = (dma_giver_t){.secret = secret, .give = give, .arg = arg};
    if (!make_path(dir, nonce, g->path, room) || (g->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) < 0) {
        goto free_giver;
    }
    if (!listen_at(g)) {
        goto close_socket;
    }
    if ((errno = dma_thread_create(&g->thread, NULL, main_of_giver, g))) {
        goto unlink_path;
    }
    *result = g;
    return DMA_OK;

unlink_path:
    unlink(g->path);
close_socket:
    error = errno;
    close(g->fd);
    errno = error;
free_giver:
    free(g);
    return DMA_UNSUPPORTED;
}

void dma_giver_stop(dma_giver_t *g)
{
    unlink(g->path);
    shutdown(g->fd, SHUT_RDWR); /* accept returns */
    pthread_join(g->thread, NULL);
    close(g->fd);
    free(g);
}

/* ---- who asks ---- */

/* The file descriptors of a message. false: nothing came in time. */
static bool receive_parcel(int from, parcel_t *p, uint64_t *nfds)
{
    struct iovec data = {&p->answer, sizeof(p->answer)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &p->control, .msg_controllen = sizeof(p->control)};
    double began = dma_now();
    ssize_t got;

    do {
        got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    } while (is_interrupted(got, began));
    *nfds = 0;
    if (got < (ssize_t)sizeof(p->answer)) { /* such a message carries none */
        return false;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            *nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(p->fds, CMSG_DATA(c), *nfds * sizeof(int));
        }
    }
    /* MSG_CTRUNC: this process has no room for more files */
    return !(message.msg_flags & MSG_CTRUNC) && p->answer.n == *nfds;
}

/* Takes what one message has brought. Each file descriptor is closed as soon as it has been used. */
static dma_status_t take_parcel(const parcel_t *p, uint64_t nfds, const dma_wish_t *wish, uint64_t *at, dma_take_t take,
                                void *arg)
{
    dma_status_t status = DMA_OK;

    for (uint64_t i = 0; i < nfds; i++) {
        dma_given_t part = {.addr = *at, .bytes = p->answer.bytes[i]};

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

static bool send_wish(int to, const dma_wish_t *wish)
{
    double began = dma_now();
    ssize_t sent;

    do {
        sent = send(to, wish, sizeof(*wish), MSG_NOSIGNAL);
    } while (is_interrupted(sent, began));
    return sent == (ssize_t)sizeof(*wish);
}

static int connect_to(const char *dir, uint64_t nonce)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), folder = -1;
    struct timeval most = {.tv_sec = GIVER_SECONDS};
    struct sockaddr_un address;
    char path[4096];
    bool connected;

    /* The wait for room in the backlog counts as a wait to send. */
    connected = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) &&
                make_path(dir, nonce, path, sizeof(path)) && make_address(path, &address, &folder) &&
                connect_address(fd, &address) && is_acceptable(fd);
    close_if_open(folder);
    if (!connected) {
        close_if_open(fd);
        return -1;
    }
    return fd;
}

dma_status_t dma_giver_ask(const char *dir, uint64_t nonce, const dma_wish_t *wish, dma_take_t take, void *arg,
                           const char **why)
{
    uint64_t at = wish->base, nfds;
    dma_status_t status = DMA_OK;
    parcel_t p;
    int fd;

    *why = "its owner cannot be asked for file descriptors";
    if ((fd = connect_to(dir, nonce)) < 0) {
        return DMA_UNSUPPORTED;
    }
    *why = "its owner has not given its file descriptors";
    if (!send_wish(fd, wish)) {
        status = DMA_UNSUPPORTED;
    }
    while (status == DMA_OK && at < wish->base + wish->size) {
        bool received = receive_parcel(fd, &p, &nfds);

        if ((status = take_parcel(&p, nfds, wish, &at, take, arg)) != DMA_OK) {
            *why = NULL;
        } else if (!received || !nfds) {
            status = DMA_UNSUPPORTED;
        }
    }
    close(fd);
    return status;
}
