/* Starts in streams of the application, where processes that share a device take turns; on a fake runtime. */
#include "core/comm.h"
#include "libengine_call.h"
#include "libstream.h"
#include "libunit.h"

enum { STARTS = 3 };

static dma_gpu_runtime_t *rt;

static bool takes_turns(int device)
{
    return device < FAKE_GPU_MAX_DEVICES;
}

/* Ranks 0 and 1 share a device. */
static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    *pci = (dma_gpu_pci_t){.bus = device < 2 ? 7 : 8};
    return DMA_OK;
}

static void ended(void *arg, dma_status_t status)
{
    *(_Atomic int *)arg += status == DMA_OK ? 1 : 1000;
}

/* The n-th start ends. */
static void wait_for_end(rank_t *r, dma_channel_t *channel, const dma_app_stream_t *app, bool in_stream,
                         _Atomic int *n_ended, int n)
{
    if (in_stream) {
        while (call_stream_moves(r, rt, app->stream)) {
            threads_host.progress();
        }
        must(r, dma_channel_end_in_stream(channel, false) == DMA_OK, "end");
    }
    while (*n_ended < n) {
        threads_host.progress();
    }
    must(r, *n_ended == n, "%d starts have ended", *n_ended);
}

static void call_with(rank_t *r, bool in_place)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, in_place, 700);
    call_t *call = call_make(r, &spec);
    bool refused = rt->takes_turns && !in_place && r->rank < 2;
    _Atomic int n = 0;
    dma_app_stream_t app = {.cuda = true};
    dma_channel_t *channel;
    dma_gpu_scope_t scope;

    must(r, dma_channel_create(r->comms[0], &call->call, ended, (void *)&n, &channel) == DMA_OK, "create");
    must(r, rt->enter(r->rank, &scope) == DMA_OK, "enter");
    must(r, rt->stream_create((dma_gpu_stream_t **)&app.stream) == DMA_OK, "stream");
    rt->leave(&scope);
    for (int i = 0; i < STARTS; i++) {
        call_fill(r, call, (uint64_t)i);
        threads_barrier(r);
        must(r,
             dma_channel_start_in_stream(channel, &app, &(dma_in_stream_started_t){0}) ==
                 (refused ? DMA_UNSUPPORTED : DMA_OK),
             "start");
        must(r, !refused || dma_channel_start(channel, NULL) == DMA_OK, "start by the host");
        wait_for_end(r, channel, &app, !refused, &n, i + 1);
        call_verify(r, call);
        threads_barrier(r);
    }
    dma_proc_forget_stream(r->proc, &app);
    must(r, rt->enter(r->rank, &scope) == DMA_OK && rt->stream_destroy(app.stream) == DMA_OK, "destroy");
    rt->leave(&scope);
    dma_channel_destroy(channel);
    threads_barrier(r);
    call_free(call);
}

static void body(rank_t *r)
{
    call_with(r, false);
    call_with(r, true);
}

START_TEST(ranks_that_take_turns)
{
    job_t job;

    rt = stream_machine(0);
    rt->device_pci = pci_of;
    rt->takes_turns = _i ? takes_turns : NULL;
    job = stream_job(3, body, rt, "auto");
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_in_stream_turns), _i ? 2 * STARTS : 0);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_in_stream), _i ? 4 * STARTS : 6 * STARTS);
    fake_gpu_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("in_stream_turns");

    unit_loop(suite, ranks_that_take_turns, 0, 2, 30);
    return unit_main(suite);
}
