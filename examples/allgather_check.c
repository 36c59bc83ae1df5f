/*
 * An all-gather whose result is checked byte by byte.
 *
 * Every rank sends a block in which each byte is a function of (round, rank, position). Afterwards every rank must have the
 * blocks of all ranks, in rank order, and nothing after them. There are blocks of several sizes, out of place and in place,
 * with a few rounds each, so that a byte that is left over from the previous round is noticed.
 *
 *     mpirun -n 4 --mca coll dma ./allgather_check
 *
 * Prints one line per size, and exits with 1 if any byte was wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, GUARD = 64, GUARD_BYTE = 0xa5 };

static const int sizes[] = {1, 8, 64, 100, 1024, 4096, 10007, 65536, 1 << 20};

static unsigned char expected(int round, int rank, size_t position)
{
    return (unsigned char)(position * 7 + position / 251 + (size_t)rank * 31 + (size_t)round * 101 + 1);
}

static void fill(unsigned char *block, int bytes, int round, int rank)
{
    for (int i = 0; i < bytes; i++) {
        block[i] = expected(round, rank, (size_t)i);
    }
}

/* Wrong bytes in the receive buffer and after it. */
static long count_wrong(const unsigned char *recv, int bytes, int round, int ranks)
{
    long wrong = 0;

    for (int rank = 0; rank < ranks; rank++) {
        for (int i = 0; i < bytes; i++) {
            wrong += recv[(size_t)rank * bytes + i] != expected(round, rank, (size_t)i);
        }
    }
    for (int i = 0; i < GUARD; i++) {
        wrong += recv[(size_t)ranks * bytes + i] != GUARD_BYTE;
    }
    return wrong;
}

static long one_call(unsigned char *send, unsigned char *recv, int bytes, int round, int in_place)
{
    int rank, ranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(recv, GUARD_BYTE, (size_t)ranks * bytes + GUARD);
    if (in_place) {
        fill(recv + (size_t)rank * bytes, bytes, round, rank);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        fill(send, bytes, round, rank);
        MPI_Allgather(send, bytes, MPI_BYTE, recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
    }
    return count_wrong(recv, bytes, round, ranks);
}

int main(int argc, char **argv)
{
    const int nsizes = sizeof sizes / sizeof *sizes;
    const size_t largest = (size_t)sizes[nsizes - 1];
    unsigned char *send, *recv;
    long all_wrong = 0;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    send = malloc(largest);
    recv = malloc(largest * (size_t)ranks + GUARD);
    if (!send || !recv) {
        fprintf(stderr, "allgather_check: no memory for %d blocks of %zu bytes\n", ranks, largest);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int s = 0; s < nsizes; s++) {
        long wrong = 0, total;

        for (int round = 0; round < ROUNDS; round++) {
            wrong += one_call(send, recv, sizes[s], round, 0);
            wrong += one_call(send, recv, sizes[s], round, 1);
        }
        MPI_Reduce(&wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            long checked = 2L * ROUNDS * ranks * ranks * sizes[s];

            printf("%8d bytes per rank, %d ranks: %9ld bytes checked, %ld wrong\n", sizes[s], ranks, checked, total);
            all_wrong += total;
        }
    }
    MPI_Bcast(&all_wrong, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    free(send);
    free(recv);
    MPI_Finalize();
    return all_wrong != 0;
}
