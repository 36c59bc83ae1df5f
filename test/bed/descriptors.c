/*
 * descriptors [-n CALLS] [-h]: counts the descriptors of a job over several hosts. Every rank takes part in an all-gather and
 * an all-to-all-v with a block for every rank, and checks every byte. The last line of rank 0 has the maximum of each number
 * over all ranks:
 *
 *     descriptors: 40 at first, 95 at the end: 56 probed, 3 other connections, 1 listeners, 5 polls, 30 others; data right
 *
 *     at first            after MPI_Init
 *     probed              established TCP connections with keepalive probes: those of UCX, with coll/dma
 *     other connections   TCP connections without probes: Open MPI's own
 *     polls               epoll, eventfd and timerfd
 *
 * With -h every rank also prints its line. Exit status 4: wrong data.
 */
#include <dirent.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK 16 /* bytes */

enum { ALL, PROBED, PLAIN, LISTENING, POLLS, OTHERS, KINDS };

static int option(int fd, int name)
{
    int value = 0;
    socklen_t bytes = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) ? -1 : value;
}

static int kind_of(int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    char path[64], text[256] = "";

    if (option(fd, SO_ACCEPTCONN) == 1) {
        return option(fd, SO_DOMAIN) == AF_INET || option(fd, SO_DOMAIN) == AF_INET6 ? LISTENING : OTHERS;
    }
    if (!getpeername(fd, (struct sockaddr *)&peer, &bytes) &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) {
        return option(fd, SO_KEEPALIVE) == 1 ? PROBED : PLAIN;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (readlink(path, text, sizeof(text) - 1) < 0) {
        return OTHERS;
    }
    return strstr(text, "anon_inode") ? POLLS : OTHERS;
}

static void count(int counts[KINDS])
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    memset(counts, 0, KINDS * sizeof(counts[0]));
    while (dir && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd != dirfd(dir)) {
            counts[ALL]++;
            counts[kind_of(fd)]++;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static unsigned char expected(int from, int to, int at)
{
    return (unsigned char)(from * 11 + to * 5 + at);
}

static long exchange(int rank, int ranks)
{
    unsigned char *send = malloc((size_t)ranks * BLOCK), *recv = malloc((size_t)ranks * BLOCK);
    int *counts = malloc((size_t)ranks * sizeof(*counts)), *at = malloc((size_t)ranks * sizeof(*at));
    long wrong = 0;

    for (int r = 0; r < ranks; r++) {
        counts[r] = BLOCK;
        at[r] = r * BLOCK;
        for (int i = 0; i < BLOCK; i++) {
            send[r * BLOCK + i] = expected(rank, r, i);
        }
    }
    MPI_Alltoallv(send, counts, at, MPI_BYTE, recv, counts, at, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong += recv[i] != expected(i / BLOCK, rank, i % BLOCK);
    }
    MPI_Allgather(send, BLOCK, MPI_BYTE, recv, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong += recv[i] != expected(i / BLOCK, 0, i % BLOCK);
    }
    free(send);
    free(recv);
    free(counts);
    free(at);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, ranks, calls = 3, option, each = 0, first[KINDS], last[KINDS], most[KINDS], most_first[KINDS];
    long wrong = 0, all_wrong;

    while ((option = getopt(argc, argv, "n:h")) != -1) {
        if (option == 'n') {
            calls = atoi(optarg);
        } else {
            each = 1;
        }
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    count(first);
    for (int i = 0; i < calls; i++) {
        wrong += exchange(rank, ranks);
    }
    count(last);
    if (each) {
        printf(
            "rank %d: %d at first, %d at the end: %d probed, %d other connections, %d listeners, %d polls, %d others\n",
            rank, first[ALL], last[ALL], last[PROBED], last[PLAIN], last[LISTENING], last[POLLS], last[OTHERS]);
    }
    MPI_Reduce(last, most, KINDS, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(first, most_first, KINDS, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("descriptors: %d at first, %d at the end: %d probed, %d other connections, %d listeners, %d polls, %d "
               "others; "
               "data %s\n",
               most_first[ALL], most[ALL], most[PROBED], most[PLAIN], most[LISTENING], most[POLLS], most[OTHERS],
               all_wrong ? "WRONG" : "right");
    }
    MPI_Finalize();
    return all_wrong ? 4 : 0;
}
