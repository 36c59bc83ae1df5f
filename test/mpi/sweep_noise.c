/* Random numbers, skew between ranks, and the user's own messages around the collectives. */
#include "sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x2545F4914F6CDD1Du;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

rng_t rng_make(uint64_t a, uint64_t b, uint64_t c)
{
    return (rng_t){mix(mix(mix(options.seed, a), b), c)};
}

uint64_t rng_next(rng_t *rng)
{
    rng->state += 0x9E3779B97F4A7C15u;
    return mix(rng->state, 0);
}

long rng_below(rng_t *rng, long n)
{
    return (long)(rng_next(rng) % (uint64_t)n);
}

bool rng_chance(rng_t *rng, int percent)
{
    return rng_below(rng, 100) < percent;
}

long rng_log(rng_t *rng, long low, long high)
{
    double u = (double)(rng_next(rng) >> 11) / 9007199254740992.0;
    long value = (long)((double)low * exp(u * log(((double)high + 1) / (double)low)));
    return value < low ? low : value > high ? high : value;
}

static void busy(double seconds)
{
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;) {
    }
}

void skew_some(rng_t *rng)
{
    switch (rng_below(rng, 4)) {
    case 0:
        busy(1e-6 * (double)rng_below(rng, 40));
        break;
    case 1:
        usleep((useconds_t)rng_below(rng, 200));
        break;
    default:
        break;
    }
}

void skew_late(rng_t *rng)
{
    usleep((useconds_t)rng_below(rng, 2000));
}

/* ---- traffic ---- */
const char *const traffic_kind_names[TRAFFIC_KINDS] = {"none",   "around",  "late",   "wildcard",
                                                       "needed", "between", "crossed"};
enum { GUARD = 32, GUARD_BYTE = 0xA7 };

static unsigned char message_byte(uint64_t key, int source, long at)
{
    return (unsigned char)(key + (uint64_t)source * 59 + (uint64_t)at * 13 + (uint64_t)(at >> 8));
}

static void send_now(traffic_t *t)
{
    if (t->to >= 0) {
        MPI_Isend(t->out, (int)t->bytes, MPI_BYTE, t->to, t->tag, t->comm->comm, &t->requests[0]);
    }
}

static void receive_now(traffic_t *t)
{
    if (t->from >= 0) {
        bool wild = t->kind == TRAFFIC_WILDCARD;
        int from = wild && t->any_source ? MPI_ANY_SOURCE : t->from;
        int tag = wild && !t->any_source ? MPI_ANY_TAG : t->tag;
        MPI_Irecv(t->in + GUARD, (int)t->bytes, MPI_BYTE, from, tag, t->comm->comm, &t->requests[1]);
    }
}

/* The tag is the number of the case, so that a wildcard source cannot match a message of the next case. */
void traffic_before(traffic_t *t, traffic_kind_t kind, const comm_t *comm, long number, rng_t rng)
{
    *t = (traffic_t){.kind = kind, .comm = comm, .to = -1, .from = -1};
    t->requests[0] = t->requests[1] = MPI_REQUEST_NULL;
    if (kind == TRAFFIC_NONE || !comm->member) {
        t->kind = TRAFFIC_NONE;
        return;
    }
    int size = comm->size, rank = comm->rank;
    int shift = size > 1 ? 1 + (int)rng_below(&rng, size - 1) : 0;
    if (kind != TRAFFIC_NEEDED && kind != TRAFFIC_CROSSED) {
        t->to = (rank + shift) % size;
        t->from = (rank + size - shift) % size;
    } else if (rank % 2) {
        t->from = rank - 1;
    } else if (rank + 1 < size) {
        t->to = rank + 1;
    }
    t->bytes = rng_log(&rng, 1, rng_chance(&rng, 85) ? 2000 : 100000);
    t->any_source = rng_chance(&rng, 50);
    t->tag = 1 + (int)(number % 30000);
    t->key = rng_next(&rng);
    t->out = malloc((size_t)t->bytes);
    t->in = malloc((size_t)t->bytes + 2 * GUARD);
    memset(t->in, GUARD_BYTE, (size_t)t->bytes + 2 * GUARD);
    for (long i = 0; i < t->bytes; i++) {
        t->out[i] = message_byte(t->key, rank, i);
    }
    switch (kind) {
    case TRAFFIC_AROUND:
        receive_now(t);
        send_now(t);
        break;
    case TRAFFIC_LATE:
    case TRAFFIC_BETWEEN:
        send_now(t);
        break;
    case TRAFFIC_WILDCARD:
        receive_now(t);
        break;
    default: /* needed, crossed */
        if (kind == TRAFFIC_NEEDED) {
            send_now(t);
        }
        receive_now(t);
        MPI_Wait(&t->requests[1], MPI_STATUS_IGNORE);
        break;
    }
}

void traffic_between(traffic_t *t)
{
    if (t->kind == TRAFFIC_BETWEEN) {
        receive_now(t);
        MPI_Wait(&t->requests[1], MPI_STATUS_IGNORE);
    } else if (t->kind == TRAFFIC_CROSSED && t->to >= 0) {
        MPI_Ssend(t->out, (int)t->bytes, MPI_BYTE, t->to, t->tag, t->comm->comm);
    }
}

bool traffic_after(traffic_t *t)
{
    if (t->kind == TRAFFIC_NONE) {
        return true;
    }
    if (t->kind == TRAFFIC_LATE) {
        receive_now(t);
    } else if (t->kind == TRAFFIC_WILDCARD) {
        send_now(t);
    }
    MPI_Waitall(2, t->requests, MPI_STATUSES_IGNORE);
    bool right = true;
    if (t->from >= 0) {
        for (long i = -GUARD; i < t->bytes + GUARD; i++) {
            bool guard = i < 0 || i >= t->bytes;
            right &= t->in[GUARD + i] == (guard ? GUARD_BYTE : message_byte(t->key, t->from, i));
        }
    }
    free(t->out);
    free(t->in);
    return right;
}
