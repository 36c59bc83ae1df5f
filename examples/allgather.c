/*
 * All-gather: every rank has a block, and afterwards all ranks have all blocks, in rank order. First from a send buffer,
 * then in place: the rank's own block is already where it belongs.
 *
 *     mpicc -O2 allgather.c -o allgather -ldl && mpirun -n 4 ./allgather [--device]
 */
#include "example.h"

enum { BLOCK = 10000 };

/* A block. Every value in it depends on the rank, on the round and on its place. */
static void fill(int *block, int owner, int round)
{
    for (int i = 0; i < BLOCK; i++) {
        block[i] = (owner * 3 + round) * BLOCK + i;
    }
}

static long count_wrong(const int *all, int round)
{
    static int expected[BLOCK];
    long wrong = 0;

    for (int r = 0; r < ranks; r++) {
        fill(expected, r, round);
        for (int i = 0; i < BLOCK; i++) {
            wrong += all[r * BLOCK + i] != expected[i];
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static int block[BLOCK];
    long wrong = 0;
    size_t bytes;
    int *send, *recv, *result;

    example_begin(argc, argv);
    bytes = (size_t)ranks * sizeof(block);
    send = example_alloc(sizeof(block));
    recv = example_alloc(bytes);
    result = malloc(bytes);

    fill(block, rank, 0);
    example_copy(send, block, sizeof(block));
    MPI_Allgather(send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, MPI_COMM_WORLD);
    example_copy(result, recv, bytes);
    wrong += count_wrong(result, 0);

    fill(block, rank, 1);
    example_copy(recv + rank * BLOCK, block, sizeof(block));
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, BLOCK, MPI_INT, MPI_COMM_WORLD);
    example_copy(result, recv, bytes);
    wrong += count_wrong(result, 1);

    free(result);
    example_free(send);
    example_free(recv);
    return example_end("allgather", 2L * ranks * BLOCK, wrong);
}
