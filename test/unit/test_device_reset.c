/*
 * A device that the application resets between or during collectives: collectives in its memory fail, on
 * all ranks and without delay. With the stream engine. test_gpu_reset.c tests the tables of the runtimes.
 */
#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libstream.h"
#include "libunit.h"

enum { RANKS = 3, VICTIM = 1 };

static const call_spec_t gather = {.coll = DMA_ALLGATHER, .elements = 900, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

static void run_job(void (*body)(rank_t *r), const char *own_copy)
{
    dma_gpu_runtime_t *rt = stream_machine(30);
    job_t job = stream_job(RANKS, body, rt, own_copy);

    job.ncomms = 2;
    threads_run(&job);
    fake_gpu_stop();
}

static void prepare(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
}

/* The streams of the victim stand still with copies on them, of which nothing tells when they end. */
static void reset_in_a_call(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_status_t status;
    dma_task_t *task;

    prepare(r);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == VICTIM) {
        fake_gpu_hold(VICTIM, true);
    }
    threads_barrier(r);
    call_fill(r, c, 2);
    must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
    if (r->rank == VICTIM) {
        while (!r->comms[0]->head->device->under_way) {
            threads_host.progress();
        }
        fake_gpu_reset(VICTIM);
        fake_gpu_hold(VICTIM, false);
    }
    while ((status = dma_task_test(task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(task);
    must(r, status == DMA_ERR_ENGINE || status == DMA_ERR_PEER, "%s", dma_status_name(status));
    must(r, !r->comms[0]->window.permanent, "its memory is kept as if copies were under way");
    must(r, call_try(r, r->comms[0], c, 3) == status, "the next call");
    threads_barrier(r);
    call_free(c);
}

START_TEST(in_a_call)
{
    static const char *const ways[] = {"graph", "copy", "echo"};

    run_job(reset_in_a_call, ways[_i]);
}
END_TEST

/* Between calls. Calls on other communicators fail, too. */
static void reset_between_calls(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_status_t status;

    prepare(r);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == VICTIM) {
        fake_gpu_reset(VICTIM);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_ERR_ENGINE || status == DMA_ERR_PEER, "%s", dma_status_name(status));
    must(r, dma_comm_prepare(r->comms[1]) == DMA_OK, "%s", dma_comm_reason(r->comms[1]));
    status = call_try(r, r->comms[1], c, 3);
    must(r, status == DMA_ERR_ENGINE || status == DMA_ERR_PEER, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

START_TEST(between_calls)
{
    run_job(reset_between_calls, "auto");
    ck_assert_int_eq(reports_with("reset", "device 1 has been reset"), 2); /* the component prints it once */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_reset");

    unit_loop(s, in_a_call, 0, 3, 20);
    unit_test(s, between_calls, 20);
    return unit_main(s);
}
