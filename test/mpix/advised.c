/*
 * advised: compares MPIX_Partitions_advised with its definition for random arguments. For every allowed number of partitions,
 * the parts are simulated one by one, in both orders. Needs no mpirun. With the argument `table` it prints the table of
 * docs/user/queues.md.
 */
#include <math.h>
#include <mpix_dma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long state = 88172645463325252ul;
static int cases, more_than_one, all_of_them;

static void must(int right, const char *what, const MPIX_Overlap *o, int parts)
{
    if (!right) {
        printf("%s: %g bytes, %d ranks, %d tiles, compute %g, loss %g, latency %g, bandwidth %g: %d\n", what, o->bytes,
               o->ranks, o->tiles, o->compute, o->loss, o->latency, o->bandwidth, parts);
        exit(1);
    }
}

static double uniform(void)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (double)(state >> 11) / (double)(1ul << 53);
}

/* A random amount: sometimes 0, otherwise of any order of magnitude between `least` and `most`. */
static double amount(double least, double most)
{
    return uniform() < 0.1 ? 0 : least * pow(most / least, uniform());
}

/* Returns the time at which the last part of the second side ends. */
static double carry_out(double first, double second, int parts)
{
    double first_end = 0, second_end = 0;

    for (int i = 0; i < parts; i++) {
        first_end += first;
        second_end = (first_end > second_end ? first_end : second_end) + second;
    }
    return second_end;
}

static double time_of(const MPIX_Overlap *o, int parts, int computes_first)
{
    double lost = o->loss * (parts - 1), wire = 0, a, b;

    if (o->ranks > 1 && o->bytes > 0) {
        wire = o->bytes * (o->ranks - 1) / o->bandwidth;
    }
    a = (o->compute + lost) / parts;
    b = o->latency + wire / parts;
    return computes_first ? carry_out(a, b, parts) : carry_out(b, a, parts);
}

static void compare(const MPIX_Overlap *o)
{
    int parts = -1;
    double seconds = -1, near;

    must(MPIX_Partitions_advised(o, &parts, &seconds) == MPI_SUCCESS, "refused", o, parts);
    must(parts >= 1 && parts <= 64 && o->tiles % parts == 0, "not a number of partitions", o, parts);
    near = seconds * 1e-8;
    for (int order = 0; order < 2; order++) {
        must(fabs(time_of(o, parts, order) - seconds) <= near, "not the time", o, parts);
        for (int p = 1; p <= 64; p++) {
            if (o->tiles % p == 0) {
                must(time_of(o, p, order) >= seconds - near, "there is a better number", o, p);
                must(p >= parts || time_of(o, p, order) > seconds, "fewer are as good", o, p);
            }
        }
    }
    cases++;
    more_than_one += parts > 1;
    all_of_them += parts == o->tiles && parts > 1;
}

static int advised(MPIX_Overlap o)
{
    int parts = -1;

    must(MPIX_Partitions_advised(&o, &parts, NULL) == MPI_SUCCESS, "refused", &o, parts);
    return parts;
}

static int refused(MPIX_Overlap o)
{
    int parts;
    double seconds;

    return MPIX_Partitions_advised(&o, &parts, &seconds) == MPI_ERR_ARG;
}

static void corners(void)
{
    const MPIX_Overlap usual = {
        .bytes = 1e8, .ranks = 4, .tiles = 64, .compute = 1e-3, .loss = 1e-6, .latency = 1e-5, .bandwidth = 3e11};
    MPIX_Overlap o = usual;
    int parts;

#define WITH(member, value) ((o = usual), (o.member = (value)), o)
    must(advised(usual) > 1, "a usual case", &usual, 1);
    must(advised(WITH(bytes, 0)) == 1, "nothing is sent", &o, 2);
    must(advised(WITH(ranks, 1)) == 1, "one rank", &o, 2);
    must(advised(WITH(compute, 0)) == 1, "nothing is computed", &o, 2);
    must(advised(WITH(compute, 1e-6)) == 1, "little is computed", &o, 2);
    must(advised(WITH(bytes, 100)) == 1, "little is sent", &o, 2);
    must(advised(WITH(loss, 1)) == 1 && advised(WITH(latency, 1)) == 1, "parts are expensive", &o, 2);
    must(advised(WITH(tiles, 1)) == 1, "nothing can be cut", &o, 2);
    must(advised(WITH(tiles, 67)) == 1, "a prime number of tiles", &o, 67);
    o = usual, o.loss = o.latency = 0;
    must(advised(o) == 64, "parts cost nothing", &o, 64);
    o = (MPIX_Overlap){.ranks = 1, .tiles = 8};
    must(advised(o) == 1, "nothing at all", &o, 1);
    must(refused(WITH(ranks, 0)) && refused(WITH(tiles, 0)) && refused(WITH(bytes, -1)) &&
             refused(WITH(bandwidth, 0)) && refused(WITH(compute, NAN)) && refused(WITH(loss, -1)) &&
             refused(WITH(latency, INFINITY)),
         "not refused", &o, 0);
    must(MPIX_Partitions_advised(NULL, &parts, NULL) == MPI_ERR_ARG, "no arguments", &o, 0);
    must(MPIX_Partitions_advised(&usual, NULL, NULL) == MPI_ERR_ARG, "no place for the result", &o, 0);
}

/* Prints the rows of the table in docs/user/queues.md. */
static int print_table(void)
{
    const double losses[] = {1e-6, 5e-6, 2e-5}, flops = 6e14;

    for (int n = 1024; n <= 16384; n *= 2) {
        MPIX_Overlap o = {.ranks = 8, .latency = 1e-5, .bandwidth = 3.5e11};

        o.bytes = 2.0 * n * n / o.ranks;
        o.tiles = n / o.ranks / 32;
        o.compute = 2.0 * n * n * n / o.ranks / flops;
        printf("| %d | %.0f us | %.0f us |", n, o.compute * 1e6,
               (o.latency + (o.ranks - 1) * o.bytes / o.bandwidth) * 1e6);
        for (int i = 0; i < 3; i++) {
            double one, best;
            int parts, tiles = o.tiles;
            o.loss = losses[i];
            o.tiles = 1;
            (void)MPIX_Partitions_advised(&o, &parts, &one);
            o.tiles = tiles;
            (void)MPIX_Partitions_advised(&o, &parts, &best);
            printf(" %d, %.2f |", parts, best / one);
        }
        printf("\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "table")) {
        return print_table();
    }
    for (int i = 0; i < 20000; i++) {
        MPIX_Overlap o = {.bytes = amount(1, 1e10),
                          .ranks = 1 + (int)(uniform() * 16),
                          .tiles = 1 + (int)(uniform() * 300),
                          .compute = amount(1e-7, 1),
                          .loss = amount(1e-8, 1e-3),
                          .latency = amount(1e-7, 1e-3),
                          .bandwidth = 1e9 * pow(1e3, uniform())};
        compare(&o);
    }
    corners();
    /* The random arguments must have led to one partition, to several, and to one per tile. */
    if (more_than_one < cases / 10 || more_than_one > cases * 9 / 10 || !all_of_them) {
        printf("of %d cases, %d have several partitions, %d all\n", cases, more_than_one, all_of_them);
        return 1;
    }
    printf("advised: %d cases, 0 wrong\n", cases);
    return 0;
}
