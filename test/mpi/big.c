/*
 * big [some]: blocks of 2096 MiB on 2 ranks. Without `some`, also an all-gather of half of that in a derived type. Most of a
 * buffer is the same 16 MiB of memory, mapped again and again: all windows of a block hold the same data, except a few, at
 * the ends and around 2 GiB, which have memory and data of their own.
 *
 *   block:  | own | shared | shared | ... | own (2 GiB) | ... | shared | own |
 *
 * Prints how much memory that takes, and ends with status 77 if there is less.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verify.h"

enum { RANKS = 2, MIB = 1 << 20, WINDOW = 16 * MIB, GAP = 64 << 10 };
/* A piece of the derived type: this much data, then a gap. */
enum { PIECE = MIB - GAP };

typedef struct {
    char *base;
    long windows; /* in a block */
    int fds[RANKS][8];
    int nfds;
} region_t;

static int rank;

/* 0 ... 4: windows with data of their own. The others have number 5. */
static int place_of(long window, long windows)
{
    const long middle = (2048L * MIB) / WINDOW, own[] = {0, windows - 1, middle - 1, middle, windows / 2};
    int i = 0;
    while (i < 5 && (own[i] != window || own[i] >= windows)) {
        i++;
    }
    return i;
}

static uint64_t word_of(int from, int to, int place, long at)
{
    return (uint64_t)at * 0x9E3779B97F4A7C15u + (uint64_t)(from * 100 + to * 10 + place + 1);
}

static int make_memory(void)
{
    int fd = memfd_create("big", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, WINDOW) != 0) {
        perror("big: memfd");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return fd;
}

/* `blocks` blocks one after the other. */
static void make_region(region_t *r, int blocks, long windows)
{
    size_t bytes = (size_t)blocks * (size_t)windows * WINDOW;
    *r = (region_t){.windows = windows, .nfds = 6};
    r->base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int b = 0; b < blocks; b++) {
        for (int i = 0; i < r->nfds; i++) {
            r->fds[b][i] = make_memory();
        }
        for (long w = 0; w < windows && r->base != MAP_FAILED; w++) {
            void *at = r->base + (size_t)(b * windows + w) * WINDOW;
            if (mmap(at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                     r->fds[b][place_of(w, windows)], 0) != at) {
                r->base = MAP_FAILED;
            }
        }
        for (int i = 0; i < r->nfds; i++) {
            close(r->fds[b][i]);
        }
    }
    if (r->base == MAP_FAILED) {
        perror("big: mmap");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void free_region(region_t *r, int blocks)
{
    munmap(r->base, (size_t)blocks * (size_t)r->windows * WINDOW);
}

static char *window_at(const region_t *r, int block, long window)
{
    return r->base + (size_t)(block * r->windows + window) * WINDOW;
}

/* Is the word at this offset of a window data, or in a gap of the type? */
static bool is_data(long at, bool derived)
{
    return !derived || at % MIB < PIECE;
}

/* Each memory once. The shared one is at window 1. */
static void fill(const region_t *r, int block, int from, int to, bool derived)
{
    for (long w = 0; w < r->windows; w++) {
        int place = place_of(w, r->windows);
        uint64_t *words = (uint64_t *)window_at(r, block, w);
        for (long i = 0; (place < 5 || w == 1) && i < WINDOW / 8; i++) {
            bool data = from >= 0 && is_data(i * 8, derived);
            words[i] = data ? word_of(from, to, place, i) : 0xC5C5C5C5C5C5C5C5u;
        }
    }
}

static long count_wrong(const region_t *r, int block, int from, int to, bool derived)
{
    long wrong = 0;
    for (long w = 0; w < r->windows; w++) {
        int place = place_of(w, r->windows);
        const uint64_t *words = (const uint64_t *)window_at(r, block, w);
        for (long i = 0; (place < 5 || w == 1) && i < WINDOW / 8; i++) {
            wrong += words[i] != (is_data(i * 8, derived) ? word_of(from, to, place, i) : 0xC5C5C5C5C5C5C5C5u);
        }
    }
    return wrong;
}

typedef enum { ALLGATHER, ALLTOALL, ALLTOALLV, OPS } op_t;
static const char *const names[] = {"all-gather", "all-to-all", "all-to-all-v"};

static void call(op_t op, const region_t *send, const region_t *recv, int count, MPI_Datatype type, bool derived)
{
    int counts[RANKS] = {count, count}, displs[RANKS] = {0, count};
    MPI_Request request;
    if (op == ALLTOALLV) {
        MPI_Alltoallv(send->base, counts, displs, type, recv->base, counts, displs, type, MPI_COMM_WORLD);
    } else if (op == ALLTOALL) {
        MPI_Alltoall(send->base, count, type, recv->base, count, type, MPI_COMM_WORLD);
    } else if (derived) {
        MPI_Iallgather(send->base, count, type, recv->base, count, type, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Allgather(send->base, count, type, recv->base, count, type, MPI_COMM_WORLD);
    }
}

static void try(op_t op, long windows, bool derived)
{
    int blocks = op == ALLGATHER ? 1 : RANKS;
    region_t send, recv;
    MPI_Datatype type = MPI_DOUBLE, pieces;
    long count = windows * WINDOW / 8;
    double start;
    char what[80];

    if (derived) {
        MPI_Type_contiguous(PIECE / 8, MPI_DOUBLE, &pieces);
        MPI_Type_create_resized(pieces, 0, MIB, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&pieces);
        count = windows * (WINDOW / MIB);
    }
    make_region(&send, blocks, windows);
    make_region(&recv, RANKS, windows);
    for (int r = 0; r < RANKS; r++) {
        if (r < blocks) {
            fill(&send, r, rank, op == ALLGATHER ? 0 : r, derived);
        }
        fill(&recv, r, -1, -1, derived);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    call(op, &send, &recv, (int)count, type, derived);
    snprintf(what, sizeof(what), "%s, blocks of %ld MiB, %s", names[op], windows * WINDOW / MIB,
             derived ? "derived" : "contiguous");
    if (0 == rank) {
        printf("%s: %.1f s\n", what, MPI_Wtime() - start);
        fflush(stdout);
    }
    verify_where = what;
    for (int r = 0; r < RANKS; r++) {
        VERIFY(0 == count_wrong(&recv, r, r, op == ALLGATHER ? 0 : rank, derived));
    }
    free_region(&send, blocks);
    free_region(&recv, RANKS);
    if (derived) {
        MPI_Type_free(&type);
    }
}

static long available_mib(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    long kib = 0;
    while (file && fgets(line, sizeof(line), file)) {
        sscanf(line, "MemAvailable: %ld", &kib);
    }
    if (file) {
        fclose(file);
    }
    return kib / 1024;
}

int main(int argc, char **argv)
{
    bool all = argc == 1;
    long windows = 131, half = windows / 2 + 1;
    /* The windows that have memory, and what two ranks unpack. */
    long need = RANKS * 4 * 6 * (WINDOW / MIB) + (all ? RANKS * RANKS * half * (WINDOW / MIB) : 0) + 500;
    long have = available_mib();
    int size, short_of = have < need, outcome;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS) {
        fprintf(stderr, "big: needs %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Allreduce(MPI_IN_PLACE, &short_of, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    if (short_of) {
        if (0 == rank) {
            printf("this test needs %ld MiB of memory, of which %ld are available\n", need, have);
        }
        MPI_Finalize();
        return 77;
    }
    for (op_t op = ALLGATHER; op < OPS; op++) {
        if (all || op != ALLTOALL) {
            try(op, windows, false);
        }
    }
    if (all) {
        try(ALLGATHER, half, true);
    }
    outcome = verify_summary("big", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
