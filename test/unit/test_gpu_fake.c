/* The fake GPU runtime itself: it does what its table promises, late and out of order, and notices misuse. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libgpu_fake.h"
#include "libunit.h"

#define BYTES 65536

static dma_gpu_runtime_t *rt;
static dma_gpu_scope_t scope;

static void begin(unsigned late_us)
{
    rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 2, .seed = unit_seed(), .late_us = late_us});
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
}

static void end(void)
{
    rt->leave(&scope);
    fake_gpu_stop();
}

static uint64_t device_memory(unsigned seed)
{
    uint64_t addr;

    ck_assert_int_eq(rt->alloc(BYTES, &addr), DMA_OK);
    for (int i = 0; i < BYTES; i++) {
        ((unsigned char *)(uintptr_t)addr)[i] = (unsigned char)((unsigned)i * 13 + seed);
    }
    return addr;
}

static bool same(uint64_t a, uint64_t b, size_t n)
{
    return memcmp((void *)(uintptr_t)a, (void *)(uintptr_t)b, n) == 0;
}

START_TEST(a_held_device_is_late_and_a_stream_is_in_order)
{
    dma_gpu_stream_t *stream;
    uint64_t a, b, c;
    uint32_t word = 0;

    begin(100);
    a = device_memory(1);
    b = device_memory(2);
    c = device_memory(3);
    ck_assert_int_eq(rt->stream_create(&stream), DMA_OK);
    fake_gpu_hold(0, true);
    ck_assert_int_eq(rt->copy_async(stream, b, a, BYTES), DMA_OK);
    ck_assert_int_eq(rt->copy_async(stream, c, b, BYTES), DMA_OK);
    ck_assert_int_eq(rt->write32(stream, (uintptr_t)&word, 7), DMA_OK);
    usleep(2000);
    ck_assert_int_eq(rt->stream_query(stream), DMA_AGAIN);
    ck_assert(!same(a, b, BYTES));
    fake_gpu_hold(0, false);
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != 7) {
    }
    ck_assert(same(a, c, BYTES));
    ck_assert_int_eq(rt->stream_sync(stream), DMA_OK);
    ck_assert_int_eq(rt->stream_query(stream), DMA_OK);
    rt->stream_destroy(stream);
    rt->free(a);
    rt->free(b);
    rt->free(c);
    end();
}
END_TEST

/* Two streams of one device write one word. Over many rounds, each of them is sometimes the last. */
START_TEST(streams_complete_out_of_order)
{
    dma_gpu_stream_t *stream[2];
    int last[2] = {0, 0};
    uint32_t word;

    begin(0);
    rt->stream_create(&stream[0]);
    rt->stream_create(&stream[1]);
    for (int round = 0; round < 200; round++) {
        fake_gpu_hold(0, true);
        rt->write32(stream[0], (uintptr_t)&word, 0);
        rt->write32(stream[1], (uintptr_t)&word, 1);
        fake_gpu_hold(0, false);
        rt->stream_sync(stream[0]);
        rt->stream_sync(stream[1]);
        last[word]++;
    }
    ck_assert_int_gt(last[0], 20);
    ck_assert_int_gt(last[1], 20);
    rt->stream_destroy(stream[0]);
    rt->stream_destroy(stream[1]);
    end();
}
END_TEST

START_TEST(a_batch_has_no_order)
{
    dma_gpu_stream_t *stream;
    uint64_t a, dst[2], src[2], bytes[2] = {1, 1};
    unsigned char values[2] = {1, 2};
    int last[3] = {0};

    begin(0);
    a = device_memory(0);
    rt->stream_create(&stream);
    for (int i = 0; i < 2; i++) {
        dst[i] = a;
        src[i] = (uintptr_t)&values[i];
    }
    for (int round = 0; round < 200; round++) {
        rt->copy_batch(stream, dst, src, bytes, 2);
        rt->stream_sync(stream);
        last[*(unsigned char *)(uintptr_t)a]++;
    }
    ck_assert_int_gt(last[1], 20);
    ck_assert_int_gt(last[2], 20);
    rt->stream_destroy(stream);
    rt->free(a);
    end();
}
END_TEST

START_TEST(waits_events_graphs_and_rows)
{
    dma_gpu_stream_t *one, *two;
    dma_gpu_event_t *event;
    dma_gpu_graph_t *graph;
    uint32_t word = 4;
    uint64_t a, b;

    begin(50);
    a = device_memory(1);
    b = device_memory(2);
    rt->stream_create(&one);
    rt->stream_create(&two);
    rt->event_create(&event);
    ck_assert_int_eq(rt->event_query(event), DMA_OK);
    fake_gpu_wait32(one, (uintptr_t)&word, 5);
    rt->copy2d_async(one, b, 200, a, 100, 50, 3);
    rt->event_record(event, one);
    rt->graph_create(a, b, 100, &graph);
    rt->graph_update(graph, b + 1000, b, 450);
    rt->graph_launch(graph, one);
    usleep(3000);
    ck_assert_int_eq(rt->event_query(event), DMA_AGAIN);
    ck_assert_int_eq(rt->stream_query(one), DMA_AGAIN);
    ck_assert_int_eq(rt->stream_query(two), DMA_OK);
    __atomic_store_n(&word, 6, __ATOMIC_RELEASE);
    ck_assert_int_eq(rt->stream_sync(one), DMA_OK);
    ck_assert(same(b + 400, a + 200, 50));
    ck_assert(same(b + 1000, b, 450));
    ck_assert_int_eq(rt->event_query(event), DMA_OK);
    rt->graph_destroy(graph);
    rt->event_destroy(event);
    rt->stream_destroy(one);
    rt->stream_destroy(two);
    rt->free(a);
    rt->free(b);
    end();
}
END_TEST

START_TEST(an_opened_handle_is_another_address_of_the_same_bytes)
{
    dma_gpu_handle_t handle, bad = {{1}};
    dma_gpu_memory_t memory;
    uint64_t a, there;

    begin(0);
    a = device_memory(9);
    ck_assert_int_eq(rt->ipc_export(a, &handle), DMA_OK);
    ck_assert_int_eq(rt->ipc_open(&handle, &there), DMA_OK);
    ck_assert_uint_ne(a, there);
    ck_assert(same(a, there, BYTES));
    dma_gpu_classify(rt, there, BYTES, &memory);
    ck_assert_int_eq(memory.kind, DMA_GPU_DEVICE_IMPORTED);
    ck_assert_int_eq(rt->ipc_close(there), DMA_OK);
    ck_assert_int_eq(rt->ipc_open(&bad, &there), DMA_UNSUPPORTED);
    rt->free(a);
    ck_assert_int_eq(rt->ipc_open(&handle, &there), DMA_UNSUPPORTED);
    end();
}
END_TEST

START_TEST(failures_happen_when_told)
{
    uint64_t a;

    begin(0);
    fake_gpu_fail("alloc", 1, DMA_ERR_NOMEM);
    ck_assert_int_eq(rt->alloc(100, &a), DMA_OK);
    rt->free(a);
    ck_assert_int_eq(rt->alloc(100, &a), DMA_ERR_NOMEM);
    ck_assert_int_eq(rt->alloc(100, &a), DMA_OK);
    rt->free(a);
    ck_assert_uint_eq(fake_gpu_calls("alloc"), 3);
    end();
}
END_TEST

/* The fake runtime must notice each of these mistakes. */
START_TEST(misuse_aborts)
{
    dma_gpu_stream_t *stream;
    dma_gpu_handle_t handle;
    uint32_t word = 0;
    uint64_t a;

    begin(0);
    a = device_memory(0);
    rt->stream_create(&stream);
    switch (_i) {
    case 0:
        rt->copy_async(stream, a + 1, (uintptr_t)&word, BYTES);
        break;
    case 1:
        rt->ipc_export((uintptr_t)fake_gpu_alloc(DMA_GPU_DEVICE_VMM, 0, 100), &handle);
        break;
    case 2:
        rt->leave(&scope);
        rt->stream_sync(stream);
        break;
    case 3:
        rt->enter(1, &scope);
        rt->copy_async(stream, a, a + 10, 10);
        break;
    case 4:
        fake_gpu_wait32(stream, (uintptr_t)&word, 1);
        rt->stream_destroy(stream);
        break;
    case 5:
        rt->free(a + 1);
        break;
    case 6:
        rt->free(a);
        fake_gpu_stop();
        break;
    case 7:
        rt->ipc_export((uintptr_t)&word, &handle);
        break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_fake");
    TCase *misuse = tcase_create("misuse_aborts");

    unit_test(suite, a_held_device_is_late_and_a_stream_is_in_order, 10);
    unit_test(suite, streams_complete_out_of_order, 20);
    unit_test(suite, a_batch_has_no_order, 20);
    unit_test(suite, waits_events_graphs_and_rows, 10);
    unit_test(suite, an_opened_handle_is_another_address_of_the_same_bytes, 10);
    unit_test(suite, failures_happen_when_told, 10);
    tcase_add_loop_test_raise_signal(misuse, misuse_aborts, SIGABRT, 0, 8);
    suite_add_tcase(suite, misuse);
    return unit_main(suite);
}
