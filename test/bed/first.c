/*
 * first [-a]: what the first collectives of a job cost. Every rank takes part in a barrier, an all-gather and an all-to-all of 16
 * bytes a block, twice each, and checks every byte. The line of rank 0 has medians over all ranks, and the greatest value in brackets:
 *
 *     first: 64 ranks; all-gather 85.1 ms (90.2), again 1.20 ms; all-to-all 60 ms (61), again 2.1 ms; KiB resident after
 *     MPI_Init 9800 (10100), all-gather 11000 (11200), all-to-all 12000 (12100): 9000 private, 3000 shared; data right
 *
 * "private" is memory of this process alone, "shared" that of files and shared memory, both after the all-to-all. With -a
 * there is no all-to-all. Exit status 4: wrong data.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, PRIVATE = 6, SHARED = 7, FACTS = 8 };

/* KiB: resident; of that private, and in files or shared memory. */
static void look(double *resident, double *private, double *shared)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double anon = 0, mapped = 0, shmem = 0;

    while (file && fgets(line, sizeof(line), file)) {
        sscanf(line, "RssAnon: %lf", &anon);
        sscanf(line, "RssFile: %lf", &mapped);
        sscanf(line, "RssShmem: %lf", &shmem);
    }
    if (file) {
        fclose(file);
    }
    *resident = anon + mapped + shmem;
    *private = anon;
    *shared = shmem;
}

static unsigned char value(int from, int to, int i)
{
    return (unsigned char)(from * 7 + to * 3 + i);
}

static int ranks, rank, wrong;

static double gather(void)
{
    unsigned char mine[BLOCK], *all = calloc((size_t)ranks, BLOCK);
    double began = MPI_Wtime();

    for (int i = 0; i < BLOCK; i++) {
        mine[i] = value(rank, 0, i);
    }
    MPI_Allgather(mine, BLOCK, MPI_BYTE, all, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    began = MPI_Wtime() - began;
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong |= all[i] != value(i / BLOCK, 0, i % BLOCK);
    }
    free(all);
    return began;
}

static double exchange(void)
{
    unsigned char *out = malloc((size_t)ranks * BLOCK), *in = calloc((size_t)ranks, BLOCK);
    double began;

    for (int i = 0; i < ranks * BLOCK; i++) {
        out[i] = value(rank, i / BLOCK, i % BLOCK);
    }
    began = MPI_Wtime();
    MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    began = MPI_Wtime() - began;
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong |= in[i] != value(i / BLOCK, rank, i % BLOCK);
    }
    free(out);
    free(in);
    return began;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Both of one fact over all ranks. */
static void summarize(const double *all, int fact, double *median, double *most)
{
    double *values = malloc((size_t)ranks * sizeof(*values));

    for (int r = 0; r < ranks; r++) {
        values[r] = all[r * (FACTS + 3) + fact];
    }
    qsort(values, (size_t)ranks, sizeof(*values), ascending);
    *median = values[ranks / 2];
    *most = values[ranks - 1];
    free(values);
}

int main(int argc, char **argv)
{
    double mine[FACTS + 3] = {0}, *all = NULL, median[FACTS + 3], most[FACTS + 3], unused[2];
    int gathers_only = argc > 1 && !strcmp(argv[1], "-a"), any;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    look(&mine[4], &unused[0], &unused[1]);
    mine[0] = gather();
    look(&mine[5], &mine[PRIVATE], &mine[SHARED]);
    mine[1] = gather();
    if (!gathers_only) {
        mine[2] = exchange();
        mine[3] = exchange();
    }
    look(&mine[8], &mine[PRIVATE], &mine[SHARED]);
    all = malloc((size_t)ranks * sizeof(mine));
    MPI_Gather(mine, FACTS + 3, MPI_DOUBLE, all, FACTS + 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &any, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < FACTS + 3; i++) {
            summarize(all, i, &median[i], &most[i]);
        }
        printf("first: %d ranks; all-gather %.1f ms (%.1f), again %.2f ms; all-to-all %.1f ms (%.1f), again %.2f ms; "
               "KiB resident "
               "after MPI_Init %.0f (%.0f), all-gather %.0f (%.0f), all-to-all %.0f (%.0f): %.0f private, %.0f shared; "
               "data %s\n",
               ranks, median[0] * 1e3, most[0] * 1e3, median[1] * 1e3, median[2] * 1e3, most[2] * 1e3, median[3] * 1e3,
               median[4], most[4], median[5], most[5], median[8], most[8], median[PRIVATE], median[SHARED],
               any ? "wrong" : "right");
    }
    free(all);
    MPI_Finalize();
    return wrong ? 4 : 0;
}
