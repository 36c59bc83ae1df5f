/*
 * Computation beside a non-blocking all-gather: y = A x, step by step. The rows of the matrix are distributed over the
 * ranks, so each step needs all of x, and each rank has computed a part of it. While the parts are gathered, the rank
 * computes with its own part of x.
 *
 *     mpicc -O2 overlap.c -o overlap -ldl && mpirun -n 4 ./overlap [--device]
 *
 * MPI_Test in between lets Open MPI make progress. GPU engines need that less often than processors do.
 */
#include "example.h"

enum { PART = 240, STEPS = 10 };

/* A matrix that moves every value to the next place and adds the previous one. All values stay small integers. */
static long entry(int row, int column, int n)
{
    return (column == (row + 1) % n) - (column == row);
}

/* y += A x, for the columns of one part of x. */
static void multiply(long *y, const long *x, int part, int n)
{
    for (int i = 0; i < PART; i++) {
        for (int j = 0; j < PART; j++) {
            y[i] += entry(rank * PART + i, part * PART + j, n) * x[j];
        }
    }
}

/* The same on one rank. */
static void multiply_all(long *y, const long *x, int n)
{
    for (int i = 0; i < n; i++) {
        y[i] = (x[(i + 1) % n] - x[i]) % 1000003;
    }
}

static void step(long *mine, long *all, long *part, long *whole, int n)
{
    long y[PART] = {0};
    MPI_Request request;
    int done;

    example_copy(part, mine, PART * sizeof(long));
    MPI_Iallgather(part, PART, MPI_LONG, whole, PART, MPI_LONG, MPI_COMM_WORLD, &request);
    multiply(y, mine, rank, n);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    example_copy(all, whole, (size_t)n * sizeof(long));
    for (int r = 0; r < ranks; r++) {
        if (r != rank) {
            multiply(y, all + r * PART, r, n);
        }
    }
    for (int i = 0; i < PART; i++) {
        mine[i] = y[i] % 1000003;
    }
}

int main(int argc, char **argv)
{
    long mine[PART], *all, *alone, *part, *whole, wrong = 0;
    int n;

    example_begin(argc, argv);
    n = ranks * PART;
    part = example_alloc(PART * sizeof(long));
    whole = example_alloc((size_t)n * sizeof(long));
    all = malloc((size_t)n * sizeof(long));
    alone = malloc(2 * (size_t)n * sizeof(long));
    for (int i = 0; i < n; i++) {
        alone[i] = i * 37 % 1009;
    }
    memcpy(mine, alone + rank * PART, sizeof(mine));
    for (int s = 0; s < STEPS; s++) {
        step(mine, all, part, whole, n);
        multiply_all(alone + (s + 1) % 2 * n, alone + s % 2 * n, n);
    }
    for (int i = 0; i < PART; i++) {
        wrong += mine[i] != alone[STEPS % 2 * n + rank * PART + i];
    }
    free(all);
    free(alone);
    example_free(part);
    example_free(whole);
    return example_end("overlap", PART, wrong);
}
