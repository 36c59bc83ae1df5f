/*
 * first [-a]: the cost of the first collectives of a job. Every rank takes part in a barrier, then in an all-gather and an
 * all-to-all with blocks of 16 bytes, twice each, and checks every byte. The line of rank 0 has medians over all ranks, with
 * the maximum in brackets:
 *
 *     first: 64 ranks; all-gather 85.1 ms (90.2), again 1.20 ms; all-to-all 60 ms (61), again 2.1 ms; KiB resident after
 *     MPI_Init 9800 (10100), all-gather 11000 (11200), all-to-all 12000 (12100): 9000 private, 3000 shared; data right
 *
 * "private" is anonymous memory of the process, "shared" is memory of files and shared memory, both after the all-to-all. With
 * -a there is no all-to-all. Exit status 4: wrong data.
 *
 * On a busy machine, times are not reliable. So a second line has numbers that depend less on the load: the processor time of
 * all ranks together, in the program and in the kernel, and how often they slept and were preempted (or called sched_yield).
 * The numbers include the wait of early ranks for late ones.
 *
 *     first: processor ms of all ranks, sleeps and preemptions: all-gather 410+220 ms 900 2000; again 8+9 ms 200 310;
 *     all-to-all 80+60 ms 500 600; again 11+8 ms 210 400
 *
 * A third line is about memory after the first all-gather, medians over all ranks: the most that was ever resident, and the
 * rank's share of what is resident, in which memory of several processes counts once (Pss of the kernel).
 *
 *     first: KiB after the first all-gather: at most 11000 resident, share 4000
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CALLS = 4 }; /* an all-gather, again, an all-to-all, again */
enum { BLOCK = 16 };

/* The measurements of a rank. All members are doubles, because they are sent as MPI_DOUBLE. */
typedef struct facts {
    double seconds[CALLS];
    double in_program[CALLS], in_kernel[CALLS]; /* processor time */
    double sleeps[CALLS], preemptions[CALLS];
    double after_init, after_gather, after_exchange, private, shared; /* KiB resident */
    double peak, share;                                               /* KiB, after the first all-gather */
} facts_t;

enum { FACTS = sizeof(facts_t) / sizeof(double) };

/* Reads the KiB of resident memory, and the private and the shared part of it. */
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

/* The number behind a name in a file of /proc; 0: it is not there. */
static double kib_of(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[256];
    double kib = 0;

    while (file && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, name, strlen(name))) {
            sscanf(line + strlen(name), "%lf", &kib);
        }
    }
    if (file) {
        fclose(file);
    }
    return kib;
}

static unsigned char value(int from, int to, int i)
{
    return (unsigned char)(from * 7 + to * 3 + i);
}

static int ranks, rank, wrong;

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

/* Adds the resources used by this process so far, times `sign`, to the facts about a call. */
static void count_use(facts_t *facts, int call, double sign)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    facts->seconds[call] += sign * MPI_Wtime();
    facts->in_program[call] += sign * seconds_of(usage.ru_utime);
    facts->in_kernel[call] += sign * seconds_of(usage.ru_stime);
    facts->sleeps[call] += sign * (double)usage.ru_nvcsw;
    facts->preemptions[call] += sign * (double)usage.ru_nivcsw;
}

static void gather(facts_t *facts, int call)
{
    unsigned char mine[BLOCK], *all = calloc((size_t)ranks, BLOCK);

    for (int i = 0; i < BLOCK; i++) {
        mine[i] = value(rank, 0, i);
    }
    count_use(facts, call, -1);
    MPI_Allgather(mine, BLOCK, MPI_BYTE, all, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    count_use(facts, call, 1);
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong |= all[i] != value(i / BLOCK, 0, i % BLOCK);
    }
    free(all);
}

static void exchange(facts_t *facts, int call)
{
    unsigned char *out = malloc((size_t)ranks * BLOCK), *in = calloc((size_t)ranks, BLOCK);

    for (int i = 0; i < ranks * BLOCK; i++) {
        out[i] = value(rank, i / BLOCK, i % BLOCK);
    }
    count_use(facts, call, -1);
    MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    count_use(facts, call, 1);
    for (int i = 0; i < ranks * BLOCK; i++) {
        wrong |= in[i] != value(i / BLOCK, rank, i % BLOCK);
    }
    free(out);
    free(in);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Computes the median, the maximum and the sum of each fact over all ranks. */
static void summarize(const facts_t *all, facts_t *median, facts_t *most, facts_t *sum)
{
    double *values = malloc((size_t)ranks * sizeof(*values));

    for (int fact = 0; fact < FACTS; fact++) {
        double total = 0;

        for (int r = 0; r < ranks; r++) {
            total += values[r] = ((const double *)&all[r])[fact];
        }
        qsort(values, (size_t)ranks, sizeof(*values), ascending);
        ((double *)median)[fact] = values[ranks / 2];
        ((double *)most)[fact] = values[ranks - 1];
        ((double *)sum)[fact] = total;
    }
    free(values);
}

static void print(const facts_t *all, int any_wrong)
{
    static const char *const names[CALLS] = {"all-gather", "again", "all-to-all", "again"};
    facts_t median, most, sum;

    summarize(all, &median, &most, &sum);
    printf("first: %d ranks; all-gather %.1f ms (%.1f), again %.2f ms; all-to-all %.1f ms (%.1f), again %.2f ms; "
           "KiB resident after MPI_Init %.0f (%.0f), all-gather %.0f (%.0f), all-to-all %.0f (%.0f): %.0f private, "
           "%.0f shared; data %s\n",
           ranks, median.seconds[0] * 1e3, most.seconds[0] * 1e3, median.seconds[1] * 1e3, median.seconds[2] * 1e3,
           most.seconds[2] * 1e3, median.seconds[3] * 1e3, median.after_init, most.after_init, median.after_gather,
           most.after_gather, median.after_exchange, most.after_exchange, median.private, median.shared,
           any_wrong ? "wrong" : "right");
    printf("first: processor ms of all ranks, sleeps and preemptions:");
    for (int call = 0; call < CALLS; call++) {
        printf("%s %s %.0f+%.0f ms %.0f %.0f", call ? ";" : "", names[call], sum.in_program[call] * 1e3,
               sum.in_kernel[call] * 1e3, sum.sleeps[call], sum.preemptions[call]);
    }
    printf("\nfirst: KiB after the first all-gather: at most %.0f resident, share %.0f\n", median.peak, median.share);
}

int main(int argc, char **argv)
{
    facts_t mine = {0}, *all;
    double unused[2];
    int gathers_only = argc > 1 && !strcmp(argv[1], "-a"), any;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    look(&mine.after_init, &unused[0], &unused[1]);
    gather(&mine, 0);
    look(&mine.after_gather, &mine.private, &mine.shared);
    mine.peak = kib_of("/proc/self/status", "VmHWM:");
    MPI_Barrier(MPI_COMM_WORLD); /* so that all processes exist, and their shares do not change */
    mine.share = kib_of("/proc/self/smaps_rollup", "Pss:");
    MPI_Barrier(MPI_COMM_WORLD);
    gather(&mine, 1);
    if (!gathers_only) {
        exchange(&mine, 2);
        exchange(&mine, 3);
    }
    look(&mine.after_exchange, &mine.private, &mine.shared);
    all = malloc((size_t)ranks * sizeof(mine));
    MPI_Gather(&mine, FACTS, MPI_DOUBLE, all, FACTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &any, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        print(all, any);
    }
    free(all);
    MPI_Finalize();
    return wrong ? 4 : 0;
}
