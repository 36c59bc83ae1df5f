/*
 * Ranks that fail or end while all make a persistent call in device memory (device/persistent.c): the others get an error, and wait
 * for nobody. Ranks are threads; the last one is the one that fails, in one of the exchanges.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "core/setup/bootstrap.h"
#include "libengine_call.h"
#include "libunit.h"

enum { RANKS = 3, LAST = RANKS - 1, EXCHANGES = 2, MOST_BYTES = 16 /* of a record; those of set-ups are larger */ };

typedef struct fault {
    int exchange; /* in which the last rank sends nothing */
    bool ends;    /* its process has ended; else it fails, for want of memory */
} fault_t;

static fault_t fault;
static _Thread_local int exchanges;
static _Atomic(const dma_mapping_t *) ended; /* the arena of the process that has */
static _Atomic int over;                     /* ranks that have an error */

dma_status_t __real_dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                        const void *record, size_t bytes);
dma_status_t __wrap_dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                        const void *record, size_t bytes);
bool __real_dma_mapping_alive(const dma_mapping_t *mapping);
bool __wrap_dma_mapping_alive(const dma_mapping_t *mapping);

static const dma_mapping_t *arena_of_last;

dma_status_t __wrap_dma_bootstrap_begin(dma_bootstrap_t *ex, const dma_host_t *host, void *handle, int rank, int nranks,
                                        const void *record, size_t bytes)
{
    if (rank != LAST || bytes > MOST_BYTES || exchanges++ != fault.exchange) {
        return __real_dma_bootstrap_begin(ex, host, handle, rank, nranks, record, bytes);
    }
    if (fault.ends) {
        usleep(20000);
        atomic_store(&ended, arena_of_last);
        while (atomic_load(&over) < LAST) {
            usleep(1000);
        }
    }
    *ex = (dma_bootstrap_t){0};
    return DMA_ERR_NOMEM;
}

bool __wrap_dma_mapping_alive(const dma_mapping_t *mapping)
{
    return mapping != atomic_load(&ended) && __real_dma_mapping_alive(mapping);
}

static void make(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 1000);
    call_t *c = call_make(r, &spec);
    dma_channel_t *channel;
    dma_status_t status;

    exchanges = 0;
    threads_prepare(r, r->comms[0]);
    if (r->rank == LAST) {
        arena_of_last = r->comms[0]->window.peers[LAST].mapping;
    }
    threads_barrier(r);
    status = dma_channel_create(r->comms[0], &c->call, NULL, NULL, &channel);
    atomic_fetch_add(&over, 1);
    must(r, status < 0, "made: %s", dma_status_name(status));
    if (fault.ends && r->rank != LAST) {
        must(r, status == DMA_ERR_PEER, "%s", dma_status_name(status));
    } else {
        must(r, status == DMA_ERR_NOMEM, "%s", dma_status_name(status));
    }
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_POISONED, "the communicator goes on");
    threads_barrier(r);
    call_free(c);
}

START_TEST(the_others_get_an_error)
{
    job_t job = call_job(RANKS, make, NULL);

    fault = (fault_t){.exchange = _i % EXCHANGES, .ends = _i >= EXCHANGES};
    atomic_store(&ended, NULL);
    atomic_store(&over, 0);
    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_init");

    unit_loop(s, the_others_get_an_error, 0, 2 * EXCHANGES, 30);
    return unit_main(s);
}
