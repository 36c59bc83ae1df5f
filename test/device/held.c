/*
 * held [-r ROUNDS] [-b BYTES] [-k BUFFERS]: what the driver keeps of memory that a program allocates, uses in collectives
 * and frees, again and again. In every round each rank allocates buffers, receives into half of them, and frees all, in
 * another order each time. The memory of the emulated driver has one descriptor for each piece. The last line of rank 0:
 *
 *     held: 21 at first, 85 at the most, 85 at the end; data right
 *
 * has the greatest numbers of all ranks. "at first" is after 3 rounds.
 */
#include "hip.h"

#include <dirent.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, WARM_UP = 3, BLOCK = 64 };
enum { FIRST, HIGHEST, LAST, WRONG, NUMBERS };

static int pieces(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    char path[300], target[64];
    int n = 0;

    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t bytes = readlink(path, target, sizeof(target) - 1);
        target[bytes > 0 ? bytes : 0] = 0;
        n += strstr(target, "emu-node") != NULL;
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

static int gather(unsigned char *memory, int rank, int ranks, int round)
{
    unsigned char *seen = malloc((size_t)ranks * BLOCK), mine[BLOCK];
    int wrong = 0;

    memset(mine, rank + round, sizeof(mine));
    hip_copy(memory + (size_t)rank * BLOCK, mine, BLOCK);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    hip_copy(seen, memory, (size_t)ranks * BLOCK);
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong += seen[i] != (unsigned char)(i / BLOCK + round);
    }
    free(seen);
    return wrong;
}

static int one_round(int round, int rank, int ranks, size_t bytes, int buffers)
{
    unsigned char *memory[MOST];
    int wrong = 0;

    for (int i = 0; i < buffers; i++) {
        memory[i] = hip_take(bytes);
    }
    for (int i = 0; i < buffers; i += 2) {
        wrong += gather(memory[i], rank, ranks, round);
    }
    for (int i = 0; i < buffers; i++) {
        hip_must("hipFree", hip.hipFree(memory[(i + round) % buffers]));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, ranks, devices, option, rounds = 200, buffers = 4, seen[NUMBERS] = {0}, all[NUMBERS];
    size_t bytes = 8192;

    while ((option = getopt(argc, argv, "r:b:k:")) != -1) {
        rounds = option == 'r' ? atoi(optarg) : rounds;
        bytes = option == 'b' ? strtoul(optarg, NULL, 0) : bytes;
        buffers = option == 'k' ? atoi(optarg) : buffers;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!hip_open(&devices) || buffers > MOST || (size_t)ranks * BLOCK > bytes) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
    for (int round = 0; round < rounds; round++) {
        seen[WRONG] += one_round(round, rank, ranks, bytes, buffers);
        seen[LAST] = pieces();
        seen[FIRST] = round < WARM_UP ? seen[LAST] : seen[FIRST];
        seen[HIGHEST] = seen[LAST] > seen[HIGHEST] ? seen[LAST] : seen[HIGHEST];
    }
    MPI_Reduce(seen, all, NUMBERS, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("held: %d at first, %d at the most, %d at the end; data %s\n", all[FIRST], all[HIGHEST], all[LAST],
               all[WRONG] ? "WRONG" : "right");
    }
    MPI_Finalize();
    return seen[WRONG] ? 4 : 0;
}
