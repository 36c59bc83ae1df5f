/*
 * MPIX_Partitions_advised: the best number of partitions.
 *
 * The model. A computation and a collective consist of p parts each. Part i of the second one begins after part i of the first:
 * an all-gather before a matrix product, or a product before an all-to-all. Each side does one part at a time:
 *
 *     first side    | 0 | 1 | 2 | 3 |
 *     second side       |  0  |  1  |  2  |  3  |
 *
 *     a = (compute + (p - 1) * loss) / p            one part of the computation
 *     b = latency + (ranks - 1) * bytes / p / bandwidth      one part of the collective
 *     seconds = a + b + (p - 1) * max(a, b)         the same in either order
 *
 * All parts of a side take the same time, so the slower side runs without gaps. More parts make a + b smaller, and each adds
 * `loss` and `latency`. There is no formula for the best p, because only divisors of `tiles` are allowed, and p decides which
 * side is slower. So all numbers up to 64 are tried.
 */
#include <math.h>
#include <mpix_dma.h>
#include <stdbool.h>

/* The most units of a request (parted.h). With more partitions, several would share a unit. */
enum { MOST_PARTS = 64 };

static bool is_amount(double x)
{
    return isfinite(x) && x >= 0;
}

static double seconds_of(const MPIX_Overlap *o, int parts)
{
    double computing = (o->compute + (parts - 1) * o->loss) / parts;
    double moving = o->latency + (o->ranks > 1 && o->bytes > 0 ? (o->ranks - 1) * o->bytes / o->bandwidth / parts : 0);

    return computing + moving + (parts - 1) * (computing > moving ? computing : moving);
}

int MPIX_Partitions_advised(const MPIX_Overlap *overlap, int *parts, double *seconds)
{
    double best;

    if (!overlap || !parts || overlap->ranks < 1 || overlap->tiles < 1 || !is_amount(overlap->bytes) ||
        !is_amount(overlap->compute) || !is_amount(overlap->loss) || !is_amount(overlap->latency) ||
        !is_amount(overlap->bandwidth) || (overlap->bandwidth <= 0 && overlap->bytes > 0 && overlap->ranks > 1)) {
        return MPI_ERR_ARG;
    }
    *parts = 1;
    best = seconds_of(overlap, 1);
    /* More partitions must be faster by more than a rounding error. */
    for (int p = 2; p <= MOST_PARTS && p <= overlap->tiles; p++) {
        if (overlap->tiles % p == 0 && seconds_of(overlap, p) < best * (1 - 1e-9)) {
            best = seconds_of(overlap, p);
            *parts = p;
        }
    }
    if (seconds) {
        *seconds = best;
    }
    return MPI_SUCCESS;
}
