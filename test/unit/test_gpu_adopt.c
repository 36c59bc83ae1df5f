/*
 * Memory of the application in calls: CUDA is told once for each allocation and thread that synchronous copies from
 * and to it must be complete when they return. Where the driver refuses or cannot do it, nothing is changed.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "gpu/cuda/api.h"
#include "libunit.h"
#include "libvendor.h"

#define BASE 0x700000000000u

static const char *hidden; /* a function that the library lacks */

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

void *__wrap_dlsym(void *library, const char *name)
{
    return hidden && strcmp(name, hidden) == 0 ? NULL : __real_dlsym(library, name);
}

static uint64_t first_id = 1; /* ids of a test; a process never uses an id again */

static const dma_gpu_runtime_t *open_with_memory(fake_driver_t **driver, uint64_t base)
{
    const dma_gpu_runtime_t *rt = vendor_cuda(driver);

    first_id += 1024;
    (*driver)->base = base;
    (*driver)->size = 4096;
    (*driver)->type = CUDA_TYPE_DEVICE;
    (*driver)->ipc = 1;
    (*driver)->id = first_id;
    return rt;
}

static void use(const dma_gpu_runtime_t *rt, uint64_t addr)
{
    dma_gpu_memory_t memory;

    dma_gpu_classify(rt, addr, 8, &memory);
    rt->adopt(&memory);
}

/* The application's cudaMemcpy. */
static unsigned (*copy_in)(cuda_addr_t to, const void *from, size_t bytes);

START_TEST(copies_are_late_until_then)
{
    uint64_t word = 0, one = 1, two = 2;
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;

    rt = open_with_memory(&driver, (uintptr_t)&word);
    *(void **)&copy_in = vendor_call("libcuda.so.1", "cuMemcpyHtoD_v2");
    copy_in((uintptr_t)&word, &one, sizeof(one));
    ck_assert_uint_eq(word, 0);
    use(rt, (uintptr_t)&word);
    ck_assert_uint_eq(word, 1);
    copy_in((uintptr_t)&word, &two, sizeof(two));
    ck_assert_uint_eq(word, 2);
    driver->id = first_id + 32; /* freed, and allocated again at the same address */
    copy_in((uintptr_t)&word, &one, sizeof(one));
    ck_assert_uint_eq(word, 2);
    use(rt, (uintptr_t)&word);
    ck_assert_uint_eq(word, 1);
}
END_TEST

/* Uses memory of ten allocations in turn. The ids of three of them have the same remainder. */
static void use_ten(const dma_gpu_runtime_t *rt, fake_driver_t *driver)
{
    for (uint64_t i = 0; i < 10; i++) {
        driver->id = first_id + (i < 8 ? i : 32 * (i - 7));
        use(rt, BASE + i);
    }
}

typedef struct thread_arg {
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
} thread_arg_t;

static void *other_thread(void *arg)
{
    const thread_arg_t *a = arg;

    use_ten(a->rt, a->driver);
    use_ten(a->rt, a->driver);
    return NULL;
}

/* Loop variable: what the driver answers. */
START_TEST(once_for_each_allocation_and_thread)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    pthread_t thread;
    thread_arg_t arg;
    unsigned calls;

    rt = open_with_memory(&driver, BASE);
    driver->refuses = _i;
    use_ten(rt, driver);
    ck_assert_uint_eq(driver->adopted, 10);
    calls = driver->calls;
    driver->queries = 0;
    for (int i = 0; i < 20; i++) {
        use_ten(rt, driver);
    }
    ck_assert_uint_eq(driver->adopted, 10);
    ck_assert_uint_eq(driver->queries, 200); /* the call that asks for the id */
    ck_assert_uint_eq(driver->calls, calls); /* no context was pushed */
    arg = (thread_arg_t){rt, driver};
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &arg), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(driver->adopted, 20);
}
END_TEST

/* The driver is asked for every kind of memory. Without an id it would have to be asked in every call. */
START_TEST(kinds_and_memory_without_an_id)
{
    static const fake_driver_t says[] = {{.ipc = 1}, {.pool = 9}, {.vmm = true}, {.ipc = 0}};
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;

    rt = open_with_memory(&driver, BASE);
    for (uint64_t i = 0; i < 4; i++) {
        driver->ipc = says[i].ipc;
        driver->pool = says[i].pool;
        driver->vmm = says[i].vmm;
        driver->id = first_id + i;
        use(rt, BASE);
        use(rt, BASE + 8);
    }
    ck_assert_uint_eq(driver->adopted, 4);
    driver->id = 0;
    use(rt, BASE);
    ck_assert_uint_eq(driver->adopted, 4);
}
END_TEST

/* The call is made in the context of the device, whatever the current context of the thread. Afterwards that one is
 * current again. */
START_TEST(in_the_context_of_the_device)
{
    unsigned (*current)(struct CUctx_st **);
    const dma_gpu_runtime_t *rt;
    dma_gpu_scope_t scope;
    fake_driver_t *driver;
    struct CUctx_st *before, *after;

    rt = open_with_memory(&driver, BASE);
    driver->ordinal = 1;
    *(void **)&current = vendor_call("libcuda.so.1", "cuCtxGetCurrent");
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    current(&before);
    use(rt, BASE);
    current(&after);
    ck_assert_ptr_eq(before, after);
    rt->leave(&scope);
    ck_assert_uint_eq(driver->adopted, 1);
    ck_assert_uint_eq(driver->retained, 2);
}
END_TEST

/* A thread captures a stream at the same time. The call would invalidate the capture. */
START_TEST(beside_a_capture)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;

    rt = open_with_memory(&driver, BASE);
    driver->capturing = true;
    use(rt, BASE);
    ck_assert_uint_eq(driver->adopted, 1);
    ck_assert_uint_eq(driver->spoilt, 0);
}
END_TEST

START_TEST(a_driver_without_the_call)
{
    fake_driver_t *driver;

    hidden = "cuPointerSetAttribute";
    ck_assert_ptr_null(vendor_cuda(&driver)->adopt);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_adopt");

    unit_test(suite, copies_are_late_until_then, 10);
    unit_loop(suite, once_for_each_allocation_and_thread, 0, 2, 10);
    unit_test(suite, kinds_and_memory_without_an_id, 10);
    unit_test(suite, in_the_context_of_the_device, 10);
    unit_test(suite, beside_a_capture, 10);
    unit_test(suite, a_driver_without_the_call, 10);
    return unit_main_isolated(suite);
}
