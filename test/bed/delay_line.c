/*
 * delay_line NAME DELAY_US: a network interface that holds what is sent to it for DELAY_US and receives it then.
 *
 * For kernels without netem. The interface (a TAP, made here and gone with this process) is a port of the testbed's
 * bridge; the links of the hosts redirect to it what they receive, so that every frame passes here once.
 *
 *      read             write when due
 *        |                  ^
 *        v                  |
 *      [ next ... frames ... oldest ]     a ring, in order of arrival and thus of time: the delay is the same for all
 *
 * Frames come and go with their virtio header: segments that the sender left to the interface to cut, and checksums
 * left to it to sum, stay as they are, and 64 KiB cost one read and one write. While the ring is full nothing is read;
 * the interface's own queue fills, and what does not fit there is lost, as on any switch.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 4096, LARGEST = 66 * 1024, BATCH = 16 };

typedef struct bed_frame {
    int64_t due; /* nanoseconds of CLOCK_MONOTONIC */
    size_t bytes;
    unsigned char *data;
} bed_frame_t;

typedef struct bed_line {
    int fd;
    int64_t delay;
    unsigned oldest, next; /* count on; FRAMES divides their range */
    bed_frame_t frames[FRAMES];
} bed_line_t;

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int line_open(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

    if (fd < 0) {
        perror("delay_line: /dev/net/tun");
        return -1;
    }
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, TUNSETIFF, &request) || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)) {
        perror("delay_line: no interface");
        close(fd);
        return -1;
    }
    return fd;
}

static void line_deliver(bed_line_t *line)
{
    while (line->oldest != line->next) {
        bed_frame_t *frame = &line->frames[line->oldest % FRAMES];

        if (frame->due > now()) {
            return;
        }
        /* A frame that the interface does not take, being down for one, is a frame lost. */
        if (write(line->fd, frame->data, frame->bytes) < 0 && EBADFD == errno) {
            exit(EXIT_FAILURE);
        }
        free(frame->data);
        line->oldest++;
    }
}

static void line_accept(bed_line_t *line)
{
    static unsigned char buffer[LARGEST];

    for (int i = 0; i < BATCH && line->next - line->oldest < FRAMES; i++) {
        bed_frame_t *frame = &line->frames[line->next % FRAMES];
        ssize_t bytes = read(line->fd, buffer, sizeof(buffer));

        if (bytes <= 0) {
            return;
        }
        frame->data = malloc((size_t)bytes);
        if (!frame->data) {
            continue;
        }
        memcpy(frame->data, buffer, (size_t)bytes);
        frame->bytes = (size_t)bytes;
        frame->due = now() + line->delay;
        line->next++;
    }
}

/* Until a frame arrives or the oldest is due. */
static void line_wait(const bed_line_t *line)
{
    struct pollfd event = {.fd = line->fd, .events = line->next - line->oldest < FRAMES ? POLLIN : 0};
    struct timespec time = {0}, *until = NULL;

    if (line->oldest != line->next) {
        int64_t left = line->frames[line->oldest % FRAMES].due - now();

        if (left > 0) {
            time.tv_sec = left / 1000000000;
            time.tv_nsec = left % 1000000000;
        }
        until = &time;
    }
    ppoll(&event, 1, until, NULL);
}

int main(int argc, char **argv)
{
    static bed_line_t line;

    if (argc != 3) {
        fprintf(stderr, "usage: delay_line NAME DELAY_US\n");
        return 2;
    }
    line.delay = atoll(argv[2]) * 1000;
    line.fd = line_open(argv[1]);
    if (line.fd < 0) {
        return EXIT_FAILURE;
    }
    /* Timers may be late by 50 us otherwise. And a cable does not wait for a processor: seconds without one are a dead link
     * to those who use it. Where neither is allowed it has to be as patient as the others. */
    prctl(PR_SET_TIMERSLACK, 1);
    if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1})) {
        setpriority(PRIO_PROCESS, 0, -20);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        line_wait(&line);
        line_deliver(&line);
        line_accept(&line);
    }
}
