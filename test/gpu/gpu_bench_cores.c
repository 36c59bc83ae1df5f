/*
 * The cores that ranks run on: each rank has a share of them, and its thread may move to the quickest one of its share.
 *
 * Two virtual cores may be threads of one real core, and the other one somebody else's: then a process runs at two thirds
 * of its speed, for seconds. Calls that are made of the processor's time differ by 40 % with the cores that their ranks
 * happen to have. A move before each size gives all that is measured at that size the same cores, and good ones.
 */
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include "gpu_bench.h"

static volatile uint64_t sink;

enum { TRIES = 4, ROUNDS = 20000 };

static long first, share; /* 0: too few cores to speak of shares */

static void use(long from, long n)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (long i = 0; i < n; i++) {
        CPU_SET((size_t)(from + i), &set);
    }
    (void)sched_setaffinity(0, sizeof(set), &set);
}

void cores_share(void)
{
    share = sysconf(_SC_NPROCESSORS_ONLN) / bench.n;
    first = bench.rank * share;
    if (share < 4) { /* progress threads of others need some */
        share = 0;
        return;
    }
    use(first, share);
}

/* Independent chains of arithmetic: they notice who else uses the units. */
static double loop_us(void)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5;
    double t = now_us();

    for (uint64_t i = 0; i < ROUNDS; i++) {
        a = a * 5 + i;
        b = b * 7 ^ i;
        c += a >> 3;
        d ^= b << 1;
        e += i * 3;
    }
    sink = a + b + c + d + e;
    return now_us() - t;
}

/* The quickest loop on a core does not tell who came and went meanwhile: the slowest one counts. */
static double slowest_us(void)
{
    double most = 0;

    loop_us();
    for (int i = 0; i < TRIES; i++) {
        double t = loop_us();

        most = t > most ? t : most;
    }
    return most;
}

void cores_choose(void)
{
    long best = first;
    double least = 0;

    if (!bench.choose || !share) {
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all choose at once: ranks that wait for others disturb them */
    for (long i = first; i < first + share; i++) {
        double t;

        use(i, 1);
        t = slowest_us();
        if (i == first || t < least) {
            least = t;
            best = i;
        }
    }
    use(best, 1);
    MPI_Barrier(MPI_COMM_WORLD);
}
