/*
 * How many partitions are worth it: MPIX_Partitions_advised.
 *
 * The model. A computation and a collective are cut into p parts each. The parts of one follow the parts of the other, in
 * either order: an all-gather before a matrix product, or a product before an all-to-all. Each side does one part at a
 * time:
 *
 *     first side    | 0 | 1 | 2 | 3 |
 *     second side       |  0  |  1  |  2  |  3  |
 *
 *     a = (compute + (p - 1) * loss) / p            one part of the computation
 *     b = latency + (ranks - 1) * bytes / p / bandwidth      one of the collective
 *     seconds = a + b + (p - 1) * max(a, b)         the same in either order
 *
 * All parts of a side take the same time, so the slower side runs without a gap between the first part and the last of
 * the other. More parts make a + b smaller, and add `loss` and `latency` each. There is no formula for the best p, because only
 * divisors of `tiles` are allowed and the longer side may change with p; at most 64 numbers are tried.
 */
#include <math.h>
#include <mpix_dma.h>
#include <stdbool.h>

/* Units of a request, parted.h: more partitions would not be sent on their own. */
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
    /* What is not better by more than rounding is not worth it. */
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
