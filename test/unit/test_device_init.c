/*
 * Ranks that fail or end while all make a persistent call in device memory (device/persistent.c): the others get an error, and wait
 * for nobody. Ranks are threads; the last one is the one that fails.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

enum { RANKS = 3, LAST = RANKS - 1, STEPS = 2 };

/* The last rank stops before it has entered the call that gets ready, or before it votes. */
typedef struct fault {
    int step;
    bool ends; /* its process has ended; else it fails, for want of memory */
} fault_t;

static fault_t fault;
static _Atomic(const dma_mapping_t *) ended; /* the arena of the process that has */
static _Atomic int over;                     /* ranks that have an error */

dma_status_t __real_dma_comm_run_own(dma_comm_t *comm, dma_task_t *task, dma_status_t status);
dma_status_t __wrap_dma_comm_run_own(dma_comm_t *comm, dma_task_t *task, dma_status_t status);
dma_status_t __real_dma_device_read_records(dma_comm_t *comm, dma_task_t *task);
dma_status_t __wrap_dma_device_read_records(dma_comm_t *comm, dma_task_t *task);
bool __real_dma_mapping_alive(const dma_mapping_t *mapping);
bool __wrap_dma_mapping_alive(const dma_mapping_t *mapping);

static const dma_mapping_t *arena_of_last;

/* `status`: else. */
static dma_status_t stop_in(const dma_comm_t *comm, int step, dma_status_t status)
{
    if (comm->rank != LAST || fault.step != step) {
        return status;
    }
    if (fault.ends) {
        usleep(20000);
        atomic_store(&ended, arena_of_last);
        while (atomic_load(&over) < LAST) {
            usleep(1000);
        }
    }
    return DMA_ERR_NOMEM;
}

dma_status_t __wrap_dma_comm_run_own(dma_comm_t *comm, dma_task_t *task, dma_status_t status)
{
    return __real_dma_comm_run_own(comm, task, stop_in(comm, 0, status));
}

dma_status_t __wrap_dma_device_read_records(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = stop_in(comm, 1, DMA_OK);

    return status == DMA_OK ? __real_dma_device_read_records(comm, task) : status;
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

    fault = (fault_t){.step = _i % STEPS, .ends = _i >= STEPS};
    atomic_store(&ended, NULL);
    atomic_store(&over, 0);
    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_init");

    unit_loop(s, the_others_get_an_error, 0, 2 * STEPS, 30);
    return unit_main(s);
}
