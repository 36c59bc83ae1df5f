/*
 * Finding the runtime that the application has loaded, and reading its answers. Libraries with the names and functions
 * of the real ones replace them.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "gpu/cuda/cuda.h"
#include "gpu/hip/api.h"
#include "libunit.h"
#include "libvendor.h"

#define BASE 0x700000000000u

static unsigned lookups;  /* of names of libraries, by dlopen */
static unsigned searches; /* among the libraries that are loaded */

int __real_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);
int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg);

int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    searches++;
    return __real_dl_iterate_phdr(visit, arg);
}

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

/* For the product only: what the test itself loads is not affected. */
void *__wrap_dlopen(const char *name, int flags)
{
    if (!vendor_is_loading) {
        ck_assert_int_ne(flags & RTLD_NOLOAD, 0);
        lookups++;
    }
    return __real_dlopen(name, flags);
}

START_TEST(looked_for_only_when_a_library_was_loaded)
{
    fake_driver_t *driver;
    unsigned once;

    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    once = searches;
    ck_assert_uint_gt(once, 1);
    for (int i = 0; i < 1000; i++) {
        ck_assert_ptr_null(dma_gpu_runtime_loaded());
    }
    ck_assert_uint_eq(searches, once + 1000); /* for the number of libraries alone */
    once = searches;
    /* another library, not a runtime */
    ck_assert_ptr_nonnull(__real_dlopen("libm.so.6", RTLD_NOW));
    ck_assert_ptr_nonnull(__real_dlopen("libresolv.so.2", RTLD_NOW));
    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    ck_assert_uint_gt(searches, once + 1);
    ck_assert_uint_eq(lookups, 0); /* dlopen would look for files */
    vendor_cuda(&driver);
    once = lookups;
    ck_assert_ptr_nonnull(dma_gpu_runtime_loaded());
    ck_assert_uint_eq(lookups, once);
}
END_TEST

START_TEST(kept_loaded_once_found)
{
    void *library = vendor_load("libcuda.so.1", NULL);
    const dma_gpu_runtime_t *rt = dma_gpu_runtime_loaded();
    int count = 0;

    dlclose(library);
    ck_assert_ptr_eq(dma_gpu_runtime_loaded(), rt);
    ck_assert_int_eq(rt->device_count(&count), DMA_OK);
    ck_assert_int_eq(count, 2);
}
END_TEST

/* The file of a library can have any name: its soname counts. */
START_TEST(a_file_of_another_name)
{
    vendor_load_copy("libcuda.so.1", "driver");
    ck_assert_ptr_nonnull(dma_gpu_runtime_loaded());
}
END_TEST

START_TEST(too_old_a_driver_is_none)
{
    fake_driver_t *driver;

    vendor_load("libcuda.so.1", &driver);
    driver->version = 11030;
    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    ck_assert_ptr_nonnull(strstr(dma_gpu_error(), "11030"));
}
END_TEST

START_TEST(a_missing_call_is_named)
{
    vendor_load("libcuda_poor.so", NULL);
    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    ck_assert_ptr_nonnull(strstr(dma_gpu_error(), "lacks cu"));
}
END_TEST

/* HIP is loaded without ROCr: it has not been initialised yet. */
START_TEST(hip_counts_from_rocr_on)
{
    fake_driver_t *driver;

    vendor_load("libamdhip64.so.6", &driver);
    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    vendor_load("libhsa-runtime64.so.1", NULL);
    ck_assert_ptr_nonnull(dma_gpu_runtime_loaded());
}
END_TEST

START_TEST(of_two_the_one_with_devices)
{
    fake_driver_t *c, *h;

    vendor_load("libcuda.so.1", &c);
    vendor_load("libamdhip64.so.6", &h);
    vendor_load("libhsa-runtime64.so.1", NULL);
    c->error = CUDA_NOT_INITIALIZED;
    h->error = HIP_ERROR_NO_DEVICE;
    ck_assert_ptr_null(dma_gpu_runtime_loaded());
    if (_i == 0) {
        c->error = CUDA_DONE;
        ck_assert_str_eq(dma_gpu_runtime_loaded()->name, "cuda");
    } else {
        h->error = HIP_DONE;
        ck_assert_str_eq(dma_gpu_runtime_loaded()->name, "hip");
    }
}
END_TEST

static void *look(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        const dma_gpu_runtime_t *rt = dma_gpu_runtime_loaded();

        if (rt && (!rt->query || !rt->stream_create || !rt->copy)) {
            return (void *)1;
        }
    }
    return NULL;
}

START_TEST(threads_see_a_whole_table_or_none)
{
    pthread_t thread[4];
    void *bad;

    for (int i = 0; i < 4; i++) {
        pthread_create(&thread[i], NULL, look, NULL);
    }
    vendor_load("libcuda.so.1", NULL);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &bad);
        ck_assert_ptr_null(bad);
    }
}
END_TEST

static dma_gpu_memory_t classify(const dma_gpu_runtime_t *rt, uint64_t addr)
{
    dma_gpu_memory_t memory;

    dma_gpu_classify(rt, addr, 100, &memory);
    return memory;
}

static const struct {
    fake_driver_t says;
    dma_gpu_kind_t kind;
    unsigned queries, again; /* driver calls of the first query and of the next */
} cuda_rows[] = {
    {{.type = CUDA_TYPE_DEVICE, .ipc = 1}, DMA_GPU_DEVICE_PLAIN, 1, 1},
    {{.type = 0}, DMA_GPU_HOST, 1, 1},
    {{.type = CUDA_TYPE_DEVICE, .ipc = 1, .pool = 99}, DMA_GPU_DEVICE_POOL, 1, 1},
    {{.type = CUDA_TYPE_DEVICE, .managed = 1}, DMA_GPU_MANAGED, 1, 1},
    {{.type = CUDA_TYPE_HOST, .managed = 1}, DMA_GPU_MANAGED, 1, 1},
    {{.type = CUDA_TYPE_DEVICE, .vmm = true}, DMA_GPU_DEVICE_VMM, 3, 2}, /* also: can it be shared? */
    {{.type = CUDA_TYPE_DEVICE}, DMA_GPU_DEVICE_IMPORTED, 2, 1},
    /* or registered: the driver gives the same answer for both */
    {{.type = CUDA_TYPE_HOST}, DMA_GPU_HOST_PINNED, 1, 1},
    {{.type = 3}, DMA_GPU_UNKNOWN, 1, 1},
};
#define CUDA_ROWS (int)(sizeof(cuda_rows) / sizeof(cuda_rows[0]))

START_TEST(kinds_of_cuda)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    dma_gpu_memory_t m;

    rt = vendor_cuda(&driver);
    *driver = cuda_rows[_i].says;
    driver->base = BASE;
    driver->size = 5ull << 30;
    driver->ordinal = 1;
    driver->id = 42;
    m = classify(rt, BASE + 1000);
    ck_assert_int_eq(m.kind, cuda_rows[_i].kind);
    ck_assert_int_eq(m.exportable, cuda_rows[_i].kind == DMA_GPU_DEVICE_PLAIN);
    ck_assert_uint_eq(driver->queries, cuda_rows[_i].queries);
    if (m.kind != DMA_GPU_HOST) {
        ck_assert_int_eq(m.device, 1);
        ck_assert_uint_eq(m.base, BASE);
        ck_assert_uint_eq(m.size, 5ull << 30);
        ck_assert_uint_eq(m.buffer_id, 42);
        ck_assert_uint_eq(m.device_addr, BASE + 1000);
    }
    driver->queries = 0;
    ck_assert_int_eq(classify(rt, BASE + 2000).kind, cuda_rows[_i].kind);
    ck_assert_uint_eq(driver->queries, cuda_rows[_i].again);
    ck_assert_int_eq(classify(rt, BASE - 1).kind, DMA_GPU_HOST);
}
END_TEST

START_TEST(cuda_not_begun_or_over)
{
    static const unsigned gone[] = {CUDA_NOT_INITIALIZED, CUDA_DEINITIALIZED, CUDA_NO_DEVICE, CUDA_CONTEXT_DESTROYED};
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    int count;

    rt = vendor_cuda(&driver);
    driver->base = BASE;
    driver->size = 1000;
    driver->type = CUDA_TYPE_DEVICE;
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        driver->error = gone[i];
        ck_assert_int_eq(classify(rt, BASE).kind, DMA_GPU_HOST);
    }
    driver->error = CUDA_NOT_INITIALIZED;
    ck_assert_int_eq(rt->device_count(&count), DMA_UNSUPPORTED);
    driver->error = 700; /* a kernel has faulted: nothing is known, and the CPU must not access the memory */
    ck_assert_int_eq(classify(rt, BASE).kind, DMA_GPU_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(dma_gpu_error(), "700"));
    ck_assert_uint_eq(driver->retained, 0);
}
END_TEST

START_TEST(a_thread_without_a_context)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    dma_gpu_scope_t scope;
    int device;

    rt = vendor_cuda(&driver);
    driver->base = BASE;
    driver->size = 1000;
    driver->type = CUDA_TYPE_DEVICE;
    driver->ipc = 1;
    driver->needs_context = true;
    ck_assert_int_eq(classify(rt, BASE).kind, DMA_GPU_DEVICE_PLAIN);
    ck_assert_int_ne((int)dma_cuda.ctx_get_device(&device), CUDA_DONE); /* as before */
    ck_assert_uint_eq(driver->retained, 0);
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq((int)dma_cuda.ctx_get_device(&device), CUDA_DONE);
    ck_assert_int_eq(device, 0);
    rt->leave(&scope);
    ck_assert_int_ne((int)dma_cuda.ctx_get_device(&device), CUDA_DONE);
    ck_assert_uint_eq(driver->retained, 1);
}
END_TEST

/* Loop variable: whether the context has another handle after the reset. */
START_TEST(scopes_nest_until_a_reset)
{
    unsigned (*reset)(int device);
    const dma_gpu_runtime_t *rt;
    dma_gpu_scope_t outer, inner;
    fake_driver_t *driver;
    int device;

    rt = vendor_cuda(&driver);
    driver->new_handles = _i;
    *(void **)&reset = vendor_call("libcuda.so.1", "cuDevicePrimaryCtxReset_v2");
    ck_assert_int_eq(rt->enter(1, &outer), DMA_OK);
    ck_assert_int_eq(rt->enter(1, &inner), DMA_OK); /* nothing to do */
    rt->leave(&inner);
    ck_assert_int_eq((int)dma_cuda.ctx_get_device(&device), CUDA_DONE);
    ck_assert_int_eq(device, 1);
    rt->leave(&outer);
    ck_assert_uint_eq(driver->retained, 1);
    /* as drivers do: the context can be pushed nevertheless, and nothing works in it until it is retained again */
    reset(1);
    ck_assert_int_eq(rt->enter(1, &outer), DMA_ERR_ENGINE);
    ck_assert_uint_eq(driver->activated, 0);
    ck_assert_int_eq(rt->enter(64, &outer), DMA_UNSUPPORTED);
    ck_assert_int_eq(rt->enter(-1, &outer), DMA_UNSUPPORTED);
}
END_TEST

START_TEST(pci_addresses)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    dma_gpu_pci_t pci;

    rt = vendor_cuda(&driver);
    ck_assert_int_eq(rt->device_pci(0, &pci), DMA_OK);
    ck_assert_uint_eq(pci.domain, 0);
    ck_assert_uint_eq(pci.bus, 0x0a);
    ck_assert_uint_eq(pci.device, 0x1f);
    ck_assert_int_eq(rt->device_pci(1, &pci), DMA_OK);
    ck_assert_uint_eq(pci.domain, 1);
    ck_assert_uint_eq(pci.bus, 0xc1);
    ck_assert(rt->takes_turns(0)); /* a driver that does not know of MPS */
}
END_TEST

/* Partitions of a device differ only in the PCI function, which HIP reports from 6.2 on. Before, it always reports 0. */
START_TEST(pci_addresses_of_partitions)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;

    rt = vendor_hip(&driver, _i ? 60200000 : 60140093);
    for (int device = 0; device < 2; device++) {
        dma_gpu_pci_t pci;

        ck_assert_int_eq(rt->device_pci(device, &pci), DMA_OK);
        ck_assert_uint_eq(pci.domain, 1);
        ck_assert_uint_eq(pci.bus, 0xc1);
        ck_assert_uint_eq(pci.device, 0x1f);
        ck_assert_int_eq(pci.has_function, _i);
        ck_assert_uint_eq(pci.function, _i && device ? 3 : 0);
    }
}
END_TEST

#define COARSE HSA_FLAG_COARSE_GRAINED
#define FINE   HSA_FLAG_FINE_GRAINED

/* For HIP 6, whose memory types begin with 1 (host) and 2 (device). */
static const struct {
    fake_driver_t says;
    dma_gpu_kind_t kind;
} hip_rows[] = {
    {{.type = 2, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = COARSE}, DMA_GPU_DEVICE_PLAIN},
    {{.type = 2, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = FINE}, DMA_GPU_DEVICE_FINE},
    {{.type = 2, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = COARSE | FINE}, DMA_GPU_DEVICE_FINE},
    {{.type = 2, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = 8}, DMA_GPU_DEVICE_FINE},
    {{.type = 2, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = COARSE, .pool = 5}, DMA_GPU_DEVICE_POOL},
    {{.type = 2, .hsa_type = HSA_POINTER_VMEM, .hsa_flags = COARSE}, DMA_GPU_DEVICE_VMM},
    {{.type = 2, .hsa_type = HSA_POINTER_RESERVED}, DMA_GPU_DEVICE_VMM},
    {{.type = 2, .hsa_type = HSA_POINTER_IPC, .hsa_flags = COARSE}, DMA_GPU_DEVICE_IMPORTED},
    {{.type = 2, .hsa_type = HSA_POINTER_GRAPHICS}, DMA_GPU_DEVICE_IMPORTED},
    {{.type = 2, .hsa_type = HSA_POINTER_UNKNOWN}, DMA_GPU_UNKNOWN},
    {{.type = 2, .hsa_type = 77, .hsa_flags = COARSE}, DMA_GPU_UNKNOWN},
    {{.type = 2, .managed = 1, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = COARSE}, DMA_GPU_MANAGED},
    {{.type = 1, .managed = 1, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = FINE}, DMA_GPU_MANAGED},
    {{.type = 1, .hsa_type = HSA_POINTER_ALLOCATED, .hsa_flags = FINE}, DMA_GPU_HOST_PINNED},
    {{.type = 1, .hsa_type = HSA_POINTER_LOCKED, .hsa_flags = FINE, .hsa_agent = BASE * 2}, DMA_GPU_HOST_REGISTERED},
};
#define HIP_ROWS (int)(sizeof(hip_rows) / sizeof(hip_rows[0]))

/* Loop variable: HIP 5, where memory types begin with 0, then HIP 6. */
START_TEST(kinds_of_hip)
{
    int row = _i % HIP_ROWS, version = _i < HIP_ROWS ? 50221153 : 60300000;
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    dma_gpu_memory_t m;

    rt = vendor_hip(&driver, version);
    *driver = hip_rows[row].says;
    driver->type -= version < HIP_6;
    driver->base = BASE;
    driver->size = (5ull << 30) + 100;
    driver->hsa_size = (5ull << 30) + 4096;
    driver->ordinal = 1;
    driver->id = 42;
    m = classify(rt, BASE + 1000);
    ck_assert_int_eq(m.kind, hip_rows[row].kind);
    ck_assert_int_eq(m.exportable, m.kind == DMA_GPU_DEVICE_PLAIN);
    ck_assert_int_eq(m.device, 1);
    ck_assert_uint_eq(m.buffer_id, 42);
    if (hip_rows[row].says.hsa_type != HSA_POINTER_UNKNOWN) {
        ck_assert_uint_eq(m.base, BASE);
        ck_assert_uint_eq(m.size, (5ull << 30) + 100); /* HIP itself reports 32 bits of it */
        ck_assert_uint_eq(m.device_addr, (driver->hsa_agent ? driver->hsa_agent : BASE) + 1000);
        driver->queries = 0;
        m = classify(rt, BASE + (5ull << 30));
        ck_assert_int_eq(m.kind, hip_rows[row].kind);
        ck_assert_uint_eq(driver->queries, 1);
    }
    /* another allocation at the same address */
    driver->id += 32; /* which the cache most likely keeps at the same place */
    driver->hsa_type = HSA_POINTER_IPC;
    driver->type = version < HIP_6 ? 1 : 2;
    driver->managed = 0;
    ck_assert_int_eq(classify(rt, BASE + 1000).kind, DMA_GPU_DEVICE_IMPORTED);
    ck_assert_int_eq(classify(rt, BASE - 1).kind, DMA_GPU_HOST);
}
END_TEST

START_TEST(hip_is_not_begun_by_a_question)
{
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    int count;

    rt = vendor_hip(&driver, 60300000);
    driver->closed = true;
    driver->base = BASE;
    driver->size = driver->hsa_size = 4096;
    ck_assert_int_eq(classify(rt, BASE).kind, DMA_GPU_HOST);
    ck_assert_int_eq(rt->device_count(&count), DMA_UNSUPPORTED);
    ck_assert_uint_eq(driver->calls, 0);
    driver->closed = false;
    ck_assert_int_ne(classify(rt, BASE).kind, DMA_GPU_HOST);
    ck_assert_uint_gt(driver->calls, 0);
}
END_TEST

START_TEST(hip_flags_errors_and_scopes)
{
    const dma_gpu_runtime_t *rt;
    dma_gpu_stream_t *stream;
    dma_gpu_handle_t handle;
    dma_gpu_scope_t scope;
    fake_driver_t *driver;
    uint64_t addr = 1;

    memset(&handle, 0, sizeof(handle));
    rt = vendor_hip(&driver, _i ? 60300000 : 50221153);
    ck_assert_int_eq(rt->ipc_open(&handle, &addr), DMA_OK);
    ck_assert_uint_eq(driver->open_flags, _i ? 1 : 0);
    addr = 1;
    ck_assert_int_eq(rt->alloc(100, &addr), DMA_ERR_NOMEM);
    ck_assert_uint_eq(addr, 1);
    ck_assert_str_eq(dma_gpu_error(), "hipMalloc: out of memory (2)");
    ck_assert_uint_eq(driver->last_error, 0); /* the application must not see it */
    ck_assert_int_eq(rt->stream_create(&stream), DMA_OK);
    ck_assert_int_eq(rt->stream_query(stream), DMA_AGAIN);
    ck_assert_int_eq(rt->stream_destroy(stream), DMA_OK);
    driver->device = 1;
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(driver->device, 0);
    rt->leave(&scope);
    ck_assert_int_eq(driver->device, 1);
    ck_assert_int_eq(rt->enter(1, &scope), DMA_OK);
    rt->leave(&scope);
    ck_assert_int_eq(driver->device, 1);
}
END_TEST

/* The capture mode of this thread, which the application has set. It becomes `mode`. */
static unsigned capture_mode(void *library, unsigned mode)
{
    void *symbol = dlsym(library, "cuThreadExchangeStreamCaptureMode");
    unsigned (*exchange)(unsigned *);

    *(void **)&exchange = symbol ? symbol : dlsym(library, "hipThreadExchangeStreamCaptureMode");
    ck_assert_uint_eq(exchange(&mode), 0);
    return mode;
}

/* Another thread, or this one, captures a stream during collectives. They are no part of the capture and do not
 * invalidate it. Loop variable: HIP or CUDA, and the mode that this thread has set. */
START_TEST(captures_go_on)
{
    static const char *const names[] = {"libcuda.so.1", "libamdhip64.so.6"};
    unsigned mode = (unsigned)_i / 2;
    dma_gpu_scope_t outer, inner;
    dma_gpu_stream_t *stream;
    dma_gpu_event_t *event;
    const dma_gpu_runtime_t *rt;
    dma_gpu_handle_t handle;
    fake_driver_t *driver;
    uint64_t addr;
    void *library;

    memset(&handle, 0, sizeof(handle));
    rt = _i % 2 ? vendor_hip(&driver, 60300000) : vendor_cuda(&driver);
    library = vendor_load(names[_i % 2], NULL);
    capture_mode(library, mode);
    driver->base = BASE;
    driver->size = driver->hsa_size = 4096;
    driver->type = CUDA_TYPE_DEVICE;
    driver->vmm = true;
    driver->capturing = true;
    classify(rt, BASE);
    ck_assert_int_eq(rt->enter(0, &outer), DMA_OK);
    ck_assert_int_eq(rt->enter(1, &inner), DMA_OK);
    ck_assert_int_eq(rt->ipc_open(&handle, &addr), DMA_OK);
    rt->leave(&inner);
    ck_assert_int_eq(rt->host_register(&addr, 8, &addr), DMA_OK);
    ck_assert_int_eq(rt->event_create(&event), DMA_OK);
    ck_assert_int_eq(rt->event_query(event), DMA_OK);
    (void)rt->alloc(100, &addr);
    (void)rt->copy(1, 2, 3);
    ck_assert_int_eq(rt->stream_create(&stream), DMA_OK);
    (void)rt->stream_query(stream);
    (void)rt->stream_destroy(stream);
    rt->leave(&outer);
    if (_i % 2 == 0) {
        ck_assert_int_ne(rt->enter(99, &outer), DMA_OK);
    }
    ck_assert_uint_eq(capture_mode(library, mode), mode);
    ck_assert_uint_eq(driver->spoilt, 0);
    /* the libraries do notice this */
    ck_assert_int_ne(rt->event_query(event), DMA_OK);
    ck_assert_uint_eq(driver->spoilt, 1);
    ck_assert_int_eq(rt->enter(0, &outer), DMA_OK);
    (void)rt->event_destroy(event);
    rt->leave(&outer);
}
END_TEST

/* Events with timing say how far they are apart, others cannot; a runtime without the call has none. */
START_TEST(timed_events)
{
    dma_gpu_event_t *timed, *other;
    const dma_gpu_runtime_t *rt;
    fake_driver_t *driver;
    dma_gpu_scope_t scope;
    double ns = 0;

    rt = _i ? vendor_hip(&driver, 60300000) : vendor_cuda(&driver);
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    ck_assert_int_eq(rt->event_create_timed(&timed), DMA_OK);
    ck_assert_int_eq(rt->event_create(&other), DMA_OK);
    ck_assert_int_eq(rt->event_elapsed(timed, timed, &ns), DMA_OK);
    ck_assert_double_eq_tol(ns, 1.5e6, 1);
    ck_assert_int_eq(rt->event_elapsed(timed, other, &ns), DMA_ERR_ENGINE);
    ck_assert_int_eq(rt->event_destroy(other), DMA_OK);
    ck_assert_int_eq(rt->event_destroy(timed), DMA_OK);
    rt->leave(&scope);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_runtime");

    unit_test(suite, looked_for_only_when_a_library_was_loaded, 10);
    unit_test(suite, kept_loaded_once_found, 10);
    unit_test(suite, a_file_of_another_name, 10);
    unit_test(suite, too_old_a_driver_is_none, 10);
    unit_test(suite, a_missing_call_is_named, 10);
    unit_test(suite, hip_counts_from_rocr_on, 10);
    unit_loop(suite, of_two_the_one_with_devices, 0, 2, 10);
    unit_test(suite, threads_see_a_whole_table_or_none, 20);
    unit_loop(suite, kinds_of_cuda, 0, CUDA_ROWS, 10);
    unit_test(suite, cuda_not_begun_or_over, 10);
    unit_test(suite, a_thread_without_a_context, 10);
    unit_loop(suite, scopes_nest_until_a_reset, 0, 2, 10);
    unit_test(suite, pci_addresses, 10);
    unit_loop(suite, pci_addresses_of_partitions, 0, 2, 10);
    unit_loop(suite, kinds_of_hip, 0, 2 * HIP_ROWS, 10);
    unit_test(suite, hip_is_not_begun_by_a_question, 10);
    unit_loop(suite, hip_flags_errors_and_scopes, 0, 2, 10);
    unit_loop(suite, captures_go_on, 0, 4, 10);
    unit_loop(suite, timed_events, 0, 2, 20);
    return unit_main(suite);
}
