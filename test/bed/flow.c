/*
 * flow: measures a link.
 *
 *     flow sink PORT                 accepts one TCP connection and prints "BYTES bytes in SECONDS s", from the arrival of the
 *                                    first byte to that of the last, so that the start of the sender does not count
 *     flow send ADDRESS PORT SECONDS sends to a sink
 *     flow echo PORT                 sends every UDP datagram back, until killed
 *     flow ping ADDRESS PORT COUNT   sends COUNT datagrams to an echo and prints "N of COUNT back, fastest U us". It waits for each
 *                                    answer for a short time, and also counts answers up to five seconds after the last one, so
 *                                    that a busy machine does not look like a link with losses
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024, MOMENT_MS = 2, END_MS = 5000 };

static char chunk[CHUNK];

static int64_t now_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

static int die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static struct sockaddr_in to_address(const char *address, const char *port)
{
    struct sockaddr_in result = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

    if (1 != inet_pton(AF_INET, address, &result.sin_addr)) {
        fprintf(stderr, "flow: not an address: %s\n", address);
        exit(2);
    }
    return result;
}

static int bound(int type, const char *port)
{
    struct sockaddr_in address = to_address("0.0.0.0", port);
    int fd = socket(AF_INET, type, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        bind(fd, (struct sockaddr *)&address, sizeof(address))) {
        die("flow: bind");
    }
    return fd;
}

static int connected(int type, const char *address, const char *port)
{
    struct sockaddr_in peer = to_address(address, port);
    int fd = socket(AF_INET, type, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof(peer))) {
        die("flow: connect");
    }
    return fd;
}

static void sink(const char *port)
{
    int listener = bound(SOCK_STREAM, port), fd;
    int64_t first = 0, last = 0, total = 0;
    ssize_t bytes;

    if (listen(listener, 1)) {
        die("flow: listen");
    }
    fd = accept(listener, NULL, NULL);
    if (fd < 0) {
        die("flow: accept");
    }
    while ((bytes = read(fd, chunk, sizeof(chunk))) > 0) {
        last = now_us();
        /* Bytes that are there when the clock starts do not count. */
        if (first) {
            total += bytes;
        } else {
            first = last;
        }
    }
    printf("%lld bytes in %.6f s\n", (long long)total, (double)(last - first) / 1e6);
}

static void send_for(const char *address, const char *port, double seconds)
{
    int fd = connected(SOCK_STREAM, address, port);
    int64_t end = now_us() + (int64_t)(seconds * 1e6);

    while (now_us() < end) {
        if (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) < 0) {
            die("flow: send");
        }
    }
}

static void echo(const char *port)
{
    int fd = bound(SOCK_DGRAM, port);

    for (;;) {
        struct sockaddr_in peer;
        socklen_t length = sizeof(peer);
        ssize_t bytes = recvfrom(fd, chunk, sizeof(chunk), 0, (struct sockaddr *)&peer, &length);

        if (bytes > 0) {
            sendto(fd, chunk, (size_t)bytes, 0, (struct sockaddr *)&peer, length);
        }
    }
}

/* Receives an answer within this time. Returns 1 if there was one. */
static int ping_reply(int fd, int timeout_ms, int64_t *fastest)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    int64_t sent, took;

    if (poll(&event, 1, timeout_ms) <= 0 || recv(fd, &sent, sizeof(sent), 0) != (ssize_t)sizeof(sent)) {
        return 0;
    }
    took = now_us() - sent;
    if (took < *fastest) {
        *fastest = took;
    }
    return 1;
}

static void ping(const char *address, const char *port, long count)
{
    int fd = connected(SOCK_DGRAM, address, port);
    int64_t fastest = INT64_MAX;
    long back = 0;

    for (long i = 0; i < count; i++) {
        int64_t stamp = now_us();

        /* An error, for example because the link is down, counts as a lost datagram. */
        (void)!send(fd, &stamp, sizeof(stamp), 0);
        back += ping_reply(fd, MOMENT_MS, &fastest);
    }
    while (back < count && ping_reply(fd, END_MS, &fastest)) {
        back++;
    }
    printf("%ld of %ld back, fastest %lld us\n", back, count, back ? (long long)fastest : -1);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (!strcmp(mode, "sink") && 3 == argc) {
        sink(argv[2]);
    } else if (!strcmp(mode, "send") && 5 == argc) {
        send_for(argv[2], argv[3], atof(argv[4]));
    } else if (!strcmp(mode, "echo") && 3 == argc) {
        echo(argv[2]);
    } else if (!strcmp(mode, "ping") && 5 == argc) {
        ping(argv[2], argv[3], atol(argv[4]));
    } else {
        fprintf(stderr, "usage: flow sink PORT | send ADDRESS PORT SECONDS | echo PORT | ping ADDRESS PORT COUNT\n");
        return 2;
    }
    return 0;
}
