/*
 * What other threads of a process can do while one opens something that takes long: an engine, which tests itself, or the memory of
 * another process, which may not answer.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "core/comm.h"
#include "gpu/ipc.h"
#include "libengine_call.h"
#include "libunit.h"

/* ---- memory of another process ---- */

static dma_gpu_runtime_t *rt;
static dma_ipc_t *share;
static dma_export_t export;
static dma_import_t *import[2];
static pthread_t same;
static dma_status_t (*open_handle)(const dma_gpu_handle_t *, uint64_t *);

static void *open_the_same(void *arg)
{
    (void)arg;
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &export, &import[1]), DMA_OK);
    return NULL;
}

static void *use_the_cache(void *arg)
{
    (void)arg;
    ck_assert(!dma_ipc_is_freed(share, export.number));
    return NULL;
}

static dma_status_t open_slowly(const dma_gpu_handle_t *handle, uint64_t *base)
{
    struct timespec end;
    pthread_t other;

    ck_assert_int_eq(pthread_create(&same, NULL, open_the_same, NULL), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, use_the_cache, NULL), 0);
    clock_gettime(CLOCK_REALTIME, &end);
    ck_assert_int_eq(pthread_timedjoin_np(same, NULL, &(struct timespec){.tv_sec = end.tv_sec + 1}), ETIMEDOUT);
    ck_assert_int_eq(pthread_timedjoin_np(other, NULL, &(struct timespec){.tv_sec = end.tv_sec + 20}), 0);
    return open_handle(handle, base);
}

/* Only who needs the same import waits, and finds it open. */
START_TEST(an_import)
{
    fake_gpu_options_t options = {.devices = 1, .seed = unit_seed()};
    dma_gpu_memory_t m;
    char *a;

    rt = fake_gpu_start(&options);
    share = dma_ipc_create(rt, NULL);
    a = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, 3000);
    dma_gpu_classify(rt, (uint64_t)(uintptr_t)a, 16, &m);
    ck_assert_int_eq(dma_ipc_export(share, &m, &export), DMA_OK);
    open_handle = rt->ipc_open;
    rt->ipc_open = open_slowly;
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &export, &import[0]), DMA_OK);
    ck_assert_int_eq(pthread_join(same, NULL), 0);
    rt->ipc_open = open_handle;
    ck_assert_ptr_eq(import[0], import[1]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_open"), 1);
    dma_ipc_close(share, import[0]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 0);
    dma_ipc_close(share, import[1]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 1);
    fake_gpu_free(a);
    dma_ipc_destroy(share);
    fake_gpu_stop();
}
END_TEST

/* ---- an engine ---- */

static _Atomic int opened;

/* Each rank is a process. Its budget is in it. */
static dma_status_t open_engine(const dma_gpu_config_t *config, dma_gpu_unit_t **unit, char *why)
{
    dma_proc_t *proc = (dma_proc_t *)((char *)config->budget - offsetof(dma_proc_t, budget));

    ck_assert_int_eq(pthread_mutex_trylock(&proc->device_lock), 0); /* calls need it */
    pthread_mutex_unlock(&proc->device_lock);
    ck_assert_int_eq(pthread_mutex_trylock(&proc->lock), 0);
    pthread_mutex_unlock(&proc->lock);
    opened++;
    return engine_list[0]->open(config, unit, why);
}

static void call_once(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 100);
    call_t *c = call_make(r, &spec);

    threads_prepare(r, r->comms[0]);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r); /* peers' engines write to it until then */
    call_free(c);
}

START_TEST(an_engine)
{
    dma_gpu_engine_t engine = *engine_list[0];
    const dma_gpu_engine_t *const engines[] = {&engine, NULL};
    job_t job = call_job(2, call_once, NULL);

    opened = 0;
    engine.open = open_engine;
    job.engines = engines;
    call_run_job(&job);
    ck_assert_int_eq(opened, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_locks");

    unit_test(s, an_import, 40);
    unit_test(s, an_engine, 10);
    return unit_main(s);
}
