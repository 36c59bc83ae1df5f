/*
 * Resets of a device by the application, with CUDA. What a reset has destroyed is not passed to the driver any more,
 * not even to release it, and the device is not used any more. Other devices are not affected. The library that replaces CUDA
 * ends the process at the first call with an object from before a reset.
 */
#include <pthread.h>
#include <string.h>

#include "gpu/cuda/cuda.h"
#include "gpu/ipc.h"
#include "libunit.h"
#include "libvendor.h"

static const dma_gpu_runtime_t *rt;
static fake_driver_t *driver;
static unsigned (*reset_device)(int device);
static unsigned (*retain)(struct CUctx_st **context, int device);
static unsigned (*push)(struct CUctx_st *context);
static unsigned (*pop)(struct CUctx_st **context);
static unsigned (*app_malloc)(cuda_addr_t *addr, size_t bytes);

/* Loop variable of most tests: how the driver behaves. */
enum { NEW_HANDLES = 1, REUSES = 2, NEEDS_CONTEXT = 4, MANNERS = 8 };

static void open_cuda(int manners)
{
    static const char *const library = "libcuda.so.1";

    rt = vendor_cuda(&driver);
    driver->new_handles = manners & NEW_HANDLES;
    driver->reuses = manners & REUSES;
    driver->needs_context = manners & NEEDS_CONTEXT;
    *(void **)&reset_device = vendor_call(library, "cuDevicePrimaryCtxReset_v2");
    *(void **)&retain = vendor_call(library, "cuDevicePrimaryCtxRetain");
    *(void **)&push = vendor_call(library, "cuCtxPushCurrent_v2");
    *(void **)&pop = vendor_call(library, "cuCtxPopCurrent_v2");
    *(void **)&app_malloc = vendor_call(library, "cuMemAlloc_v2");
}

/* The application's cudaMalloc, which makes the context active if it is not active. */
static uint64_t app_alloc(int device)
{
    struct CUctx_st *context;
    cuda_addr_t addr = 0;

    retain(&context, device);
    push(context);
    ck_assert_uint_eq(app_malloc(&addr, 5000), 0);
    pop(&context);
    return addr;
}

static dma_gpu_memory_t classify(uint64_t addr)
{
    dma_gpu_memory_t memory;

    dma_gpu_classify(rt, addr, 100, &memory);
    return memory;
}

/* One object of every kind. */
typedef struct things {
    int device;
    dma_gpu_stream_t *stream;
    dma_gpu_event_t *event;
    dma_gpu_graph_t *graph;
    uint64_t memory, import;
    char registered[8];
} things_t;

#define THINGS 8 /* objects that the driver counts: a graph is two, and there is the private stream */

static void make_things(things_t *t, int device)
{
    dma_gpu_handle_t handle;
    dma_gpu_scope_t scope;
    uint64_t at;

    memset(&handle, 0, sizeof(handle));
    t->device = device;
    ck_assert_int_eq(rt->enter(device, &scope), DMA_OK);
    ck_assert_int_eq(rt->stream_create(&t->stream), DMA_OK);
    ck_assert_int_eq(rt->event_create_timed(&t->event), DMA_OK);
    ck_assert_int_eq(rt->alloc(1000, &t->memory), DMA_OK);
    ck_assert_int_eq(rt->graph_create(t->memory, t->memory + 500, 100, &t->graph), DMA_OK);
    ck_assert_int_eq(rt->ipc_open(&handle, &t->import), DMA_OK);
    ck_assert_int_eq(rt->host_register(t->registered, sizeof(t->registered), &at), DMA_OK);
    ck_assert_int_eq(rt->copy(t->memory, t->import, 10), DMA_OK);
    rt->leave(&scope);
}

/* Every call with these objects succeeds. */
static void use_things(const things_t *t)
{
    uint64_t dst = t->memory, src = t->import, bytes = 8;
    dma_gpu_scope_t scope;
    double ns;

    ck_assert_int_eq(rt->enter(t->device, &scope), DMA_OK);
    ck_assert_int_eq(rt->stream_query(t->stream), DMA_OK);
    ck_assert_int_eq(rt->stream_sync(t->stream), DMA_OK);
    ck_assert_int_eq(rt->copy_async(t->stream, dst, src, bytes), DMA_OK);
    ck_assert_int_eq(rt->copy2d_async(t->stream, dst, 8, src, 8, 8, 1), DMA_OK);
    ck_assert_int_eq(rt->copy_batch(t->stream, &dst, &src, &bytes, 1), DMA_OK);
    ck_assert_int_eq(rt->write32(t->stream, dst, 1), DMA_OK);
    ck_assert_int_eq(rt->event_record(t->event, t->stream), DMA_OK);
    ck_assert_int_eq(rt->event_query(t->event), DMA_OK);
    ck_assert_int_eq(rt->event_elapsed(t->event, t->event, &ns), DMA_OK);
    ck_assert_int_eq(rt->graph_launch(t->graph, t->stream), DMA_OK);
    ck_assert_int_eq(rt->graph_update(t->graph, dst, dst + 500, 100), DMA_OK);
    rt->leave(&scope);
}

/* As all owners do. */
static void release_things(const things_t *t, dma_status_t entered)
{
    dma_gpu_scope_t scope;

    ck_assert_int_eq(rt->enter_to_release(t->device, &scope), entered);
    if (entered == DMA_OK) {
        ck_assert_int_eq(rt->stream_destroy(t->stream), DMA_OK);
        ck_assert_int_eq(rt->event_destroy(t->event), DMA_OK);
        rt->graph_destroy(t->graph);
        ck_assert_int_eq(rt->ipc_close(t->import), DMA_OK);
        ck_assert_int_eq(rt->host_unregister((void *)(uintptr_t)t->registered), DMA_OK);
        ck_assert_int_eq(rt->free(t->memory), DMA_OK);
        rt->leave(&scope);
    }
}

START_TEST(without_a_reset)
{
    things_t a, b;
    unsigned queries, calls;

    open_cuda(_i);
    make_things(&a, 0);
    make_things(&b, 1);
    ck_assert_uint_eq(driver->objects, 2 * (THINGS + 1)); /* and the markers */
    use_things(&a);
    queries = driver->queries;
    calls = driver->calls;
    for (int i = 0; i < 100; i++) {
        use_things(&a);
        use_things(&b);
    }
    ck_assert_uint_eq(driver->queries, queries);       /* calls with objects do not look at a marker */
    ck_assert_uint_eq(driver->calls, calls + 100 * 6); /* contexts and capture modes of the scopes */
    ck_assert(!rt->is_lost(0) && !rt->is_lost(1));
    release_things(&b, DMA_OK);
    release_things(&a, DMA_OK);
    ck_assert_uint_eq(driver->objects, 4); /* the markers and the private streams */
}
END_TEST

/* The application resets the device and ends. No function is called, and no context is made active again. */
START_TEST(released_after_a_reset)
{
    things_t a;

    open_cuda(_i);
    make_things(&a, 0);
    reset_device(0);
    release_things(&a, DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->activated, 1);
    ck_assert_uint_eq(driver->retained, 0);
    ck_assert(rt->is_lost(0));
}
END_TEST

START_TEST(releasing_activates_no_context)
{
    dma_gpu_scope_t scope;

    open_cuda(_i);
    ck_assert_int_eq(rt->enter_to_release(1, &scope), DMA_OK);
    rt->leave(&scope);
    ck_assert_uint_eq(driver->activated, 0);
    ck_assert_uint_eq(driver->retained, 0);
}
END_TEST

/* The application goes on using the device after the reset, and no collective has noticed the reset. */
START_TEST(released_in_a_new_context)
{
    uint64_t id, addr;
    things_t a;

    open_cuda(_i);
    make_things(&a, 0);
    reset_device(0);
    addr = app_alloc(0);
    if (_i & REUSES) { /* all our memory is now at addresses that belong to the application */
        ck_assert_uint_lt(addr, a.import);
    }
    release_things(&a, DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->objects, 1);
    ck_assert_uint_eq(driver->retained, 1); /* by the application */
    id = classify(addr).buffer_id;
    ck_assert_uint_ne(id, 0);
    ck_assert_int_eq(classify(addr).kind, DMA_GPU_DEVICE_PLAIN);
}
END_TEST

static void *classify_in_thread(void *addr)
{
    ck_assert_int_eq(classify(*(const uint64_t *)addr).kind, DMA_GPU_DEVICE_PLAIN);
    return NULL;
}

/* New memory of the application shows the reset, in whichever thread. It is still known as device memory, but the device is not
 * used any more. */
START_TEST(new_memory_and_no_work)
{
    dma_gpu_scope_t scope;
    pthread_t thread;
    things_t a;
    uint64_t addr;

    open_cuda(_i);
    make_things(&a, 0);
    reset_device(0);
    addr = app_alloc(0);
    driver->capturing = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, classify_in_thread, &addr), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(driver->spoilt, 0);
    ck_assert(rt->is_lost(0));
    ck_assert_int_eq(rt->enter(0, &scope), DMA_ERR_ENGINE);
    ck_assert_str_eq(dma_gpu_error(), "device 0 has been reset");
    ck_assert_int_eq(rt->enter_to_release(0, &scope), DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->spoilt, 0);
    driver->capturing = false;
    ck_assert_uint_eq(driver->objects, 1);
    ck_assert_uint_eq(driver->retained, 1);
}
END_TEST

/* Also in a thread whose current context is that of the device that was reset. */
START_TEST(one_of_two_devices)
{
    struct CUctx_st *context;
    things_t a, b;

    open_cuda(_i);
    make_things(&a, 0);
    make_things(&b, 1);
    retain(&context, 0);
    push(context);
    reset_device(0);
    ck_assert_int_eq(classify(b.memory).kind, DMA_GPU_DEVICE_PLAIN);
    use_things(&b);
    release_things(&a, DMA_ERR_ENGINE);
    use_things(&b);
    ck_assert(rt->is_lost(0) && !rt->is_lost(1));
    release_things(&b, DMA_OK);
    ck_assert_uint_eq(driver->objects, 2);   /* the marker and the private stream */
    ck_assert_uint_eq(driver->activated, 1); /* at the beginning */
}
END_TEST

/* There is no memory for the marker. Then a reset is noticed if the context is not active any more. */
START_TEST(a_full_device)
{
    dma_gpu_stream_t *stream;
    dma_gpu_scope_t scope;

    open_cuda(_i);
    driver->full = true;
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(rt->stream_create(&stream), DMA_OK);
    rt->leave(&scope);
    reset_device(0);
    ck_assert_int_eq(rt->enter_to_release(0, &scope), DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->activated, 1);
}
END_TEST

/* The driver has shut down, at the end of the process. */
START_TEST(after_the_driver)
{
    things_t a;

    open_cuda(_i);
    make_things(&a, 0);
    driver->closed = true;
    driver->error = CUDA_DEINITIALIZED;
    reset_device(0); /* what it has done with its contexts */
    release_things(&a, DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->activated, 1);
}
END_TEST

/* A kernel has faulted: every query fails, and this is not a reset. */
START_TEST(a_fault_is_no_reset)
{
    things_t a;

    open_cuda(_i);
    make_things(&a, 0);
    driver->error = 700;
    release_things(&a, DMA_OK);
    ck_assert(!rt->is_lost(0));
    ck_assert_uint_eq(driver->objects, 2); /* the marker and the private stream */
}
END_TEST

/* The cache of imports and registrations: nothing is used that was made before the reset. */
START_TEST(the_ipc_cache)
{
    dma_export_t export = {.number = 1, .base = 4096, .size = 4096, .buffer_id = 9}, other = export;
    dma_import_t *import;
    dma_ipc_t *ipc;
    char word[8];
    uint64_t at;

    other.number = 2;
    other.base = other.buffer_id = 1 << 20;
    open_cuda(_i);
    ipc = dma_ipc_create(rt, NULL);
    ck_assert_int_eq(dma_ipc_open(ipc, 0, 77, &export, &import), DMA_OK);
    ck_assert_int_eq(dma_ipc_register(ipc, 0, word, sizeof(word), &at), DMA_OK);
    reset_device(0);
    if (_i & 1) {
        classify(app_alloc(0));
        ck_assert_int_eq(dma_ipc_open(ipc, 0, 77, &other, &import), DMA_ERR_ENGINE);
        ck_assert_int_eq(dma_ipc_register(ipc, 1, word, sizeof(word), &at), DMA_UNSUPPORTED);
        ck_assert_uint_eq(driver->objects, 1);
    } else {
        dma_ipc_close(ipc, import);
        dma_ipc_unregister(ipc, word);
        ck_assert_uint_eq(driver->activated, 1);
    }
    dma_ipc_destroy(ipc);
}
END_TEST

/* Freeing would wait for the stream, and so perhaps for ever. */
START_TEST(nothing_is_freed_while_a_stream_waits)
{
    enum { MANY = 1000 };
    static uint64_t memory[MANY];
    dma_gpu_scope_t scope;

    open_cuda(_i);
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(rt->alloc(64, &memory[i]), DMA_OK);
    }
    dma_gpu_note_waiting_stream(true);
    for (int i = 1; i < MANY; i++) {
        unsigned before = driver->objects;

        ck_assert_int_eq(rt->free(memory[i]), DMA_OK);
        ck_assert_uint_eq(driver->objects, before);
    }
    dma_gpu_note_waiting_stream(false);
    ck_assert_int_eq(rt->free(memory[0]), DMA_OK);
    ck_assert_uint_eq(driver->objects, 1); /* the marker */
    rt->leave(&scope);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_reset");

    unit_loop(suite, without_a_reset, 0, MANNERS, 10);
    unit_loop(suite, released_after_a_reset, 0, MANNERS, 10);
    unit_loop(suite, releasing_activates_no_context, 0, MANNERS, 10);
    unit_loop(suite, released_in_a_new_context, 0, MANNERS, 10);
    unit_loop(suite, new_memory_and_no_work, 0, MANNERS, 10);
    unit_loop(suite, one_of_two_devices, 0, MANNERS, 10);
    unit_loop(suite, a_full_device, 0, MANNERS, 10);
    unit_loop(suite, after_the_driver, 0, MANNERS, 10);
    unit_loop(suite, a_fault_is_no_reset, 0, MANNERS, 10);
    unit_loop(suite, the_ipc_cache, 0, MANNERS, 10);
    unit_loop(suite, nothing_is_freed_while_a_stream_waits, 0, MANNERS, 10);
    return unit_main_isolated(suite);
}
