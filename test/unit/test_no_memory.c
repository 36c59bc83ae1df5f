/*
 * Memory runs out while calls in device memory are prepared. The call is still right, in another way, and the reason
 * has a counter of its own. One allocation fails, on rank 1.
 */
#include <stdlib.h>

#include "core/comm.h"
#include "device/device.h"
#include "engine/stream/stream.h"
#include "libengine_call.h"
#include "libunit.h"

#define RANKS 3

static const call_spec_t gather = {.coll = DMA_ALLGATHER, .elements = 900, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

/* What fails next in this thread. */
typedef enum failing {
    NOTHING,
    CALLOC, /* of at least `least` bytes */
    IPC_CREATE,
    IPC_EXPORT,
    IPC_OPEN,
    PLAN,
} failing_t;

static _Thread_local failing_t failing;
static _Thread_local size_t least;

static bool fails(failing_t what)
{
    if (failing != what) {
        return false;
    }
    failing = NOTHING;
    return true;
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    return n * bytes >= least && fails(CALLOC) ? NULL : __real_calloc(n, bytes);
}

dma_ipc_t *__real_dma_ipc_create(const dma_gpu_runtime_t *rt, dma_counters_t *counters);
dma_ipc_t *__wrap_dma_ipc_create(const dma_gpu_runtime_t *rt, dma_counters_t *counters);
dma_ipc_t *__wrap_dma_ipc_create(const dma_gpu_runtime_t *rt, dma_counters_t *counters)
{
    return fails(IPC_CREATE) ? NULL : __real_dma_ipc_create(rt, counters);
}

dma_status_t __real_dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory, dma_export_t *export);
dma_status_t __wrap_dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory, dma_export_t *export);
dma_status_t __wrap_dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *memory, dma_export_t *export)
{
    return fails(IPC_EXPORT) ? DMA_ERR_NOMEM : __real_dma_ipc_export(ipc, memory, export);
}

dma_status_t __real_dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                                 dma_import_t **import);
dma_status_t __wrap_dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                                 dma_import_t **import);
dma_status_t __wrap_dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                                 dma_import_t **import)
{
    return fails(IPC_OPEN) ? DMA_ERR_NOMEM : __real_dma_ipc_open(ipc, device, nonce, export, import);
}

dma_status_t __real_dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes);
dma_status_t __wrap_dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes);
dma_status_t __wrap_dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes)
{
    return fails(PLAN) ? DMA_ERR_NOMEM : __real_dma_device_bind(comm, task, bytes);
}

/* ---- a call ---- */

static void fail_on_rank_1(const rank_t *r)
{
    const failing_t *what = r->job->arg;

    if (r->rank == 1) {
        failing = *what;
        least = sizeof(struct dma_device_comm);
    }
}

static void calls(rank_t *r)
{
    call_t *c = call_make(r, &gather);

    threads_prepare(r, r->comms[0]);
    fail_on_rank_1(r);
    call_run(r, r->comms[0], c, 1);
    must(r, failing == NOTHING, "nothing has failed");
    must(r, call_runs(r->comms[0]) == 0, "an engine has served the call");
    call_run(r, r->comms[0], c, 2); /* now there is memory */
    must(r, call_runs(r->comms[0]) == 1, "no engine has served the second call");
    threads_barrier(r);
    call_free(c);
}

START_TEST(of_a_call)
{
    failing_t cases[] = {IPC_CREATE, CALLOC, IPC_EXPORT, IPC_OPEN};
    job_t job = call_job(RANKS, calls, NULL);

    job.arg = &cases[_i];
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_memory), 1);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_no_engine), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_export), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_open_failed), 0);
}
END_TEST

/* ---- a persistent request ---- */

static void ended(void *arg, dma_status_t status)
{
    *(dma_status_t *)arg = status;
}

static void request(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_channel_t *channel;
    _Atomic dma_status_t status;

    threads_prepare(r, r->comms[0]);
    fail_on_rank_1(r);
    must(r, dma_channel_create(r->comms[0], &c->call, ended, (void *)&status, &channel) == DMA_OK, "not made");
    must(r, failing == NOTHING, "nothing has failed");
    call_fill(r, c, 1);
    status = DMA_AGAIN;
    must(r, dma_channel_start(channel, NULL) == DMA_OK, "not started");
    while (status == DMA_AGAIN) {
        threads_host.progress();
    }
    must(r, status == DMA_OK, "%s", dma_status_name(status));
    call_verify(r, c);
    dma_channel_destroy(channel);
    threads_barrier(r);
    call_free(c);
}

START_TEST(of_a_request)
{
    failing_t cases[] = {IPC_EXPORT, IPC_OPEN, PLAN};
    job_t job = call_job(RANKS, request, NULL);

    job.arg = &cases[_i];
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_unprepared), RANKS);
}
END_TEST

/* ---- the engine stream ---- */

START_TEST(of_streams)
{
    dma_gpu_runtime_t *rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 1, .seed = unit_seed()});
    dma_gpu_config_t config = {.rt = rt, .own_copy = "auto"};
    dma_gpu_bind_params_t params = {.nranks = 2};
    char why[DMA_GPU_WHY_BYTES];
    dma_gpu_unit_t *unit;
    dma_gpu_binding_t *binding;

    failing = CALLOC;
    ck_assert_int_eq(dma_gpu_engine_stream.open(&config, &unit, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "no memory for the engine stream");
    ck_assert_int_eq(dma_gpu_engine_stream.open(&config, &unit, why), DMA_OK);
    failing = CALLOC;
    ck_assert_int_eq(dma_gpu_engine_stream.bind(unit, &params, &binding, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "no memory to bind the engine stream");
    dma_gpu_engine_stream.close(unit);
    fake_gpu_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("no_memory");

    unit_loop(s, of_a_call, 0, 4, 20);
    unit_loop(s, of_a_request, 0, 3, 20);
    unit_test(s, of_streams, 20);
    return unit_main(s);
}
