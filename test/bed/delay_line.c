/*
 * delay_line NAME DELAY_US TABLE             a network interface that receives each frame DELAY_US after it was sent to it
 * delay_line dirt TABLE HOST KIND PERMILLE   from now on, applies KIND to PERMILLE of the frames to HOST
 * delay_line dirt TABLE HOST                 prints their numbers: "CORRUPTED DUPLICATED REORDERED"
 * delay_line cut DEVICE                      makes the kernel cut and sum the frames that DEVICE of this host sends
 *
 * For kernels without netem. The interface is a TAP, which exists as long as this process. It is a port of the testbed's
 * bridge. The ports of the hosts redirect all received frames to it, so that every frame passes here once.
 *
 *      read             write when due
 *        |                  ^
 *        v                  |
 *      [ next ... frames ... oldest ]     a ring, in order of arrival and so of time, because all delays are equal
 *
 * Frames have a virtio header. If the sender has left segmentation or checksums to the interface (offload), they stay as they
 * are: 64 KiB take one read and one write. While the ring is full nothing is read. Then the interface's own queue fills, and
 * further frames are lost, as in a switch.
 *
 * KIND is corrupt, duplicate or reorder. A corrupt frame first gets its checksum, then one of its bits is changed, so the
 * receiver drops it. If the sender has left segmentation to the interface, the whole frame is dropped here instead. After `cut`
 * no sender does so. A reordered frame comes after the next four frames, or 10 ms late. All these processes map the file TABLE.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 4096, LARGEST = 66 * 1024, BATCH = 16, HOSTS = 64 };
enum { HELD_FRAMES = 4, HELD_NS = 10000000 }; /* a reordered frame comes after this many others, or this late */
enum { HEADERS = 14 + 20 };                   /* Ethernet and IPv4 */

typedef enum bed_dirt { DIRT_CORRUPT, DIRT_DUPLICATE, DIRT_REORDER, DIRT_KINDS } bed_dirt_t;

static const char *const kinds[] = {"corrupt", "duplicate", "reorder"};

/* Indexed by receiver. */
typedef struct bed_table {
    struct {
        _Atomic unsigned permille, done;
    } dirt[HOSTS][DIRT_KINDS];
} bed_table_t;

typedef struct bed_frame {
    int64_t due; /* nanoseconds of CLOCK_MONOTONIC */
    size_t bytes;
    unsigned char *data;
} bed_frame_t;

typedef struct bed_line {
    int fd;
    int64_t delay;
    unsigned oldest, next; /* count without limit; FRAMES divides their range */
    bed_table_t *table;
    bed_frame_t held; /* bytes 0: none */
    int passed;       /* frames since it is held */
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

/* ---- dirt ---- */

static unsigned draw(unsigned below)
{
    static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

/* Returns whether this KIND is applied to the frame, at random. Addresses of hosts are 02:77:00:00:00:HOST. */
static bool is_chosen(const bed_line_t *line, const bed_frame_t *frame, bed_dirt_t kind)
{
    const unsigned char *to = frame->data + sizeof(struct virtio_net_hdr);
    unsigned permille;

    if (frame->bytes < sizeof(struct virtio_net_hdr) + HEADERS + 1 || to[0] != 2 || to[4] || to[5] >= HOSTS) {
        return false;
    }
    permille = atomic_load(&line->table->dirt[to[5]][kind].permille);
    if (!permille || draw(1000) >= permille) {
        return false;
    }
    atomic_fetch_add(&line->table->dirt[to[5]][kind].done, 1);
    return true;
}

/* Computes the checksum that the sender has left to the interface. */
static void complete_checksum(unsigned char *data, size_t bytes, struct virtio_net_hdr *header)
{
    size_t at = header->csum_start + (size_t)header->csum_offset;
    uint32_t sum = 0;

    if (!(header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || at + 2 > bytes) {
        return;
    }
    for (size_t i = header->csum_start; i < bytes; i += 2) {
        sum += (uint32_t)data[i] << 8 | (i + 1 < bytes ? data[i + 1] : 0);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    data[at] = (unsigned char)(sum >> 8);
    data[at + 1] = (unsigned char)sum;
    header->flags = 0;
}

/* Changes a bit. False: the frame must be dropped, because the receiver would drop every segment of it. */
static bool corrupt(bed_frame_t *frame)
{
    unsigned char *data = frame->data + sizeof(struct virtio_net_hdr);
    size_t bytes = frame->bytes - sizeof(struct virtio_net_hdr);
    struct virtio_net_hdr header;

    memcpy(&header, frame->data, sizeof(header));
    if (header.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        return false;
    }
    complete_checksum(data, bytes, &header);
    header.flags = 0; /* the checksum is not marked as verified */
    memcpy(frame->data, &header, sizeof(header));
    data[HEADERS + draw((unsigned)(bytes - HEADERS))] ^= (unsigned char)(1u << draw(8));
    return true;
}

/* ---- the line ---- */

/* If the interface does not accept the frame, for example because it is down, the frame is lost. */
static void line_write(const bed_line_t *line, const bed_frame_t *frame)
{
    if (write(line->fd, frame->data, frame->bytes) < 0 && EBADFD == errno) {
        exit(EXIT_FAILURE);
    }
}

static void line_release(bed_line_t *line)
{
    if (line->held.bytes) {
        line_write(line, &line->held);
        free(line->held.data);
        line->held.bytes = 0;
    }
}

/* Passes on a frame that is due. */
static void line_pass(bed_line_t *line, bed_frame_t *frame)
{
    if (!line->held.bytes && is_chosen(line, frame, DIRT_REORDER)) {
        line->held = *frame;
        line->held.due += HELD_NS;
        line->passed = 0;
        return;
    }
    if (!is_chosen(line, frame, DIRT_CORRUPT) || corrupt(frame)) {
        line_write(line, frame);
        if (is_chosen(line, frame, DIRT_DUPLICATE)) {
            line_write(line, frame);
        }
    }
    free(frame->data);
    if (line->held.bytes && ++line->passed == HELD_FRAMES) {
        line_release(line);
    }
}

static void line_deliver(bed_line_t *line)
{
    if (line->held.bytes && line->held.due <= now()) {
        line_release(line);
    }
    while (line->oldest != line->next) {
        bed_frame_t *frame = &line->frames[line->oldest % FRAMES];

        if (frame->due > now()) {
            return;
        }
        line_pass(line, frame);
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

/* Waits until a frame arrives, or until the oldest or the held frame is due. */
static void line_wait(const bed_line_t *line)
{
    struct pollfd event = {.fd = line->fd, .events = line->next - line->oldest < FRAMES ? POLLIN : 0};
    struct timespec time = {0}, *until = NULL;
    int64_t due = INT64_MAX;

    if (line->oldest != line->next) {
        due = line->frames[line->oldest % FRAMES].due;
    }
    if (line->held.bytes && line->held.due < due) {
        due = line->held.due;
    }
    if (due != INT64_MAX) {
        int64_t left = due - now();

        if (left > 0) {
            time.tv_sec = left / 1000000000;
            time.tv_nsec = left % 1000000000;
        }
        until = &time;
    }
    ppoll(&event, 1, until, NULL);
}

static bed_table_t *map_table(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    void *table;

    if (fd < 0 || ftruncate(fd, sizeof(bed_table_t)) ||
        (table = mmap(NULL, sizeof(bed_table_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        perror("delay_line: the table");
        exit(EXIT_FAILURE);
    }
    close(fd);
    return table;
}

static int usage(void)
{
    fprintf(stderr, "usage: delay_line NAME DELAY_US TABLE | delay_line cut DEVICE | "
                    "delay_line dirt TABLE HOST [KIND PERMILLE]\n");
    return 2;
}

/* The command dirt TABLE HOST [KIND PERMILLE]. */
static int spoil(int argc, char **argv)
{
    bed_table_t *table = map_table(argv[1]);
    int host = atoi(argv[2]);

    if (host < 0 || host >= HOSTS) {
        return usage();
    }
    if (argc == 3) {
        printf("%u %u %u\n", atomic_load(&table->dirt[host][DIRT_CORRUPT].done),
               atomic_load(&table->dirt[host][DIRT_DUPLICATE].done),
               atomic_load(&table->dirt[host][DIRT_REORDER].done));
        return 0;
    }
    for (int kind = 0; kind < DIRT_KINDS; kind++) {
        if (!strcmp(argv[3], kinds[kind])) {
            atomic_store(&table->dirt[host][kind].permille, (unsigned)atoi(argv[4]));
            return 0;
        }
    }
    return usage();
}

static int cut_by_kernel(const char *device)
{
    static const unsigned commands[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), status = 0;

    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        struct ethtool_value off = {.cmd = commands[i]};
        struct ifreq request = {.ifr_data = (void *)&off};

        snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
        if (ioctl(fd, SIOCETHTOOL, &request)) {
            perror("delay_line: the interface");
            status = EXIT_FAILURE;
        }
    }
    close(fd);
    return status;
}

int main(int argc, char **argv)
{
    static bed_line_t line;

    if (argc == 3 && !strcmp(argv[1], "cut")) {
        return cut_by_kernel(argv[2]);
    }
    if (argc >= 2 && !strcmp(argv[1], "dirt") && (argc == 4 || argc == 6)) {
        return spoil(argc - 1, argv + 1);
    }
    if (argc != 4) {
        return usage();
    }
    line.table = map_table(argv[3]);
    line.delay = atoll(argv[2]) * 1000;
    line.fd = line_open(argv[1]);
    if (line.fd < 0) {
        return EXIT_FAILURE;
    }
    /* Without this, timers may be late by 50 us. Real-time scheduling, because a cable does not wait for a processor: after
     * seconds without one, the hosts would see a dead link. If it is not allowed, the lowest nice value must be enough. */
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
