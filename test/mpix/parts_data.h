/* A partitioned all-gather of numbers that say who sends them in which round: for programs with one such request. */
#ifndef DMA_TEST_MPIX_PARTS_DATA_H
#define DMA_TEST_MPIX_PARTS_DATA_H

#include "gpu.h"

enum { PARTS = 6, WORDS = 100, MOST_RANKS = 16 };

static int rank, ranks;
static int send[PARTS * WORDS], recv[MOST_RANKS * PARTS * WORDS];
static MPI_Request request = MPI_REQUEST_NULL;

static inline int init(int parts, int words, MPI_Request *r)
{
    return MPIX_Pallgather_init(send, parts, words, MPI_INT, recv, parts, words, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                                r);
}

static inline int value(int turn, int from, int i)
{
    return turn * 100000 + from * 10000 + i;
}

static inline void fill(int turn)
{
    for (int i = 0; i < PARTS * WORDS; i++) {
        send[i] = value(turn, rank, i);
    }
}

/* Checks the partitions from `begin` to `end` of all ranks. */
static inline int is_right(int turn, int begin, int end)
{
    for (int r = 0; r < ranks; r++) {
        for (int i = begin * WORDS; i < end * WORDS; i++) {
            if (recv[r * PARTS * WORDS + i] != value(turn, r, i)) {
                return 0;
            }
        }
    }
    return 1;
}

static inline void ready(int begin, int end)
{
    for (int p = begin; p < end; p++) {
        MUST(MPIX_Pready(p, request) == MPI_SUCCESS);
    }
}

#endif
