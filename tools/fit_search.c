/*
 * The search for the profile with the lowest loss: the simplex method of Nelder and Mead over the logarithms of the
 * constants, from several starting points.
 */
#include <math.h>
#include <string.h>

#include "tools/fit_model.h"

#define STARTS 3
#define STEPS  1500

/* The constants that the measurements determine. */
#define FITTED(X)                                                                                                      \
    X(build_ps)                                                                                                        \
    X(doorbell_ps)                                                                                                     \
    X(fetch_ps)                                                                                                        \
    X(trigger_ps)                                                                                                      \
    X(armed_ps)                                                                                                        \
    X(first_ps)                                                                                                        \
    X(packet_ps)                                                                                                       \
    X(fence_ps)                                                                                                        \
    X(observe_ps)                                                                                                      \
    X(chain_mbps)                                                                                                      \
    X(bcst_mbps)                                                                                                       \
    X(swap_mbps)
enum {
#define INDEX(name) AT_##name,
    FITTED(INDEX)
#undef INDEX
        DIMS
};

typedef struct point {
    double at[DIMS]; /* logarithms */
    double loss;
} point_t;

typedef struct search {
    const fit_data_t *data;
    uint64_t rows;
    dma_gpu_profile_t profile; /* contains the constants that are not searched */
    uint64_t random;
} search_t;

static dma_gpu_profile_t profile_at(const search_t *s, const double *at)
{
    dma_gpu_profile_t profile = s->profile;

#define SET(name) profile.name = (uint64_t)(exp(at[AT_##name]) + 0.5);
    FITTED(SET)
#undef SET
    return profile;
}

/* For a measured ratio, the loss is the logarithm of its error, at most 0.5, plus its square. For a share, the loss
 * is small up to 7 percentage points and grows quickly beyond. */
double fit_loss(const dma_gpu_profile_t *profile, const fit_data_t *data, uint64_t rows)
{
    double loss = 0, predicted[FIT_COLUMNS], share[4];

    for (size_t r = 0; r < data->nrows; r++) {
        if (rows >> r & 1) {
            fit_predict(profile, &data->rows[r], predicted);
            for (int i = 1; i < FIT_COLUMNS; i++) {
                double e = fabs(log(predicted[i] / data->rows[r].speedup[i]));
                loss += fmin(e, 0.5) + e * e;
            }
        }
    }
    for (size_t p = 0; p < data->nphases; p++) {
        fit_predict_phase(profile, &data->phases[p], share);
        for (int i = 0; i < 4; i++) {
            double points = fabs(share[i] - data->phases[p].share[i]);
            loss += points * points / 200 + fmax(0, points - 7) / 2;
        }
    }
    return loss;
}

static void evaluate(const search_t *s, point_t *p)
{
    dma_gpu_profile_t profile;

    p->loss = HUGE_VAL;
    for (int i = 0; i < DIMS; i++) {
        if (!(p->at[i] > log(1e3) && p->at[i] < log(1e9))) {
            return; /* plausible constants are between a nanosecond and a millisecond */
        }
    }
    profile = profile_at(s, p->at);
    p->loss = fit_loss(&profile, s->data, s->rows);
}

/* a + t * (b - a) */
static point_t between(const search_t *s, const double *a, const double *b, double t)
{
    point_t p;

    for (int i = 0; i < DIMS; i++) {
        p.at[i] = a[i] + t * (b[i] - a[i]);
    }
    evaluate(s, &p);
    return p;
}

/* One step: moves the worst point through the centre of the others, further or less far, or moves all points towards
 * the best. */
static void simplex_step(const search_t *s, point_t *simplex)
{
    int best = 0, worst = 0, second;
    double middle[DIMS] = {0};
    point_t tried, other;

    for (int i = 1; i <= DIMS; i++) {
        best = simplex[i].loss < simplex[best].loss ? i : best;
        worst = simplex[i].loss > simplex[worst].loss ? i : worst;
    }
    second = best;
    for (int i = 0; i <= DIMS; i++) {
        if (i != worst) {
            second = simplex[i].loss > simplex[second].loss ? i : second;
            for (int d = 0; d < DIMS; d++) {
                middle[d] += simplex[i].at[d] / DIMS;
            }
        }
    }
    tried = between(s, middle, simplex[worst].at, -1);
    if (tried.loss < simplex[best].loss) {
        other = between(s, middle, simplex[worst].at, -2);
        simplex[worst] = other.loss < tried.loss ? other : tried;
    } else if (tried.loss < simplex[second].loss) {
        simplex[worst] = tried;
    } else {
        other = between(s, middle, simplex[worst].at, tried.loss < simplex[worst].loss ? -0.5 : 0.5);
        if (other.loss < fmin(tried.loss, simplex[worst].loss)) {
            simplex[worst] = other;
            return;
        }
        for (int i = 0; i <= DIMS; i++) {
            if (i != best) {
                simplex[i] = between(s, simplex[best].at, simplex[i].at, 0.5);
            }
        }
    }
}

static point_t descend(const search_t *s, point_t from, double size)
{
    point_t simplex[DIMS + 1], best;

    for (int i = 0; i <= DIMS; i++) {
        simplex[i] = from;
        if (i) {
            simplex[i].at[i - 1] += size;
        }
        evaluate(s, &simplex[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        simplex_step(s, simplex);
    }
    best = simplex[0];
    for (int i = 1; i <= DIMS; i++) {
        best = simplex[i].loss < best.loss ? simplex[i] : best;
    }
    return best;
}

/* A random number from -1 to 1. */
static double shake(search_t *s)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(s->random >> 33) / (double)(UINT64_C(1) << 30) - 1;
}

/* Rounds to three digits: more would suggest an accuracy that is not there. */
static uint64_t rounded(uint64_t value)
{
    uint64_t unit = 1;

    while (value / unit >= 1000) {
        unit *= 10;
    }
    return (value + unit / 2) / unit * unit;
}

dma_gpu_profile_t fit_search(const fit_data_t *data, uint64_t rows, uint64_t link_mbps, uint64_t own_mbps)
{
    search_t s = {.data = data, .rows = rows, .profile = {.link_mbps = link_mbps, .own_mbps = own_mbps}, .random = 1};
    double scale = 48000.0 / (double)link_mbps; /* on a slower link all times are longer */
    point_t best = {.loss = HUGE_VAL}, start;

    /* The first starting point has plausible round numbers: half a microsecond for an action of a processor or an
     * engine. */
    for (int i = 0; i < DIMS; i++) {
        start.at[i] = log(5e5 * scale);
    }
    start.at[AT_armed_ps] = start.at[AT_build_ps] = start.at[AT_observe_ps] = log(1e5 * scale);
    start.at[AT_fetch_ps] = start.at[AT_first_ps] = start.at[AT_fence_ps] = start.at[AT_trigger_ps] = log(2e6 * scale);
    start.at[AT_chain_mbps] = start.at[AT_bcst_mbps] = start.at[AT_swap_mbps] = log((double)link_mbps);
    for (int i = 0; i < STARTS; i++) {
        point_t p = start;

        for (int d = 0; d < DIMS; d++) {
            p.at[d] += i ? 0.7 * shake(&s) : 0;
        }
        p = descend(&s, descend(&s, p, 0.4), 0.2);
        best = p.loss < best.loss ? p : best;
    }
    s.profile = profile_at(&s, best.at);
#define ROUND(name) s.profile.name = rounded(s.profile.name);
    FITTED(ROUND)
#undef ROUND
    return s.profile;
}
