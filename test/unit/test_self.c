/* Communicators of one rank: all operations and forms on memory of every kind, without set-up and without messages. */
#include <stdlib.h>

#include "core/comm.h"
#include "libengine_call.h"
#include "libunit.h"

static void count_done(void *arg, dma_status_t status)
{
    *(int *)arg += status == DMA_OK ? 1 : 100;
}

static void run_forms(rank_t *r, call_t *c, uint64_t tag)
{
    dma_comm_t *comm = r->comms[0];
    dma_channel_t *channel;
    dma_task_t *task;
    int done = 0;

    call_run(r, comm, c, tag);
    call_fill(r, c, tag + 1);
    must(r, task_post(comm, &c->call, NULL, NULL, &task) == DMA_OK, "post");
    while (dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(r->proc);
    }
    must(r, dma_task_test(task) == DMA_OK, "posted call");
    task_free(task);
    call_verify(r, c);

    must(r, dma_channel_create(comm, &c->call, count_done, &done, &channel) == DMA_OK, "channel");
    for (int start = 0; start < 3; start++) {
        dma_status_t outcome = DMA_AGAIN;

        call_fill(r, c, tag + 2 + (uint64_t)start);
        must(r, dma_channel_start(channel, &outcome) == DMA_OK, "start");
        while (outcome == DMA_AGAIN && !done) {
            dma_proc_progress(r->proc);
        }
        must(r, outcome == DMA_OK || done == 1, "start %d: %d", start, done);
        done = 0;
        call_verify(r, c);
    }
    dma_channel_destroy(channel);
}

static void every_call(rank_t *r)
{
    uint64_t tag = 1;

    threads_prepare(r, r->comms[0]);
    for (int i = 0; i < DMA_COLL_COUNT * 2 * 2 * PLACES * PLACES; i++, tag += 10) {
        call_spec_t spec = {.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                            .in_place = i / DMA_COLL_COUNT % 2,
                            .vector = i / DMA_COLL_COUNT / 2 % 2,
                            .sizes = tag,
                            .elements = 1 + (size_t)i * 7,
                            .send = (call_place_t)(i / DMA_COLL_COUNT / 4 % PLACES),
                            .recv = (call_place_t)(i / DMA_COLL_COUNT / 4 / PLACES)};
        call_t *c = call_make(r, &spec);

        run_forms(r, c, tag);
        call_free(c);
    }
    must(r, !r->comms[0]->window.own, "it has taken no shared memory");
}

START_TEST(one_rank)
{
    job_t job = call_job(1, every_call, NULL);

    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_scratch_device), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("self");

    unit_test(suite, one_rank, 60);
    return unit_main(suite);
}
