/*
 * A persistent all-gather. All arguments are given once, and every turn of the loop only starts it. coll/dma prepares as
 * much as it can in advance. With GPU engines that includes the programs of their copies.
 *
 * MPI 4 calls it MPI_Allgather_init. Open MPI 4.1 has it as an extension with another name, see example.h.
 *
 *     mpicc -O2 persistent.c -o persistent -ldl && mpirun -n 4 ./persistent [--device]
 */
#include "example.h"

enum { BLOCK = 4096, TURNS = 50 };

int main(int argc, char **argv)
{
    static double block[BLOCK];
    double *send, *recv, *result;
    MPI_Request request;
    long wrong = 0;
    size_t bytes;

    example_begin(argc, argv);
    bytes = (size_t)ranks * sizeof(block);
    send = example_alloc(sizeof(block));
    recv = example_alloc(bytes);
    result = malloc(bytes);
    MPI_Allgather_init(send, BLOCK, MPI_DOUBLE, recv, BLOCK, MPI_DOUBLE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < BLOCK; i++) {
            block[i] = turn + rank * 1e-3 + i * 1e-9;
        }
        /* Between a wait and the next start, the buffers belong to the program. */
        example_copy(send, block, sizeof(block));
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        example_copy(result, recv, bytes);
        for (int i = 0; i < ranks * BLOCK; i++) {
            wrong += result[i] != turn + i / BLOCK * 1e-3 + i % BLOCK * 1e-9;
        }
    }
    MPI_Request_free(&request);
    free(result);
    example_free(send);
    example_free(recv);
    return example_end("persistent", (long)TURNS * ranks * BLOCK, wrong);
}
