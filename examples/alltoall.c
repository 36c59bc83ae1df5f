/*
 * All-to-all: every rank has a block for each rank, and afterwards one from each rank: the transposition of a matrix of
 * blocks. All-to-all-v does the same with blocks of different sizes. Here rank r sends r + s + 1 pieces to rank s.
 *
 *     mpicc -O2 alltoall.c -o alltoall -ldl && mpirun -n 4 ./alltoall [--device]
 */
#include "example.h"

enum { PIECE = 1000 };

/* What one rank sends to another. */
static int value(int from, int to, int i)
{
    return (from * 100 + to) * 1000 + i % 1000;
}

static int *filled(const int *counts, const int *offsets, int total)
{
    int *data = malloc((size_t)total * sizeof(int));

    for (int to = 0; to < ranks; to++) {
        for (int i = 0; i < counts[to]; i++) {
            data[offsets[to] + i] = value(rank, to, i);
        }
    }
    return data;
}

static long count_wrong(const int *data, const int *counts, const int *offsets)
{
    long wrong = 0;

    for (int from = 0; from < ranks; from++) {
        for (int i = 0; i < counts[from]; i++) {
            wrong += data[offsets[from] + i] != value(from, rank, i);
        }
    }
    return wrong;
}

/* Blocks of `fixed` pieces each, or, with 0, of different sizes. Returns the number of wrong values. */
static long exchange(int fixed, long *checked)
{
    int *counts = malloc(2 * (size_t)ranks * sizeof(int)), *offsets = counts + ranks, total = 0;
    int *send, *recv, *data;
    long wrong;

    /* The sizes are symmetric, so the same counts and offsets describe what is sent and what is received. */
    for (int r = 0; r < ranks; r++) {
        counts[r] = PIECE * (fixed ? fixed : rank + r + 1);
        offsets[r] = total;
        total += counts[r];
    }
    send = example_alloc((size_t)total * sizeof(int));
    recv = example_alloc((size_t)total * sizeof(int));
    data = filled(counts, offsets, total);
    example_copy(send, data, (size_t)total * sizeof(int));
    if (fixed) {
        MPI_Alltoall(send, counts[0], MPI_INT, recv, counts[0], MPI_INT, MPI_COMM_WORLD);
    } else {
        MPI_Alltoallv(send, counts, offsets, MPI_INT, recv, counts, offsets, MPI_INT, MPI_COMM_WORLD);
    }
    example_copy(data, recv, (size_t)total * sizeof(int));
    wrong = count_wrong(data, counts, offsets);
    *checked += total;
    free(data);
    free(counts);
    example_free(send);
    example_free(recv);
    return wrong;
}

int main(int argc, char **argv)
{
    long checked = 0, wrong;

    example_begin(argc, argv);
    wrong = exchange(3, &checked);
    wrong += exchange(0, &checked);
    return example_end("alltoall", checked, wrong);
}
