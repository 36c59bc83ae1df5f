/*
 * With -P the sweep proves that engines served device memory, and not, unnoticed, the host.
 *
 * A call whose buffers are plain device memory on all its ranks must be carried out by engines. The statistics of the
 * emulated node show whether it was: in a case with k such calls, queues have ended at least k programs, and so fenced k
 * times. Nearly half of the cases have only one call, so that there the statistics prove this call. Which calls these are is
 * known only at the end, when all ranks have been asked.
 */
#include "sweep.h"

#include "../device/hip.h"

#include <stdio.h>
#include <stdlib.h>

/* For every call of every case: 1 unless something on this rank keeps the engines from it. */
static char *plain;
static struct {
    long rounds[MOST_CALLS];
    long fenced;
} * seen;
static long fences;

static bool proves(void)
{
    return options.memory != MEMORY_MODE_HOST && options.threads == 1 && options.proof;
}

void proof_begin(void)
{
    long n = options.last - options.first + 1;
    if (proves()) {
        hip_stats_t stats;
        plain = calloc((size_t)n, MOST_CALLS);
        seen = calloc((size_t)n, sizeof(*seen));
        if (!hip_stats(&stats)) {
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        fences = stats.fences;
    }
}

static bool is_plain(const buffer_t *b, const type_t *t)
{
    return b->kind >= MEMORY_DEVICE && b->kind <= MEMORY_END && (t->kind == TYPE_BASIC || t->kind == TYPE_CONTIGUOUS);
}

void proof_call(long number, int index, const call_t *call)
{
    if (!proves()) {
        return;
    }
    bool even = !call->op->vector || call->counts == COUNTS_EVEN || call->counts == COUNTS_UNEVEN;
    plain[(number - options.first) * MOST_CALLS + index] =
        !call->comm->member || (call->comm->size > 1 && call->total > 0 && even && units[call->unit].parts == 1 &&
                                is_plain(&call->recv.buffer, &call->recv.type) &&
                                (call->in_place || is_plain(&call->send.buffer, &call->send.type)));
}

void proof_case(const case_t *c)
{
    hip_stats_t stats;
    long at = c->number - options.first;
    if (!proves() || !hip_stats(&stats)) {
        return;
    }
    seen[at].fenced = stats.fences - fences;
    fences = stats.fences;
    for (int i = 0; i < c->ncalls; i++) {
        seen[at].rounds[i] = c->calls[i].comm->member ? c->calls[i].rounds : 0;
    }
}

/* The queues of one rank may do everything in a call: in an exchange, one rank of a pair drives. */
void proof_end(char *wrong)
{
    long n = options.last - options.first + 1, due = 0;
    if (!proves()) {
        return;
    }
    long *done = calloc((size_t)n, sizeof(*done)), *here = calloc((size_t)n, sizeof(*here));
    MPI_Allreduce(MPI_IN_PLACE, plain, (int)(n * MOST_CALLS), MPI_BYTE, MPI_BAND, MPI_COMM_WORLD);
    for (long i = 0; i < n; i++) {
        done[i] = seen[i].fenced;
        for (int k = 0; k < MOST_CALLS; k++) {
            here[i] += plain[i * MOST_CALLS + k] ? seen[i].rounds[k] : 0;
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, done, (int)n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, here, (int)n, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    for (long i = 0; i < n; i++) {
        due += here[i];
        if (done[i] < here[i]) {
            wrong[i] = 1;
            if (world_rank == 0) {
                fprintf(stderr, "sweep: case %ld FAILED: %ld calls were the engines' to do, which ended %ld programs\n",
                        options.first + i, here[i], done[i]);
            }
        }
    }
    free(done);
    free(here);
    free(plain);
    free(seen);
    if (world_rank == 0) {
        printf("%ld calls were the engines' to do\n", due);
    }
}
