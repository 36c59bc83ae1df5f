/*
 * Epochs of persistent calls have 32 bits: after 2^32 starts, they begin again at 0. Here the first epoch is near the last one.
 */
#include "device/device.h"
#include "libpersistent.h"
#include "libunit.h"

enum { STARTS = 12 };
static const uint32_t first_epoch = UINT32_MAX - STARTS / 2;

uint32_t __wrap_dma_random_epoch(void);

uint32_t __wrap_dma_random_epoch(void)
{
    return first_epoch;
}

static void behind_many_starts(rank_t *r)
{
    const int *coll = r->job->arg;
    call_spec_t spec = call_spec_on_device(*coll, false, 1000);
    bool armed = r->proc->params.prelaunch > 0;
    persistent_t p;

    persistent_make(r, &p, &spec);
    /* as the start before has left it */
    atomic_store(&dma_window_ready(&persistent_inside(&p)->window, r->rank)->word, first_epoch);
    threads_barrier(r);
    for (uint64_t tag = 1; tag <= STARTS; tag++) {
        persistent_start(r, &p, tag);
        must(r, persistent_inside(&p)->device->next_is_armed == armed, "start %llu", (unsigned long long)tag);
        persistent_finish(r, &p);
    }
    must(r, persistent_inside(&p)->device->epoch < STARTS, "the last epoch is %u",
         persistent_inside(&p)->device->epoch);
    persistent_end(r, &p);
}

/* Loop variable: the operation, and whether starts are armed. */
START_TEST(begin_again_at_0)
{
    job_t job = call_job(3, behind_many_starts, NULL);
    int coll = _i / 2, armed = _i % 2;

    job.arg = &coll;
    job.params.armed_seconds = 100;
    job.params.prelaunch = armed;
    call_run_job(&job);
    ck_assert_uint_eq(engine_armed(), armed ? 3 * (STARTS + 1) : 0);
    ck_assert_uint_eq(engine_calls(ENGINE_START), armed ? 0 : 3 * STARTS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_epochs");

    unit_loop(s, begin_again_at_0, 0, 2 * DMA_COLL_COUNT, 20);
    return unit_main(s);
}
