/*
 * An all-gather with one process per GPU, without a runtime. Each process has a queue per peer. In this queue it pushes its
 * block to the peer (COPY, and a FENCE to the peer's flags), waits for the peer's block (POLL), and reports this by a FENCE to
 * host memory. Every byte of every round is checked.
 *
 * usage: gather PROCESSES BYTES ROUNDS [engines]
 * With "engines", each queue is created on the engine that the kernel recommends for the link.
 */
#include "raw.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX = 8, PAGE = 4096, LINE = 64 };

/* Memory that the processes share: the handles, and a barrier. */
static struct board {
    HsaSharedMemoryHandle data[MAX], flags[MAX];
    atomic_int arrived;
} * board;

static int processes, rounds;
static size_t bytes;

static void barrier(void)
{
    int all = (atomic_fetch_add(&board->arrived, 1) / processes + 1) * processes;
    while (atomic_load(&board->arrived) < all)
        sched_yield();
}

static char pattern(int rank, int round, size_t at)
{
    return (char)(rank * 31 + round * 7 + (int)(at >> 6) + (int)at);
}

/* Returns the lowest engine that KFD's files recommend for the link. */
static uint32_t engine_for(int from, int to)
{
    unsigned long mask = raw_recommended_engines(from, to);
    if (!mask)
        raw_fail("no link from GPU %d to GPU %d", from, to);
    return (uint32_t)__builtin_ctzl(mask);
}

struct peer {
    char *data, *flags;
    struct raw_queue queue;
};

static void meet(int rank, struct peer *peers, int by_engine)
{
    uint32_t node = (uint32_t)rank + 1;
    size_t whole = (bytes * (size_t)processes + PAGE - 1) / PAGE * PAGE;
    peers[rank].data = raw_allocate(node, whole, node);
    peers[rank].flags = raw_allocate(node, PAGE, node);
    memset(peers[rank].flags, 0, PAGE);
    RAW_CHECK(hsaKmtShareMemory(peers[rank].data, whole, &board->data[rank]));
    RAW_CHECK(hsaKmtShareMemory(peers[rank].flags, PAGE, &board->flags[rank]));
    barrier();
    for (int i = 0; i < processes; i++) {
        HSAuint64 size;
        if (i == rank)
            continue;
        RAW_CHECK(hsaKmtRegisterSharedHandle(&board->data[i], (void **)&peers[i].data, &size));
        raw_map(peers[i].data, size, node);
        RAW_CHECK(hsaKmtRegisterSharedHandle(&board->flags[i], (void **)&peers[i].flags, &size));
        raw_map(peers[i].flags, size, node);
        raw_queue(&peers[i].queue, node, by_engine ? RAW_BY_ENGINE : RAW_XGMI, by_engine ? engine_for(rank, i) : 0);
    }
}

static void gather(int rank, struct peer *peers, char *done, int round)
{
    char *mine = peers[rank].data;
    for (int k = 1; k < processes; k++) {
        int to = (rank + k) % processes;
        struct raw_queue *queue = &peers[to].queue;
        raw_copy(queue, peers[to].data + (size_t)rank * bytes, mine + (size_t)rank * bytes, (uint32_t)bytes);
        raw_fence(queue, peers[to].flags + rank * LINE, (uint32_t)round);
        raw_poll(queue, peers[rank].flags + to * LINE, (uint32_t)round);
        raw_fence(queue, done + to * LINE, (uint32_t)round);
        raw_ring(queue);
    }
    for (int i = 0; i < processes; i++)
        if (i != rank && !raw_wait(done + i * LINE, (uint32_t)round))
            raw_fail("process %d waits for the block of %d in round %d", rank, i, round);
}

static void run(int rank, int by_engine)
{
    struct peer peers[MAX];
    if (raw_open() < processes)
        raw_fail("there are not enough GPUs");
    meet(rank, peers, by_engine);
    char *done = raw_allocate(0, PAGE, (uint32_t)rank + 1), *mine = peers[rank].data;
    memset(done, 0, PAGE);
    for (int round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < bytes; i++)
            mine[(size_t)rank * bytes + i] = pattern(rank, round, i);
        barrier();
        gather(rank, peers, done, round);
        for (int from = 0; from < processes; from++)
            for (size_t i = 0; i < bytes; i++)
                if (mine[(size_t)from * bytes + i] != pattern(from, round, i))
                    raw_fail("process %d, round %d: byte %zu of %d is wrong", rank, round, i, from);
        barrier();
    }
    for (int i = 0; i < processes; i++)
        if (i != rank)
            raw_destroy(&peers[i].queue);
}

int main(int argc, char **argv)
{
    processes = argc > 3 ? atoi(argv[1]) : 0;
    bytes = argc > 3 ? strtoul(argv[2], NULL, 0) : 0;
    rounds = argc > 3 ? atoi(argv[3]) : 0;
    if (processes < 2 || processes > MAX || bytes < 1 || rounds < 1)
        raw_fail("usage: gather 2..%d BYTES ROUNDS [engines]", MAX);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        raw_fail("no memory");
    for (int rank = 0; rank < processes; rank++) {
        pid_t child = fork();
        if (child < 0)
            raw_fail("no process");
        if (child == 0) {
            run(rank, argc > 4);
            exit(0);
        }
    }
    int bad = 0, status;
    while (wait(&status) > 0)
        bad += status != 0;
    if (bad)
        raw_fail("%d processes failed", bad);
    return 0;
}
