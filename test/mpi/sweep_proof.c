/*
 * With -P the sweep proves that engines served device memory, and not, unnoticed, the host.
 *
 * A call whose buffers are plain device memory on all its ranks must be carried out by engines. The statistics of the
 * emulated node show whether it was: in a case with k such calls, queues have ended at least k programs, and so fenced k
 * times. Nearly half of the cases have only one call, so that there the statistics prove this call. Which calls these are is
 * known only at the end, when all ranks have been asked. Then the counters of coll/dma must agree on every rank.
 *
 * With the fake CUDA (DMA_TEST_GPU=cuda), the words that streams have written stand for the fences.
 */
#include "sweep.h"

#include "../device/hip.h"
#include "../device/pvar.h"

#include <stdio.h>
#include <stdlib.h>

/* For every call of every case: 1 unless something on this rank keeps the engines from it. */
static char *plain;
static struct {
    long rounds[MOST_CALLS];
    long fenced;
} * seen;
static long fences;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle engines[2];

static bool proves(void)
{
    return options.memory != MEMORY_MODE_HOST && options.threads == 1 && options.proof;
}

void proof_begin(void)
{
    long n = options.last - options.first + 1;
    int provided;
    if (proves()) {
        hip_stats_t stats;
        plain = calloc((size_t)n, MOST_CALLS);
        seen = calloc((size_t)n, sizeof(*seen));
        if (!hip_stats(&stats)) {
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        fences = stats.fences;
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        MPI_T_pvar_session_create(&session);
        engines[0] = pvar_open(session, "coll_dma_engine_sdma", MPI_T_PVAR_CLASS_COUNTER);
        engines[1] = pvar_open(session, "coll_dma_engine_stream", MPI_T_PVAR_CLASS_COUNTER);
    }
}

static bool is_plain(const buffer_t *b)
{
    bool plain = b->kind >= MEMORY_DEVICE && b->kind <= MEMORY_END;
    for (int i = 0; i < b->nblocks; i++) {
        type_kind_t kind = b->blocks[i].type->kind;
        plain = plain && (kind == TYPE_BASIC || kind == TYPE_CONTIGUOUS);
    }
    return plain;
}

void proof_call(long number, int index, const call_t *call)
{
    if (!proves()) {
        return;
    }
    bool even = !call->op->vector || call->counts == COUNTS_EVEN || call->counts == COUNTS_UNEVEN;
    plain[(number - options.first) * MOST_CALLS + index] =
        !call->comm->member || (call->comm->size > 1 && call->total > 0 && even && units[call->unit].parts == 1 &&
                                is_plain(&call->recv.buffer) && (call->in_place || is_plain(&call->send.buffer)));
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

/* Calls that engines have carried out on this rank, as coll/dma has counted them since the handles were made. */
static long counted_calls(void)
{
    long calls = pvar_value(session, engines[0]) + pvar_value(session, engines[1]);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return calls;
}

/* The queues of one rank may do everything in a call: in an exchange, one rank of a pair drives. */
void proof_end(char *wrong)
{
    long n = options.last - options.first + 1, due = 0, own = 0, counted;
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
        own += here[i];
    }
    if ((counted = counted_calls()) < own) {
        wrong[n - 1] = 1;
        fprintf(stderr, "sweep: rank %d FAILED: %ld calls were the engines' to do, which have counted %ld\n",
                world_rank, own, counted);
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
