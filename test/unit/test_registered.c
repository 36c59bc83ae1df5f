/*
 * While a stream of the application waits (gpu/runtime.h): registrations that cannot end (gpu/registered.h) end later, or are used again;
 * and no stream begins to wait in the middle of a call that would wait for it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "gpu/registered.h"
#include "libgpu_fake.h"
#include "libunit.h"

#define BYTES 4096

static dma_gpu_runtime_t *rt;
static dma_registration_t *list;
static char memory[3 * BYTES];

static void begin(void)
{
    rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 2, .seed = unit_seed()});
    list = NULL;
}

static void end(void)
{
    ck_assert_ptr_null(list);
    ck_assert_uint_eq(fake_gpu_pinned(), 0);
    fake_gpu_stop();
}

/* From now on no registration can end; or: each can. */
static void hold(bool held)
{
    fake_gpu_fail_often("host_unregister", 0, held ? 1000 : 0, DMA_AGAIN);
}

static void add(int page, int pages)
{
    uint64_t at;

    ck_assert_int_eq(dma_registered_add(&list, rt, 0, memory + page * BYTES, (size_t)pages * BYTES, &at), DMA_OK);
    ck_assert_uint_eq(at, (uintptr_t)memory + (unsigned)page * BYTES); /* in the fake */
}

static dma_status_t remove_page(int page)
{
    return dma_registered_remove(&list, rt, memory + page * BYTES);
}

START_TEST(ends_with_a_later_call)
{
    begin();
    add(0, 1);
    add(0, 1);
    hold(true);
    ck_assert_int_eq(remove_page(0), DMA_OK); /* one user is left */
    ck_assert_uint_eq(fake_gpu_calls("host_unregister"), 0);
    ck_assert_int_eq(remove_page(0), DMA_AGAIN);
    add(1, 1);
    ck_assert_uint_eq(fake_gpu_pinned(), 2 * BYTES);
    ck_assert_int_eq(remove_page(1), DMA_AGAIN);
    hold(false);
    add(2, 1); /* both end */
    ck_assert_uint_eq(fake_gpu_pinned(), BYTES);
    ck_assert_int_eq(remove_page(2), DMA_OK);
    end();
}
END_TEST

/* A part of the memory, too. */
START_TEST(is_used_again)
{
    begin();
    add(0, 2);
    hold(true);
    ck_assert_int_eq(remove_page(0), DMA_AGAIN);
    add(1, 1);
    ck_assert_uint_eq(fake_gpu_calls("host_register"), 1);
    hold(false);
    add(0, 2);
    ck_assert_uint_eq(fake_gpu_calls("host_register"), 1);
    ck_assert_int_eq(remove_page(0), DMA_OK);
    ck_assert_uint_eq(fake_gpu_pinned(), 2 * BYTES);
    ck_assert_int_eq(remove_page(1), DMA_OK);
    end();
}
END_TEST

/* More than what is still registered cannot be registered yet. Nothing is lost by the attempt. */
START_TEST(is_in_the_way)
{
    uint64_t at;

    begin();
    add(0, 1);
    hold(true);
    ck_assert_int_eq(remove_page(0), DMA_AGAIN);
    fake_gpu_fail("host_register", 0, DMA_UNSUPPORTED); /* as CUDA does */
    ck_assert_int_eq(dma_registered_add(&list, rt, 0, memory, 2 * BYTES, &at), DMA_UNSUPPORTED);
    hold(false);
    add(0, 2);
    ck_assert_uint_eq(fake_gpu_pinned(), 2 * BYTES);
    ck_assert_int_eq(remove_page(0), DMA_OK);
    end();
}
END_TEST

START_TEST(the_process_ends)
{
    dma_gpu_scope_t scope;

    begin();
    add(0, 1);
    add(1, 1);
    hold(true);
    ck_assert_int_eq(remove_page(0), DMA_AGAIN);
    dma_registered_forget(&list);
    hold(false);
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(rt->host_unregister(memory), DMA_OK); /* it was left registered */
    ck_assert_int_eq(rt->host_unregister(memory + BYTES), DMA_OK);
    rt->leave(&scope);
    end();
}
END_TEST

static _Atomic bool waits;

static void *begin_to_wait(void *arg)
{
    dma_gpu_note_waiting_stream(true);
    atomic_store(&waits, true);
    return arg;
}

START_TEST(no_stream_begins_to_wait_meanwhile)
{
    pthread_t thread;

    atomic_store(&waits, false);
    ck_assert(dma_gpu_begin_blocking());
    ck_assert_int_eq(pthread_create(&thread, NULL, begin_to_wait, NULL), 0);
    usleep(30000);
    ck_assert(!atomic_load(&waits));
    dma_gpu_end_blocking();
    pthread_join(thread, NULL);
    ck_assert(!dma_gpu_begin_blocking());
    dma_gpu_note_waiting_stream(false);
    ck_assert(dma_gpu_begin_blocking());
    dma_gpu_end_blocking();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("registered");

    unit_test(s, ends_with_a_later_call, 10);
    unit_test(s, is_used_again, 10);
    unit_test(s, is_in_the_way, 10);
    unit_test(s, the_process_ends, 10);
    unit_test(s, no_stream_begins_to_wait_meanwhile, 10);
    return unit_main(s);
}
